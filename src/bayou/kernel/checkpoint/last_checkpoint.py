"""Pointing to a checkpoint that was written (PROTOCOL.md, Last Checkpoint File)."""

from __future__ import annotations

from bayou.errors import FileMissingError
from bayou.kernel.crc.read import FileTotals, compare_totals, read_checksum, stated_totals
from bayou.kernel.crc.write import put_checksum, state_checksum
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.log.segment import complete_checkpoints, log_path
from bayou.kernel.log.table_state import TableState
from bayou.protocol import last_checkpoint
from bayou.protocol.file_names import LAST_CHECKPOINT, list_prefix
from bayou.protocol.last_checkpoint import LastCheckpoint

__all__ = ["finish_checkpoint"]


def finish_checkpoint(
    engine: Engine, state: TableState, pointer: LastCheckpoint, counted: FileTotals
) -> None:
    """Point to a complete checkpoint, and compare its files with the version's checksum.

    A version without one gets it: everything was counted anyway.
    """
    _point_to(engine, state.path, pointer)
    segment = state.log_segment
    stated = None
    latest = state.replay_state.commit_info
    if segment.checksum is not None:
        stated = stated_totals(segment, read_checksum(engine, segment, latest))
    compare_totals(state.path, state.version, stated, counted)
    if segment.checksum is None or segment.checksum.version != state.version:
        txn_id = None if latest is None else latest.string("txnId")
        checksum = state_checksum(
            state,
            counted.files,
            counted.size,
            txn_id=txn_id,
        )
        put_checksum(engine, state.path, state.version, checksum)


def _point_to(engine: Engine, table: str, pointer: LastCheckpoint) -> None:
    """Write `_last_checkpoint`, unless it names a newer one that is there."""
    path = f"{log_path(table)}/{LAST_CHECKPOINT}"
    try:
        data = bytes(next(iter(engine.files.read_files([ByteRange(path=path)]))))
    except FileMissingError:
        existing = None
    else:
        existing = last_checkpoint.parse(data)
    if existing is not None and existing.version > pointer.version:
        listing = engine.files.list_from(f"{log_path(table)}/{list_prefix(existing.version)}")
        if any(c.version == existing.version for c in complete_checkpoints(listing)):
            return
    engine.files.put(path, last_checkpoint.encode(pointer))
