"""A partitioned write by several processes, which return add actions; one commit.

usage: multi_process_writer.py TABLE [WORKERS]

Workers need neither the table's log nor the transaction, only its state. Their files are part of
the table after the driver's commit. If a worker fails, the files of the others are deleted.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from bayou.engines import for_path, from_description
from bayou.kernel import (
    EngineDescription,
    Operation,
    Table,
    TransactionState,
    decode_actions,
    delete_data_files,
    encode_actions,
    write_data,
)

ENGINE_INFO = "example connector/1.0"


@dataclass(frozen=True)
class Task:
    """The input of a worker. The engine description contains credentials: don't log a task."""

    engine: bytes
    state: bytes
    share: int

    def __repr__(self) -> str:
        return f"Task({self.share})"


def write(path: str, workers: int = 2) -> int:
    """Write a part of the rows in each worker and return the version."""
    engine = for_path(path)
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    transaction = snapshot.build_update_table_transaction(ENGINE_INFO, Operation.WRITE).build(
        engine
    )
    description = engine.description().to_bytes()
    state = transaction.transaction_state(engine).to_bytes()
    tasks = [Task(engine=description, state=state, share=i) for i in range(workers)]
    actions = []
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        try:
            for written in pool.imap_unordered(run, tasks):
                actions += decode_actions(written)
        except Exception:
            delete_data_files(engine, path, actions)
            raise
    result = transaction.commit(engine, actions)
    result.run_post_commit_hooks(engine)
    return result.version


def run(task: Task) -> bytes:
    """Run a task in a worker: write its rows to files and return their actions."""
    engine = from_description(EngineDescription.from_bytes(task.engine))
    state = TransactionState.from_bytes(task.state)
    return encode_actions(write_data(engine, state, rows(task.share)))


def rows(share: int) -> list[pa.RecordBatch]:
    """Return the rows of a worker, of three days."""
    ids = [100 * (share + 1) + i for i in range(30)]
    days = pa.array([19727 + i % 3 for i in ids], pa.int32()).cast(pa.date32())
    return [pa.record_batch({"id": ids, "name": [f"worker {share}"] * len(ids), "day": days})]


def main(arguments: Sequence[str]) -> None:
    """Write with several workers and print the new version."""
    path, workers = [*arguments, *["2"][len(arguments) - 1 :]]
    print(f"version {write(path, int(workers))}")


if __name__ == "__main__":
    main(sys.argv[1:])
