"""A distributed DELETE: files and work go out to several processes, outcomes come back, one commit.

usage: multi_process_delete.py TABLE CONDITION [WORKERS]

Workers find the rows and write what takes them away: deletion vectors where the table has them,
else new files with the rows that stay, and change data files where the feed is on. None of it
counts before the driver has committed it.
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
from bayou.kernel.commands.row_changes.task import RowWork

ENGINE_INFO = "example connector/1.0"


@dataclass(frozen=True)
class Task:
    """What a worker gets. The description holds credentials: don't show or log a task."""

    engine: bytes
    work: bytes
    files: list[bytes]

    def __repr__(self) -> str:
        return f"Task({len(self.files)} files)"


def delete(path: str, where: str, workers: int = 2) -> DeleteMetrics:
    """Delete rows by several workers."""
    engine = for_path(path)
    snapshot = Table.for_path(engine, path).latest_snapshot(engine)
    operation = begin_delete(engine, snapshot, where, engine_info=ENGINE_INFO)
    with operation.candidates(engine) as candidates:
        files = [candidate.to_bytes() for candidate in candidates]
    description, work = engine.description().to_bytes(), operation.work.to_bytes()
    tasks = [Task(engine=description, work=work, files=files[i::workers]) for i in range(workers)]
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
    """A worker's part: its files, each looked at and changed by nobody else."""
    engine = from_description(EngineDescription.from_bytes(task.engine))
    work = RowWork.from_bytes(task.work)
    return work.run(engine, map(Candidate.from_bytes, task.files)).to_bytes()


def main(arguments: Sequence[str]) -> None:
    """Delete with some workers and say how many rows went."""
    path, where, workers = [*arguments, *["2"][len(arguments) - 2 :]]
    metrics = delete(path, where, int(workers))
    print(f"{metrics.num_deleted_rows} rows deleted, version {metrics.version}")


if __name__ == "__main__":
    main(sys.argv[1:])
