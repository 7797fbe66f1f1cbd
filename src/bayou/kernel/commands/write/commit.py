"""Commit of a write: the files of all tasks become one version, with delta-spark's metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayou.errors import MetadataChangedError, ProtocolChangedError
from bayou.kernel.catalog import Catalog
from bayou.kernel.commands.optimize.auto_compaction import compact_after
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
    latest_or_none,
)
from bayou.kernel.commands.write.request import TableWrite, WriteMode
from bayou.kernel.engine import Engine
from bayou.kernel.operation import Operation
from bayou.kernel.snapshot import Snapshot
from bayou.kernel.table import Table
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.kernel.transaction.commit_file_actions import num_records
from bayou.kernel.transaction.transaction import Transaction
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.actions import Action, AddCDCFile, AddFile


def write_metrics(
    write: TableWrite,
    changes: RowChanges,
    written: Sequence[AddFile | AddCDCFile],
) -> dict[str, object]:
    """Return the `operationMetrics` of a write.

    Row counts are left out if files without statistics were added or removed.
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
        return _replace_where_metrics(changes, written, rows)
    metrics: dict[str, object] = {"numFiles": len(adds), "numOutputBytes": _bytes(adds)}
    if rows is not None:
        metrics["numOutputRows"] = rows
    if write.overwrites:
        metrics["numRemovedFiles"] = changes.num_removed_files
        metrics["numRemovedBytes"] = changes.num_removed_bytes
    return metrics


def _replace_where_metrics(
    changes: RowChanges, written: Sequence[AddFile | AddCDCFile], rows: int | None
) -> dict[str, object]:
    """Return the metrics of a `replaceWhere` write, counted as delta-spark does.

    Output rows are the written rows, the copied rows, and the live rows of files with a new
    deletion vector. If there are no output rows, no row counts are reported.

    Args:
        rows: number of written rows; None if unknown.
    """
    adds = [a for a in written if isinstance(a, AddFile)]
    rewritten = [*changes.added, *changes.with_deletion_vectors]
    retained = _num_live_rows(changes.with_deletion_vectors)
    metrics: dict[str, object] = {
        "numFiles": len(adds) + len(rewritten),
        "numOutputBytes": _bytes(adds) + _bytes(rewritten),
        "numAddedChangeFiles": len(written) - len(adds) + len(changes.change_files),
        "numRemovedFiles": changes.num_removed_files,
        "numRemovedBytes": changes.num_removed_bytes,
    }
    if rows is None or retained is None:
        return metrics
    copied = changes.num_copied_rows + retained
    if rows + copied:
        metrics |= {"numOutputRows": rows + copied, "numCopiedRows": copied}
        if changes.num_deleted_rows is not None:
            metrics["numDeletedRows"] = changes.num_deleted_rows
    return metrics


def _num_live_rows(adds: Sequence[AddFile]) -> int | None:
    """Return the number of rows that aren't marked as deleted; None if a file has no row count."""
    live = 0
    for add in adds:
        records = num_records(add.stats)
        if records is None or add.deletion_vector is None:
            return None
        live += records - add.deletion_vector.cardinality
    return live


def _bytes(adds: Sequence[AddFile]) -> int:
    return sum(add.size for add in adds)


def _rows(adds: Sequence[AddFile]) -> int | None:
    counts = [num_records(add.stats) for add in adds]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """Result of a write.

    Attributes:
        version: the table's version after the write; None if the table still doesn't exist.
        files_committed: whether the tasks' files are part of the table. If False, the caller must
            delete them.
    """

    version: int | None
    files_committed: bool


