"""A connector with its own Parquet writer; the kernel adds the file to the table.

usage: own_parquet_writer.py TABLE

The kernel only needs a `DataFileStatus` of a file. Here pyarrow writes the file; a database uses
its own library.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bayou.engines import for_path
from bayou.kernel import (
    DataFileStatus,
    Engine,
    FileStatistics,
    Operation,
    Table,
    Transaction,
    WriteContext,
)

ENGINE_INFO = "example connector/1.0"


def write_file(
    engine: Engine, context: WriteContext, batches: Iterable[pa.RecordBatch]
) -> DataFileStatus:
    """Write a file to the directory of the write context, with statistics of its columns.

    A bound must be valid for all rows; omit bounds that aren't certain.
    """
    rows = pa.Table.from_batches(batches)
    path = f"{context.target_directory}/{uuid.uuid4()}.parquet"
    engine.files.mkdirs(context.target_directory)
    with engine.files.open_output(path) as sink:
        pq.write_table(rows, sink, compression=context.options.compression)
    status = engine.files.status(path)
    counted = [name for name in rows.column_names if name in context.statistics_columns]
    numbers = [name for name in counted if pa.types.is_integer(rows.schema.field(name).type)]
    bounds = {name: pc.min_max(rows.column(name)).as_py() for name in numbers}
    return DataFileStatus(
        path=status.path,
        size=status.size,
        modification_time=status.modification_time,
        statistics=FileStatistics(
            num_records=rows.num_rows,
            min_values={name: bound["min"] for name, bound in bounds.items()},
            max_values={name: bound["max"] for name, bound in bounds.items()},
            null_count={name: rows.column(name).null_count for name in counted},
        ),
    )


def append(engine: Engine, path: str, batches: Iterable[pa.RecordBatch]) -> int:
    """Append rows to an unpartitioned table and return the version."""
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    transaction = snapshot.build_update_table_transaction(ENGINE_INFO, Operation.WRITE).build(
        engine
    )
    state = transaction.transaction_state(engine)
    context = Transaction.get_write_context(engine, state, {})
    # Physical columns of the file: names, types and field ids.
    physical = Transaction.transform_logical_data(engine, state, batches, {})
    written = [write_file(engine, context, physical)]
    actions = Transaction.generate_append_actions(engine, state, written, context)
    return transaction.commit(engine, actions).version


def main(arguments: Sequence[str]) -> None:
    """Append three rows and print the new version."""
    (path,) = arguments
    engine = for_path(path)
    print(f"version {append(engine, path, [pa.record_batch({'id': [1, 2, 3]})])}")


if __name__ == "__main__":
    main(sys.argv[1:])
