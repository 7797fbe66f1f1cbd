"""Append rows of any partitions: a blind append, which conflicts with no other append.

usage: blind_append.py TABLE ROWS

`write_data` splits the rows by partition and performs the steps of create_and_insert.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from bayou.engines import for_path
from bayou.kernel import (
    Engine,
    Operation,
    Table,
    delete_data_files,
    discard_unless_committed,
    write_data,
)

ENGINE_INFO = "example connector/1.0"


def append(engine: Engine, path: str, batches: Iterable[pa.RecordBatch]) -> int:
    """Append rows in one commit and return the version.

    Schema and partition columns are the table's. The rows don't depend on rows that were read, so
    the commit is rebased onto all appends of other writers.
    """
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    transaction = snapshot.build_update_table_transaction(ENGINE_INFO, Operation.WRITE).build(
        engine
    )
    adds = write_data(engine, transaction.transaction_state(engine), batches)
    # If the result of the commit is unknown, the files stay; VACUUM deletes unreferenced ones.
    with discard_unless_committed(lambda: delete_data_files(engine, path, adds)):
        return transaction.commit(engine, adds).version


def rows(count: int, size: int = 1000) -> Iterator[pa.RecordBatch]:
    """Return batches of rows; memory holds one batch."""
    for first in range(0, count, size):
        ids = pa.array(range(first, min(first + size, count)), pa.int64())
        yield pa.record_batch(
            {
                "id": ids,
                "name": pa.array([f"name {i}" for i in ids.to_pylist()]),
                "day": pa.array([19727 + i % 3 for i in ids.to_pylist()], pa.int32()).cast(
                    pa.date32()
                ),
            }
        )


def main(arguments: Sequence[str]) -> None:
    """Append rows and print the new version."""
    path, count = arguments
    engine = for_path(path)
    print(f"version {append(engine, path, rows(int(count)))}")


if __name__ == "__main__":
    main(sys.argv[1:])
