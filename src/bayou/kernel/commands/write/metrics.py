"""What the history counts of a write, under delta-spark's names."""

from __future__ import annotations

from collections.abc import Sequence

from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.write.request import TableWrite
from bayou.kernel.operation import Operation
from bayou.kernel.transaction.commit_contents import num_records
from bayou.protocol.actions import AddCDCFile, AddFile

__all__ = ["write_metrics"]


def write_metrics(
    write: TableWrite,
    changes: RowChanges,
    written: Sequence[AddFile | AddCDCFile],
) -> dict[str, object]:
    """`operationMetrics` of a write.

    Rows that aren't known are left out: files without statistics were added, or went whole.

    Args:
        changes: what went.
        written: what tasks wrote.
    """
    adds = [a for a in written if isinstance(a, AddFile)]
    rows = _rows(adds)
    if write.operation is Operation.STREAMING_UPDATE:
        return {
            "numAddedFiles": len(adds),
            "numRemovedFiles": changes.num_removed_files,
            **({} if rows is None else {"numOutputRows": rows}),
            "numOutputBytes": _bytes(adds),
        }
    if write.overwrites and write.replace_where is not None:
        return _of_replaced_rows(changes, written, rows)
    metrics: dict[str, object] = {"numFiles": len(adds), "numOutputBytes": _bytes(adds)}
    if rows is not None:
        metrics["numOutputRows"] = rows
    if write.overwrites:
        metrics["numRemovedFiles"] = changes.num_removed_files
        metrics["numRemovedBytes"] = changes.num_removed_bytes
    return metrics


def _of_replaced_rows(
    changes: RowChanges, written: Sequence[AddFile | AddCDCFile], rows: int | None
) -> dict[str, object]:
    """As delta-spark counts: copied rows are output, and so are those of files that were marked.

    A write without output says nothing of rows at all.
    """
    adds = [a for a in written if isinstance(a, AddFile)]
    rewritten = [*changes.added, *changes.marked]
    kept = _rows_kept(changes.marked)
    metrics: dict[str, object] = {
        "numFiles": len(adds) + len(rewritten),
        "numOutputBytes": _bytes(adds) + _bytes(rewritten),
        "numAddedChangeFiles": len(written) - len(adds) + len(changes.change_files),
        "numRemovedFiles": changes.num_removed_files,
        "numRemovedBytes": changes.num_removed_bytes,
    }
    if rows is None or kept is None:
        return metrics
    copied = changes.num_copied_rows + kept
    if rows + copied:
        metrics |= {"numOutputRows": rows + copied, "numCopiedRows": copied}
        if changes.num_deleted_rows is not None:
            metrics["numDeletedRows"] = changes.num_deleted_rows
    return metrics


def _rows_kept(marked: Sequence[AddFile]) -> int | None:
    """Rows of marked files that aren't deleted; None where a file doesn't tell."""
    kept = 0
    for add in marked:
        records = num_records(add.stats)
        if records is None or add.deletion_vector is None:
            return None
        kept += records - add.deletion_vector.cardinality
    return kept


def _bytes(adds: Sequence[AddFile]) -> int:
    return sum(add.size for add in adds)


def _rows(adds: Sequence[AddFile]) -> int | None:
    known = [num_records(add.stats) for add in adds]
    counts = [count for count in known if count is not None]
    return sum(counts) if len(counts) == len(known) else None
