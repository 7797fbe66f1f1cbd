"""Removal of the rows that an overwrite replaces: all rows, matching rows, or partitions."""

from __future__ import annotations

from collections.abc import Sequence

from bayou.errors import ArgumentError
from bayou.kernel.commands.row_changes.operation import RowOperation
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.row_search import CandidateFiles
from bayou.kernel.commands.row_changes.task import RowChangeTask
from bayou.kernel.commands.row_changes.worker_state import RowChangeState
from bayou.kernel.commands.write.request import TableWrite
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.sql.parser import parse_predicate
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.data_skipping.pruning import partition_key, partition_predicate
from bayou.kernel.transaction.transaction import Transaction
from bayou.protocol.actions import AddFile


def writes_change_data(
    engine: Engine, transaction: Transaction, table: TableState, write: TableWrite
) -> bool:
    """Whether a `replaceWhere` commit writes change data files for the removed and the new rows.

    If False, readers derive the change data feed from the added and removed files. Their result is
    correct if the commit only adds files, removes whole files, or writes deletion vectors.
    """
    return _removal(engine, transaction, table, write).task.records_changes


def remove_all(engine: Engine, transaction: Transaction, *, data_change: bool) -> RowChanges:
    """Remove every live file."""
    changes = RowChanges()
    with transaction.read_files(engine) as files:
        changes.remove_files(files, data_change=data_change)
    return changes


def remove_rows_where(
    engine: Engine, transaction: Transaction, table: TableState, write: TableWrite
) -> RowChanges:
    """Remove the rows for which `replace_where` is true; other rows of their files are retained."""
    return _removal(engine, transaction, table, write).run(engine, data_change=write.data_change)


def remove_partitions_of(
    engine: Engine,
    transaction: Transaction,
    table: TableState,
    adds: Sequence[AddFile],
    write: TableWrite,
) -> RowChanges:
    """Remove the existing files of each partition that has a new file in `adds`."""
    columns = [f for name in table.partition_columns if (f := table.schema.get(name)) is not None]
    zone = write.time_zone
    keys = {partition_key(add.partition_values, columns, zone) for add in adds}
    changes = RowChanges()
    if not keys:
        return changes
    with transaction.read_files(
        engine, partition_predicate(columns, keys), time_zone=zone
    ) as files:
        replaced = (
            f for f in files if partition_key(f.add.partition_values, columns, zone) in keys
        )
        changes.remove_files(replaced, data_change=write.data_change)
    return changes


def _removal(
    engine: Engine, transaction: Transaction, table: TableState, write: TableWrite
) -> RowOperation:
    assert write.replace_where is not None  # callers check this
    predicate = parse_predicate(write.replace_where)
    matching = CandidateFiles(engine, table, predicate, time_zone=write.time_zone)
    if not write.data_change and matching.search.condition is not None:
        raise ArgumentError(
            f"{table.path}: with dataChange=false, replaceWhere can't use data columns "
            "(DELTA_REPLACE_WHERE_WITH_FILTER_DATA_CHANGE_UNSET). Remove dataChange=false, or use "
            "only partition columns in replaceWhere.",
            argument="dataChange",
        )
    state = RowChangeState.of(engine, transaction, time_zone=write.time_zone)
    work = RowChangeTask(state=state, search=matching.search)
    return RowOperation(transaction=transaction, predicate=predicate, matching=matching, task=work)
