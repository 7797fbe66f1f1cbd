"""The number and total size of the live files of a version, from its checksum or its log."""

from __future__ import annotations

from bayou.kernel.crc.read import FileTotals, checksum_totals, read_checksum
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan import ScanBuilder


def checksum_file_totals(engine: Engine, state: TableState) -> FileTotals | None:
    """Return the totals in the version's checksum; None if the version has no valid checksum."""
    segment = state.log_segment
    if state.checksum_totals is not None:
        return state.checksum_totals
    if segment.checksum is None or segment.checksum.version != segment.version:
        return None
    return checksum_totals(segment, read_checksum(engine, segment, state.replay_state.commit_info))


def count_files(engine: Engine, state: TableState) -> int:
    """Return the number of live files, from the checksum if it is valid, else from the log."""
    totals = checksum_file_totals(engine, state)
    if totals is not None:
        return totals.files
    with ScanBuilder(state).build().scan_files(engine) as batches:
        return sum(batch.num_selected for batch in batches)
