"""The end of a write: what its tasks wrote becomes one version.

What the history counts of a write, under delta-spark's names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayou.errors import MetadataChangedError, ProtocolChangedError
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.write.overwrite import (
    remove_all,
    remove_partitions_of,
    remove_rows_where,
)
from bayou.kernel.commands.write.plan import (
    WritePlan,
    build_transaction,
    exists_already,
    is_recorded,
)
from bayou.kernel.commands.write.request import TableWrite, WriteMode
from bayou.kernel.engine import Engine
from bayou.kernel.operation import Operation
from bayou.kernel.snapshot import Snapshot
from bayou.kernel.table import Table
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.kernel.transaction.commit_contents import num_records
from bayou.kernel.transaction.transaction import Transaction
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.actions import Action, AddCDCFile, AddFile

__all__ = ["WriteOutcome", "commit_write", "write_metrics"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutcome:
    """How a write ended.

    Attributes:
        version: the table's afterwards, None where there still is no table.
        takes_files: whether the tasks' files are part of the table; where not, they are to be
            deleted.
    """

    version: int | None
    takes_files: bool


def commit_write(
    engine: Engine,
    write: TableWrite,
    plan: WritePlan,
    written: Sequence[AddFile | AddCDCFile],
) -> WriteOutcome:
    """Commit what the tasks wrote, in one put-if-absent, and run what the commit makes due.

    An append of nothing makes no commit, unless it makes the table or adds columns to it.

    Args:
        write: as it was planned; its application may be known only now.
        plan: what `plan_write` gave.
        written: actions of all tasks.

    Raises:
        CommitConflictError: another writer changed what this one built on.
        CommitFailedError: the store failed; where its text says that the outcome isn't known, the
            tasks' files must stay.
        TableAlreadyExistsError: mode `ERROR`, and another writer made the table meanwhile.
    """
    adds = [a for a in written if isinstance(a, AddFile)]
    if plan.done or not (adds or write.overwrites or plan.changes_metadata):
        return WriteOutcome(version=plan.read_version, takes_files=not adds and not plan.done)
    table = Table.for_path(engine, plan.table)
    snapshot = _read_again(engine, table, plan, write)
    if snapshot is not None and (
        is_recorded(snapshot, write) or (plan.read_version is None and write.mode is _IGNORE)
    ):
        return WriteOutcome(version=snapshot.version, takes_files=False)
    # A table that another writer made meanwhile has metadata of its own, with the same columns.
    made_meanwhile = plan.read_version is None and snapshot is not None
    metadata = None if made_meanwhile else plan.metadata
    try:
        transaction = build_transaction(engine, table, snapshot, write, metadata)
    except ProtocolChangedError:
        if snapshot is not None:
            raise
        return commit_write(engine, write, plan, written)  # somebody has made it since
    if made_meanwhile and snapshot is not None:
        written_by = TransactionState.from_bytes(plan.state)
        if not transaction.transaction_state(engine).allows_files_of(written_by):
            raise _made_otherwise(snapshot)
    changes = _removed(engine, transaction, snapshot, write, adds)
    actions: list[Action] = [*changes.actions, *written]
    if not actions and not transaction.changes_metadata and write.application is None:
        return WriteOutcome(version=plan.read_version, takes_files=True)
    metrics = write_metrics(write, changes, written)
    with discard_unless_committed(lambda: changes.discard(engine, table.path)):
        result = transaction.commit(engine, actions, operation_metrics=metrics)
    result.run_post_commit_hooks(engine)
    return WriteOutcome(version=result.version, takes_files=not result.already_committed)


_IGNORE = WriteMode.IGNORE


def _removed(
    engine: Engine,
    transaction: Transaction,
    snapshot: Snapshot | None,
    write: TableWrite,
    adds: Sequence[AddFile],
) -> RowChanges:
    if snapshot is None or not write.overwrites:
        return RowChanges()
    if write.replace_where is not None:
        return remove_rows_where(engine, transaction, snapshot, write)
    if write.dynamic_partitions and snapshot.partition_columns:
        return remove_partitions_of(engine, transaction, snapshot, adds, write)
    return remove_all(engine, transaction, data_change=write.data_change)


def _read_again(
    engine: Engine, table: Table, plan: WritePlan, write: TableWrite
) -> Snapshot | None:
    """The snapshot on which the commit builds: the one that was planned with.

    Where there was no table then and is one now, another writer was first; the tasks' files fit
    it only if it is what this write would have made.
    """
    if plan.read_version is not None:
        return table.snapshot_as_of_version(engine, plan.read_version)
    if not table.exists(engine):
        return None
    snapshot = table.latest_snapshot(engine)
    if write.mode is WriteMode.ERROR:
        raise exists_already(table.path)
    if write.mode is WriteMode.IGNORE:
        return snapshot
    if snapshot.partition_columns != plan.partition_columns or not _same_columns(snapshot, write):
        raise _made_otherwise(snapshot)
    return snapshot


def _made_otherwise(snapshot: Snapshot) -> MetadataChangedError:
    return MetadataChangedError(
        f"{snapshot.path} was created by another writer (version {snapshot.version}) while this "
        "write ran, with another schema, partitioning or constraints. Write again to append to it.",
        table=snapshot.path,
        winning_version=snapshot.version,
    )


def _same_columns(snapshot: Snapshot, write: TableWrite) -> bool:
    mine = [(f.name, f.data_type) for f in write.schema]
    return snapshot.column_mapping == "none" and mine == [
        (f.name, f.data_type) for f in snapshot.schema
    ]