def commit_write(
    engine: Engine,
    write: TableWrite,
    plan: WritePlan,
    written: Sequence[AddFile | AddCDCFile],
    *,
    catalog: Catalog | None = None,
    planned: Snapshot | None = None,
) -> WriteResult:
    """Commit the files of all tasks in one version, and run the post-commit hooks.

    An append without rows is committed only if it creates the table or adds columns to it.

    Args:
        write: the write that was planned. `write.application` and `write.tags` may have been set
            after the planning.
        written: `add` and `cdc` actions of the files that the tasks have written.
        catalog: the catalog that manages the table; None if no catalog does.
        planned: snapshot of the plan's read version; None to load it.

    Raises:
        CommitFailedError: the store failed; if the message says that the result is unknown, the
            tasks' files must not be deleted.
    """
    adds = [a for a in written if isinstance(a, AddFile)]
    if plan.is_noop or not (adds or write.overwrites or plan.changes_metadata):
        return WriteResult(version=plan.read_version, files_committed=not adds and not plan.is_noop)
    table = Table.for_path(engine, plan.table, catalog)
    if planned is not None and catalog is None and planned.refreshed(engine) is planned:
        snapshot: Snapshot | None = planned  # still the latest version, and the same table
    else:
        snapshot = _base_snapshot(engine, table, plan, write)
    if snapshot is not None and (
        is_recorded(snapshot, write) or (plan.read_version is None and write.mode is _IGNORE)
    ):
        return WriteResult(version=snapshot.version, files_committed=False)
    # If another writer has created the table, this commit must not replace the table's metadata.
    created_meanwhile = plan.read_version is None and snapshot is not None
    metadata = None if created_meanwhile else plan.metadata
    try:
        transaction = build_transaction(engine, table, snapshot, write, metadata)
    except ProtocolChangedError:
        if snapshot is not None:
            raise
        # Another writer has created the table.
        return commit_write(engine, write, plan, written, catalog=catalog)
    if created_meanwhile and snapshot is not None:
        if write.overwrites and write.replace_where is not None:
            # The tasks neither checked the rows nor wrote change data for them.
            raise MetadataChangedError(
                f"{snapshot.path}: another writer created the table while this write with "
                f"replaceWhere ran (version {snapshot.version}). Nothing was changed; write again.",
                table=snapshot.path,
                winning_version=snapshot.version,
            )
        written_by = TransactionState.from_bytes(plan.state)
        if not transaction.transaction_state(engine).allows_files_of(written_by):
            raise _created_with_other_metadata(snapshot)
    if snapshot is not None:
        for predicate in write.reads:  # the rows from which the written rows were computed
            transaction.record_rows_read(engine, predicate, time_zone=write.time_zone)
    changes = _remove_replaced(engine, transaction, snapshot, write, adds)
    actions: list[Action] = [*changes.actions, *written]
    if not actions and not transaction.changes_metadata and write.application is None:
        return WriteResult(version=plan.read_version, files_committed=True)
    metrics = write_metrics(write, changes, written)
    try:
        with discard_unless_committed(lambda: changes.discard(engine, table.path)):
            result = transaction.commit(engine, actions, operation_metrics=metrics, tags=write.tags)
    except (ProtocolChangedError, MetadataChangedError):
        if snapshot is not None:
            raise
        # Another writer has created the table.
        return commit_write(engine, write, plan, written, catalog=catalog)
    result.run_post_commit_hooks(engine)
    compact_after(engine, transaction, result)
    return WriteResult(version=result.version, files_committed=not result.already_committed)


_IGNORE = WriteMode.IGNORE


def _remove_replaced(
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
    if write.replaces_partitions(transaction.partition_columns):
        return remove_partitions_of(engine, transaction, snapshot, adds, write)
    return remove_all(engine, transaction, data_change=write.data_change)


def _base_snapshot(
    engine: Engine, table: Table, plan: WritePlan, write: TableWrite
) -> Snapshot | None:
    """Return the snapshot that the commit is based on; None if the commit creates the table.

    The snapshot has the plan's read version. If another writer created the table after the write
    was planned, the snapshot has the latest version. In this case, the table must have the same
    columns and partitioning as the tasks' files, which were written for a new table. If they
    differ, `MetadataChangedError` is raised.
    """
    if plan.read_version is not None:
        planned = table.snapshot_as_of_version(engine, plan.read_version)
        if planned.table_id != plan.table_id:
            raise MetadataChangedError(
                f"{table.path}: the table was deleted and recreated while this write ran (its id "
                f"was {plan.table_id} and is now {planned.table_id}). Nothing was changed; write "
                "again.",
                table=table.path,
                winning_version=planned.version,
            )
        return planned
    snapshot = latest_or_none(engine, table)
    if snapshot is None:
        return None
    if write.mode is WriteMode.ERROR:
        raise exists_already(table.path)
    if write.mode is WriteMode.IGNORE:
        return snapshot
    if snapshot.partition_columns != plan.partition_columns or not _same_columns(snapshot, write):
        raise _created_with_other_metadata(snapshot)
    return snapshot


def _created_with_other_metadata(snapshot: Snapshot) -> MetadataChangedError:
    return MetadataChangedError(
        f"{snapshot.path}: another writer created the table with a different schema, "
        f"partitioning or constraints while this write ran (version {snapshot.version}). "
        "Nothing was changed. Check the new table's schema, and repeat the write.",
        table=snapshot.path,
        winning_version=snapshot.version,
    )


def _same_columns(snapshot: Snapshot, write: TableWrite) -> bool:
    columns = [(f.name, f.data_type) for f in write.schema]
    return snapshot.column_mapping == "none" and columns == [
        (f.name, f.data_type) for f in snapshot.schema
    ]
