"""Runs row operations in several processes that exchange only bytes, for tests.

It corresponds to the driver and executors of a connector.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing.pool import Pool
from types import TracebackType
from typing import Any, Self

from pyroaring import BitMap64

from bayou.engines import from_description
from bayou.kernel.commands.merge import (
    MergeDefinition,
    MergeMetrics,
    MergeOperation,
    MergeResult,
    MergeSource,
    MergeTask,
)
from bayou.kernel.commands.optimize.rewrite import RewriteTask, rewrite
from bayou.kernel.commands.row_changes.delete import DeleteMetrics, begin_delete, commit_delete
from bayou.kernel.commands.row_changes.operation import RowOperation
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.commands.row_changes.row_search import Candidate
from bayou.kernel.commands.row_changes.task import RowChangeTask
from bayou.kernel.commands.row_changes.update import UpdateMetrics, begin_update, commit_update
from bayou.kernel.engine import Engine
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.log.table_state import TableState
from bayou.kernel.scan.scan_file import ScanFile
from bayou.protocol.actions import AddFile, decode_actions, encode_actions

__all__ = ["WorkerProcesses"]

_ENGINE_INFO = "bayou testing"


class WorkerProcesses:
    """A pool of processes in a `with` block. All take part in each operation, which is one commit.

    Args:
        count: number of processes.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: Pool = multiprocessing.get_context("spawn").Pool(count)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.terminate()
        self._pool.join()

    def delete(self, engine: Engine, table: TableState, where: str | None) -> DeleteMetrics:
        """Execute a DELETE as `bayou.kernel.commands.row_changes.delete.delete` does."""
        operation = begin_delete(engine, table, where, engine_info=_ENGINE_INFO)
        return commit_delete(engine, operation, self._changes(engine, operation))

    def update(
        self, engine: Engine, table: TableState, values: Mapping[str, str], where: str | None
    ) -> UpdateMetrics:
        """Execute an UPDATE as `bayou.kernel.commands.row_changes.update.update` does."""
        operation = begin_update(engine, table, values, where, engine_info=_ENGINE_INFO)
        return commit_update(engine, operation, self._changes(engine, operation))

    def merge(
        self, engine: Engine, table: TableState, source: MergeSource, definition: MergeDefinition
    ) -> MergeMetrics:
        """Execute a MERGE as `bayou.kernel.commands.merge.merge` does."""
        operation = MergeOperation(engine, table, source, definition, engine_info=_ENGINE_INFO)
        work, rows = operation.task.to_bytes(), source.to_bytes()
        with operation.files(engine) as found:
            files = [file.to_bytes() for file in found]
        done = self._all(_merge, engine, [(work, rows, share) for share in self._shares(files)])
        outcome = MergeResult.combined(map(MergeResult.from_bytes, done))
        unmatched = operation.unmatched(outcome)
        if unmatched:
            recorded = operation.records_changes(outcome)
            parts = [
                (work, rows, BitMap64(share).serialize(), recorded, index, self._count)
                for index, share in enumerate(self._shares(list(unmatched)))
            ]
            inserted = map(MergeResult.from_bytes, self._all(_insert, engine, parts))
            outcome = MergeResult.combined([outcome, *inserted])
        return operation.commit(engine, outcome)

    def run_items(self, engine: Engine, items: Sequence[RewriteTask]) -> list[list[AddFile]]:
        """Rewrite files in the processes; pass this method to `run_plan`."""
        done = self._all(_rewrite, engine, [(item.to_bytes(),) for item in items])
        return [[a for a in decode_actions(data) if isinstance(a, AddFile)] for data in done]

    def _changes(self, engine: Engine, operation: RowOperation) -> RowChanges:
        work = operation.task.to_bytes()
        with operation.candidates(engine) as found:
            files = [candidate.to_bytes() for candidate in found]
        done = self._all(_row_work, engine, [(work, share) for share in self._shares(files)])
        return RowChanges.combined(map(RowChanges.from_bytes, done))

    def _shares(self, things: Sequence[Any]) -> list[Sequence[Any]]:
        return [things[i :: self._count] for i in range(self._count)]

    def _all(
        self, function: Callable[..., bytes], engine: Engine, parts: Iterable[tuple[Any, ...]]
    ) -> list[bytes]:
        description = engine.description().to_bytes()
        return self._pool.starmap(function, [(description, *part) for part in parts])


def _engine(description: bytes) -> Engine:
    return from_description(EngineDescription.from_bytes(description))


def _row_work(description: bytes, work: bytes, files: Sequence[bytes]) -> bytes:
    candidates = map(Candidate.from_bytes, files)
    return RowChangeTask.from_bytes(work).run(_engine(description), candidates).to_bytes()


def _merge(description: bytes, work: bytes, source: bytes, files: Sequence[bytes]) -> bytes:
    share = MergeTask.from_bytes(work)
    prepared = share.prepare(MergeSource.from_bytes(source))
    found = map(ScanFile.from_bytes, files)
    return share.run(_engine(description), prepared, found).to_bytes()


def _insert(
    description: bytes,
    work: bytes,
    source: bytes,
    rows: bytes,
    recorded: bool,
    index: int,
    count: int,
) -> bytes:
    share = MergeTask.from_bytes(work).for_writer(index, count)
    prepared = share.prepare(MergeSource.from_bytes(source))
    done = share.insert(
        _engine(description), prepared, BitMap64.deserialize(rows), record_changes=recorded
    )
    return done.to_bytes()


def _rewrite(description: bytes, item: bytes) -> bytes:
    return encode_actions(rewrite(_engine(description), RewriteTask.from_bytes(item)))
