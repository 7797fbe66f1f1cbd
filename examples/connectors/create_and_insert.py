"""Create a table and insert rows with the kernel's API.

usage: create_and_insert.py TABLE

The table is partitioned by day, and its ids are NOT NULL. One commit creates the table with its
schema and first rows, so no reader sees an empty table.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator, Sequence

import pyarrow as pa

from bayou.engines import for_path
from bayou.kernel import Engine, Operation, Table, Transaction, TransactionCommitResult
from bayou.protocol.schema import DATE, LONG, STRING, StructField, StructType

ENGINE_INFO = "example connector/1.0"

SCHEMA = StructType(
    (
        StructField(name="id", data_type=LONG, nullable=False),
        StructField(name="name", data_type=STRING),
        StructField(name="day", data_type=DATE),
    )
)


def create(engine: Engine, path: str) -> TransactionCommitResult:
    """Create the table with its first rows."""
    table = Table.for_path(engine, path)
    transaction = (
        table.create_transaction_builder(engine, ENGINE_INFO, Operation.CREATE_TABLE)
        .with_schema(SCHEMA)
        .with_partition_columns(["day"])
        .with_table_properties({"delta.checkpointInterval": "10"})
        .build(engine)
    )
    state = transaction.transaction_state(engine)
    actions = []
    for day, rows in partitions():
        values = {"day": day}  # the value of each partition column
        context = Transaction.get_write_context(engine, state, values)
        # Checks the rows, adds missing columns, drops the partition columns.
        physical = Transaction.transform_logical_data(engine, state, rows, values)
        written = engine.parquet.write_parquet_files(
            context.target_directory, physical, context.statistics_columns, context.options
        )
        with Transaction.generate_append_actions(engine, state, written, context) as adds:
            actions.extend(adds)
    return transaction.commit(engine, actions)


def partitions() -> Iterator[tuple[dt.date, list[pa.RecordBatch]]]:
    """Return rows of one day, with or without the partition column."""
    for number in range(3):
        yield (
            dt.date(2024, 1, 5 + number),
            [pa.record_batch({"id": [10 * number, 10 * number + 1], "name": ["a", "b"]})],
        )


def main(arguments: Sequence[str]) -> None:
    """Create the table and print its version."""
    (path,) = arguments
    engine = for_path(path)
    print(f"created version {create(engine, path).version}")


if __name__ == "__main__":
    main(sys.argv[1:])
