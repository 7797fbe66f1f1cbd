"""Parts of a commit that depend on its version: timestamps, row ids and row commit versions.

Each attempt computes these parts again, because they depend on the commits that won before it
(PROTOCOL.md, In-Commit Timestamps and Row Tracking).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bayou.errors import ArgumentError
from bayou.json_decoding import decode_json
from bayou.kernel.log.commit_times import commit_timestamp, in_commit_time
from bayou.kernel.log.replay import CommitActions
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.transaction.commit_contents import num_records
from bayou.protocol.actions import AddFile, CommitInfo, DomainMetadata, Metadata

ROW_TRACKING_DOMAIN = "delta.rowTracking"
ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


class _HighWaterMark(msgspec.Struct, frozen=True, rename="camel"):
    row_id_high_water_mark: int = -1


def in_commit_timestamp(
    now: int, state: TableState | None, winners: Sequence[CommitActions]
) -> int:
    """Return the in-commit timestamp of a new commit, ms since the epoch.

    This is the later of `now` and the previous commit's timestamp plus 1. If the previous commit
    has no in-commit timestamp, its timestamp is the modification time of its file or
    `commitInfo.timestamp`, whichever is later.
    """
    if state is None:
        return now
    previous = commit_timestamp(state)
    for winner in winners:
        timestamp = in_commit_time(winner.actions)
        # Readers also increase file times that aren't ascending.
        previous = max(_file_time(winner), previous + 1) if timestamp is None else timestamp
    return max(now, previous + 1)


def metadata_after(state: TableState | None, winners: Sequence[CommitActions]) -> Metadata | None:
    """Return the table's metadata after the winning commits; None if the table is new."""
    metadata = None if state is None else state.metadata
    for winner in winners:
        metadata = next((a for a in winner.actions if isinstance(a, Metadata)), metadata)
    return metadata


def commit_info_after(
    state: TableState | None, winners: Sequence[CommitActions]
) -> CommitInfo | None:
    """Return `commitInfo` of the last winning commit, or of the read version if no commit won."""
    if winners:
        return next((a for a in winners[-1].actions if isinstance(a, CommitInfo)), None)
    return None if state is None else state.replay_state.commit_info


def with_enablement(metadata: Metadata, version: int, timestamp: int) -> Metadata:
    """Return the metadata with the version and time at which in-commit timestamps are enabled."""
    return msgspec.structs.replace(
        metadata,
        configuration={
            **metadata.configuration,
            ENABLEMENT_VERSION: str(version),
            ENABLEMENT_TIMESTAMP: str(timestamp),
        },
    )


def high_water_mark(state: TableState | None, winners: Sequence[CommitActions]) -> int:
    """Return the row id high water mark after the winning commits; -1 if there are no row ids."""
    configuration = None if state is None else state.domain_metadata.get(ROW_TRACKING_DOMAIN)
    for winner in winners:
        for action in winner.actions:
            if isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN:
                configuration = action.configuration
    if not configuration:
        return -1
    return decode_json(configuration, _HighWaterMark).row_id_high_water_mark


def with_row_ids(
    table: str, adds: Iterable[AddFile], mark: int, version: int
) -> tuple[list[AddFile], DomainMetadata]:
    """Assign row ids and row commit versions to `add` actions that have none.

    Files that a RESTORE adds, and files with a new deletion vector, already have row ids. Existing
    row ids can be above `mark`, because dropping row tracking resets the high water mark.

    Args:
        mark: high water mark before the commit, -1 if no row ids were assigned.
        version: the version to commit.

    Returns:
        All `add` actions, and the action that sets the new high water mark.
    """
    adds = list(adds)
    for add in adds:
        if add.base_row_id is not None and add.base_row_id > mark:
            mark = max(mark, add.base_row_id + _num_rows(table, add) - 1)
    tracked: list[AddFile] = []
    for add in adds:
        changes: dict[str, Any] = {}
        if add.base_row_id is None:
            changes["base_row_id"] = mark + 1
            mark += _num_rows(table, add)
        if add.default_row_commit_version is None:
            changes["default_row_commit_version"] = version
        tracked.append(msgspec.structs.replace(add, **changes) if changes else add)
    configuration = msgspec.json.encode({"rowIdHighWaterMark": mark}).decode()
    return tracked, DomainMetadata(
        domain=ROW_TRACKING_DOMAIN, configuration=configuration, removed=False
    )


def _file_time(winner: CommitActions) -> int:
    """Return a commit file's modification time or `commitInfo.timestamp`, whichever is later."""
    info = next((a for a in winner.actions if isinstance(a, CommitInfo)), None)
    timestamp = None if info is None else info.integer("timestamp")
    return max(winner.file.modification_time, timestamp or 0)


def _num_rows(table: str, add: AddFile) -> int:
    """Return the number of row ids of a file: one for each row, including deleted rows.

    Some writers exclude deleted rows from `numRecords`. If this can't be ruled out, the number of
    deleted rows is added.
    """
    rows = num_records(add.stats)
    if rows is None:
        raise ArgumentError(
            f"{table}: file {add.path} has no numRecords in its statistics, which row tracking "
            "requires. Write the file with statistics.",
            argument="actions",
        )
    if add.deletion_vector is None or ScanFile(table_root=table, add=add).num_records is not None:
        return rows
    return rows + add.deletion_vector.cardinality
