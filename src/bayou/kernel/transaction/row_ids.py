"""Row ids and row commit versions of a commit's `add` actions (PROTOCOL.md, Row Tracking).

Each attempt of a commit assigns the ids and versions again, because they depend on the winning
commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bayou.errors import ArgumentError
from bayou.json_decoding import decode_json
from bayou.kernel.log.replay import CommitActions
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.transaction.commit_file_actions import num_records
from bayou.protocol.actions import AddFile, DomainMetadata

ROW_TRACKING_DOMAIN = "delta.rowTracking"


class _HighWaterMark(msgspec.Struct, frozen=True, rename="camel"):
    row_id_high_water_mark: int = -1


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

    Files that a RESTORE adds, and files with a new deletion vector, already have row ids. These row
    ids can be above `mark`, because dropping row tracking resets the high water mark. The new high
    water mark is at least the last row id of every file.

    The high water mark is computed from `numRecords` of files that get row ids, and of files whose
    first row id is above `mark`. For these files, a missing `numRecords` is an error.

    Args:
        mark: high water mark before the commit, -1 if no row ids were assigned.
        version: the version to commit.

    Returns:
        All `add` actions, and the action that sets the new high water mark.
    """
    adds = list(adds)
    for add in adds:
        if add.base_row_id is not None:
            rows = _num_rows(table, add, required=add.base_row_id > mark)
            mark = max(mark, add.base_row_id + rows - 1)
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


def _num_rows(table: str, add: AddFile, *, required: bool = True) -> int:
    """Return the number of row ids of a file: one for each row, including deleted rows.

    Some writers exclude deleted rows from `numRecords`. If this is possible for the file, the
    number of its deleted rows is added.

    Args:
        required: whether a missing `numRecords` is an error. If False, the result is 0 in this
            case.
    """
    rows = num_records(add.stats)
    if rows is None:
        if not required:
            return 0
        raise ArgumentError(
            f"{table}: row tracking requires the statistic numRecords of each file, and file "
            f"{add.path} has none. Write the file with statistics.",
            argument="actions",
        )
    if add.deletion_vector is None or ScanFile(table_root=table, add=add).num_records is not None:
        return rows
    return rows + add.deletion_vector.cardinality
