"""What of a commit depends on the version it becomes: timestamps, row ids, commit versions.

Each attempt asks anew, so that a commit that lost goes behind the winner with ids and a timestamp
of its own (PROTOCOL.md, In-Commit Timestamps and Row Tracking).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bayou.errors import ArgumentError
from bayou.kernel.log.commit_times import commit_timestamp, in_commit_time
from bayou.kernel.log.replay import CommitActions
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.transaction.commit_contents import num_records
from bayou.protocol.actions import AddFile, CommitInfo, DomainMetadata, Metadata
from bayou.protocol.json_decoding import decode_json

__all__ = [
    "ENABLEMENT_TIMESTAMP",
    "ENABLEMENT_VERSION",
    "ROW_TRACKING_DOMAIN",
    "commit_info_behind",
    "high_water_mark",
    "in_commit_timestamp",
    "metadata_behind",
    "with_enablement",
    "with_row_ids",
]

ROW_TRACKING_DOMAIN = "delta.rowTracking"
ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


class _HighWaterMark(msgspec.Struct, frozen=True, rename="camel"):
    row_id_high_water_mark: int = -1


def in_commit_timestamp(
    now: int, state: TableState | None, winners: Sequence[CommitActions]
) -> int:
    """Ms since the epoch: now, but later than that of the version before.

    A version without one has the time of its file, so that times still ascend where in-commit
    timestamps begin behind commits of a clock that is ahead.
    """
    if state is None:
        return now
    previous = commit_timestamp(state)
    for winner in winners:
        stamp = in_commit_time(winner.actions)
        # Times of files ascend as readers see them: they raise those that don't.
        previous = max(_told_time(winner), previous + 1) if stamp is None else stamp
    return max(now, previous + 1)


def metadata_behind(state: TableState | None, winners: Sequence[CommitActions]) -> Metadata | None:
    """The table's metadata behind the commits that won; None for a new table."""
    metadata = None if state is None else state.metadata
    for winner in winners:
        metadata = next((a for a in winner.actions if isinstance(a, Metadata)), metadata)
    return metadata


def commit_info_behind(
    state: TableState | None, winners: Sequence[CommitActions]
) -> CommitInfo | None:
    """The commitInfo of the last of the commits that won, or of the state where there is none."""
    if winners:
        return next((a for a in winners[-1].actions if isinstance(a, CommitInfo)), None)
    return None if state is None else state.replay_state.commit_info


def with_enablement(metadata: Metadata, version: int, timestamp: int) -> Metadata:
    """Metadata that turns in-commit timestamps on in an existing table says from when."""
    return msgspec.structs.replace(
        metadata,
        configuration={
            **metadata.configuration,
            ENABLEMENT_VERSION: str(version),
            ENABLEMENT_TIMESTAMP: str(timestamp),
        },
    )


def high_water_mark(state: TableState | None, winners: Sequence[CommitActions]) -> int:
    """The highest row id given out so far, -1 for none."""
    text = None if state is None else state.domain_metadata.get(ROW_TRACKING_DOMAIN)
    for winner in winners:
        for action in winner.actions:
            if isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN:
                text = action.configuration
    if not text:
        return -1
    return decode_json(text, _HighWaterMark).row_id_high_water_mark


def with_row_ids(
    table: str, adds: Iterable[AddFile], mark: int, version: int
) -> tuple[list[AddFile], DomainMetadata]:
    """Adds with row ids above a mark and with the commit's version, and the new mark.

    Files that have both already (rewritten without a change of rows, or with another deletion
    vector) keep them, and the mark isn't below their ids: where the feature was dropped it began
    anew, and RESTORE brings files of the time before.

    Raises:
        ArgumentError: a file without the number of its rows.
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
    text = msgspec.json.encode({"rowIdHighWaterMark": mark}).decode()
    return tracked, DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=text, removed=False)


def _told_time(winner: CommitActions) -> int:
    """Time of a commit's file in ms; where it isn't known, by its writer's clock."""
    info = next((a for a in winner.actions if isinstance(a, CommitInfo)), None)
    made = None if info is None else info.integer("timestamp")
    return max(winner.file.modification_time, made or 0)


def _num_rows(table: str, add: AddFile) -> int:
    """Ids that a file takes: one a row, deleted ones included.

    Statistics of a file with a deletion vector may count the rows without those: then some more.
    """
    rows = num_records(add.stats)
    if rows is None:
        raise ArgumentError(
            f"{add.path} of {table} has no statistics with numRecords; a table with row "
            "tracking needs them, to give its rows ids.",
            argument="actions",
        )
    if add.deletion_vector is None or ScanFile(table_root=table, add=add).num_records is not None:
        return rows
    return rows + add.deletion_vector.cardinality
