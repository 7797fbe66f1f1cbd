"""What an overwrite takes away: all rows, those of a condition, or those of some partitions."""

from __future__ import annotations

from collections.abc import Sequence

from bayou.errors import ArgumentError
from bayou.kernel.commands.row_changes.operation import RowOperation
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.row_search import Matching
from bayou.kernel.commands.row_changes.state import RowChangeState
from bayou.kernel.commands.row_changes.task import RowWork
from bayou.kernel.commands.write.request import TableWrite
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.data_skipping.pruning import of_partitions, partition_key
from bayou.kernel.transaction.transaction import Transaction
from bayou.protocol.actions import AddFile

__all__ = ["changes_are_recorded", "remove_all", "remove_partitions_of", "remove_rows_where"]


def changes_are_recorded(
    engine: Engine, transaction: Transaction, table: TableState, write: TableWrite
) -> bool:
    """Whether the commit that replaces rows has change data files, of its new rows, too.

    Without them the feed is made from files that come and go, which is right where files go whole
    or are marked by deletion vectors.
    """
    return _removal(engine, transaction, table, write).work.records_changes


def remove_all(engine: Engine, transaction: Transaction, *, data_change: bool) -> RowChanges:
    """Every live file goes."""
    changes = RowChanges()
    with transaction.read_files(engine) as files:
        changes.remove_files(files, data_change=data_change)
    return changes


def remove_rows_where(
    engine: Engine, transaction: Transaction, table: TableState, write: TableWrite
) -> RowChanges:
    """Rows go for which a condition is true; those beside them in their files are kept.

    Raises:
        ArgumentError: the condition is about data columns, and the rows are said to be the table's
            own.
        UnsupportedFeatureError, DataFileError, StorageError: as for `delete`.
    """
    operation = _removal(engine, transaction, table, write)
    if not write.data_change and operation.work.search.condition is not None:
        raise ArgumentError(
            "dataChange=false goes with a replaceWhere on partition columns only: of other columns "
            f"nobody can say that the rows of {table.path} stay the same.",
            argument="dataChange",
        )
    return operation.run(engine, data_change=write.data_change)


def remove_partitions_of(
    engine: Engine,
    transaction: Transaction,
    table: TableState,
    adds: Sequence[AddFile],
    write: TableWrite,
) -> RowChanges:
    """Files of the partitions go that new files are of."""
    columns = [f for name in table.partition_columns if (f := table.schema.get(name)) is not None]
    zone = write.time_zone
    keys = {partition_key(add.partition_values, columns, zone) for add in adds}
    changes = RowChanges()
    if not keys:
        return changes
    with transaction.read_files(engine, of_partitions(columns, keys), time_zone=zone) as files:
        own = (f for f in files if partition_key(f.add.partition_values, columns, zone) in keys)
        changes.remove_files(own, data_change=write.data_change)
    return changes


def _removal(
    engine: Engine, transaction: Transaction, table: TableState, write: TableWrite
) -> RowOperation:
    assert write.replace_where is not None  # callers have looked
    predicate = parse_predicate(write.replace_where)
    matching = Matching(engine, table, predicate, time_zone=write.time_zone)
    work = RowWork(state=RowChangeState.of(engine, transaction), search=matching.search)
    return RowOperation(transaction=transaction, predicate=predicate, matching=matching, work=work)
