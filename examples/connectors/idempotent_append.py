"""Append batches of a stream exactly once, even if a batch is retried.

usage: idempotent_append.py TABLE BATCH [BATCH ...]

Each commit contains the stream's name and the number of its batch. A batch with a number that the
table contains isn't written again: the result is `already_committed`, not an error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pyarrow as pa

from bayou.engines import for_path
from bayou.kernel import (
    Engine,
    Operation,
    Table,
    TransactionCommitResult,
    delete_data_files,
    write_data,
)

ENGINE_INFO = "example connector/1.0"
STREAM = "example-stream"


def append_once(
    engine: Engine, path: str, batch: int, rows: pa.RecordBatch
) -> TransactionCommitResult:
    """Append a batch, unless the table already contains it."""
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    transaction = (
        snapshot.build_update_table_transaction(ENGINE_INFO, Operation.STREAMING_UPDATE)
        .with_transaction_id(STREAM, batch)
        .build(engine)
    )
    adds = write_data(engine, transaction.transaction_state(engine), [rows])
    result = transaction.commit(engine, adds)
    if result.already_committed:
        delete_data_files(engine, path, adds)
    return result


def main(arguments: Sequence[str]) -> None:
    """Append one row for each batch number, and print the results."""
    path, *batches = arguments
    engine = for_path(path)
    for batch in map(int, batches):
        result = append_once(engine, path, batch, pa.record_batch({"id": [batch]}))
        outcome = "there already" if result.already_committed else f"version {result.version}"
        print(f"batch {batch}: {outcome}")
    print(f"next batch: {next_batch(engine, path)}")


def next_batch(engine: Engine, path: str) -> int:
    """Return the batch at which a stream without its own state continues."""
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    return snapshot.transactions.get(STREAM, -1) + 1


if __name__ == "__main__":
    main(sys.argv[1:])
