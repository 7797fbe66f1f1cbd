"""Writing of one Spark task's rows to data files and, if needed, to change data files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.data_writer.change_data_files import ChangeDataFiles
from bayou.kernel.data_writer.data_writer import delete_data_files, write_data, write_rows
from bayou.kernel.engine import Engine
from bayou.kernel.table_features.generated_columns_and_constraints import RowConstraints
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.actions import AddCDCFile, AddFile


def write_task_data(
    engine: Engine, state: TransactionState, batches: Iterable[pa.RecordBatch]
) -> list[AddFile | AddCDCFile]:
    """Write the rows of a task to data files.

    If `state.records_inserts` is set, the rows are also written to change data files. If the write
    fails, its files are deleted.
    """
    if not state.records_inserts:
        return list(write_data(engine, state, batches))
    changes = ChangeDataFiles(engine, state)
    rules = RowConstraints(engine, state)

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            applied = rules.apply(batch)
            changes.add(applied, "insert")
            yield applied

    adds: list[AddFile] = []
    try:
        with CloseableIterator(rows(), batches) as applied:
            adds = write_rows(engine, state, applied)
        changes.finish()
    except BaseException:
        delete_data_files(engine, state.table, [*adds, *changes.actions])
        raise
    return [*adds, *changes.actions]
