"""A distributed DELETE: several processes change files and return results; one commit.

usage: multi_process_delete.py TABLE CONDITION [WORKERS]

Workers find the rows and write deletion vectors if the table has them, otherwise new files with the
remaining rows, and change data files if the feed is on. Their files are not part of the table until
the driver commits.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from bayou.engines import for_path, from_description
from bayou.kernel import EngineDescription, Table
from bayou.kernel.commands.row_changes.delete import DeleteMetrics, begin_delete, commit_delete
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.row_search import Candidate
from bayou.kernel.commands.row_changes.task import RowChangeTask

ENGINE_INFO = "example connector/1.0"


@dataclass(frozen=True)
class Task:
    """The input of a worker. The engine description contains credentials: don't log a task."""

    engine: bytes
    operation: bytes
    files: list[bytes]

    def __repr__(self) -> str:
        return f"Task({len(self.files)} files)"


def delete(path: str, where: str, workers: int = 2) -> DeleteMetrics:
    """Delete rows with several workers."""
    engine = for_path(path)
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    operation = begin_delete(engine, snapshot, where, engine_info=ENGINE_INFO)
    with operation.candidates(engine) as candidates:
        files = [candidate.to_bytes() for candidate in candidates]
    description, task = engine.description().to_bytes(), operation.task.to_bytes()
    tasks = [
        Task(engine=description, operation=task, files=files[i::workers]) for i in range(workers)
    ]
    done: list[RowChanges] = []
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        try:
            done.extend(map(RowChanges.from_bytes, pool.imap_unordered(run, tasks)))
        except Exception:
            for changes in done:
                changes.discard(engine, path)
            raise
    return commit_delete(engine, operation, RowChanges.combined(done))


def run(task: Task) -> bytes:
    """Run a task in a worker; no other worker reads or changes its files."""
    engine = from_description(EngineDescription.from_bytes(task.engine))
    row_changes = RowChangeTask.from_bytes(task.operation)
    return row_changes.run(engine, map(Candidate.from_bytes, task.files)).to_bytes()


def main(arguments: Sequence[str]) -> None:
    """Delete rows with several workers and print their number."""
    path, where, workers = [*arguments, *["2"][len(arguments) - 2 :]]
    metrics = delete(path, where, int(workers))
    print(f"{metrics.num_deleted_rows} rows deleted, version {metrics.version}")


if __name__ == "__main__":
    main(sys.argv[1:])
