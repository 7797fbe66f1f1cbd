"""MERGE: `run_merge`, which lets the kernel or a Spark plan join the rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap64

from bayou.engines import from_description
from bayou.errors import PredicateError
from bayou.kernel import Snapshot
from bayou.kernel.commands.merge import MergeMetrics, MergeSource
from bayou.kernel.commands.merge.execution import MergeOperation, check_merge
from bayou.kernel.commands.merge.result import MergeResult
from bayou.kernel.commands.merge.task import MergeTask, PreparedSource
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.scan.scan_file import ScanFile
from bayou.spark.commands.merge_by_spark import merge_by_spark
from bayou.spark.commands.merge_request import MergeRequest
from bayou.spark.commands.optimize import runs_in_driver
from bayou.spark.commands.source_rows import collected
from bayou.spark.executors.executor_tasks import (
    number_of_tasks,
    run_tasks,
    split_by_size,
)
from bayou.spark.expressions.kernel_eligibility import fall_back_to_spark
from bayou.spark.target import SPARK_ENGINE_INFO, TargetTable, is_classic
from bayou.spark.types import from_spark

__all__ = ["run_merge", "source_alias"]

_MIN_ROWS_PER_TASK = 200_000
"""Minimum number of source rows that one task inserts."""


def run_merge(target: TargetTable, source: Any, request: MergeRequest) -> MergeMetrics | None:
    """Merge a DataFrame's rows into a table, and commit; see `DeltaMergeBuilder.execute`.

    Returns:
        None if the table already has the session's transaction identifier.
    """
    started = time.perf_counter()
    snapshot, application = target.snapshot(), target.transaction_identifier
    if target.is_committed(snapshot, application):
        target.reset_transaction_version()
        return None
    metrics = _merge(target, snapshot, source, request, started)
    target.reset_transaction_version()
    return metrics


def _merge(
    target: TargetTable, snapshot: Snapshot, source: Any, request: MergeRequest, started: float
) -> MergeMetrics:
    if is_classic(target.spark):
        schema = from_spark(source.schema, table="the source of the merge")

        def run_spark_plan() -> MergeMetrics:
            return merge_by_spark(target, snapshot, source, request, started)

        if not request.is_for_kernel(target.spark, snapshot.schema, schema):
            return run_spark_plan()
        try:  # before the source is collected, which may take long
            check_merge(snapshot, schema, request.definition)
        except PredicateError as error:
            return fall_back_to_spark(target, error, run_spark_plan)
        source_table = collected(target.spark, source)
        if source_table is None:
            return run_spark_plan()
    else:
        source_table = source.toArrow()
    rows = MergeSource.read(source_table.schema, source_table.to_batches())
    operation = MergeOperation(
        target.engine,
        snapshot,
        rows,
        request.definition,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        started=started,
        application=target.transaction_identifier,
    )
    with operation.files(target.engine) as candidate_files:
        files = list(candidate_files)
    if runs_in_driver(target, (file.size for file in files)):
        result = operation.work.run(target.engine, operation.source, files, inserting=True)
    else:
        result = _run_on_executors(target, operation, rows, files)
    return operation.commit(target.engine, result)


def source_alias(source: Any) -> str | None:
    """A DataFrame's alias, or None."""
    if not hasattr(source, "_jdf"):
        alias = getattr(source._plan, "_alias", None)  # noqa: SLF001  # no public API
        return None if alias is None else str(alias)
    plan = source._jdf.queryExecution().analyzed()  # noqa: SLF001  # no public API
    if str(plan.getClass().getSimpleName()) != "SubqueryAlias":
        return None
    return str(plan.alias())


def _run_on_executors(
    target: TargetTable, operation: MergeOperation, rows: MergeSource, files: Sequence[ScanFile]
) -> MergeResult:
    """Update and delete matched rows in tasks by file, then insert unmatched source rows."""
    spark = target.spark
    source = spark.sparkContext.broadcast(rows.to_bytes())
    tasks = number_of_tasks(spark)
    chunks = split_by_size(files, lambda file: file.size, tasks)
    worker = _Worker(operation.work.to_bytes(), target.engine.description(), source, 2 * tasks)

    def discard(results: list[bytes]) -> None:
        written = MergeResult.combined(map(MergeResult.from_bytes, results))
        written.changes.discard(target.engine, target.path)

    def merge_chunk(number: int, chunk: list[bytes]) -> bytes:
        return worker.merge(number, chunk)

    def insert_chunk(number: int, chunk: tuple[bytes, bool]) -> bytes:
        return worker.insert(tasks + number, *chunk)

    try:
        results = run_tasks(
            spark,
            [[file.to_bytes() for file in chunk] for chunk in chunks],
            merge_chunk,
            table=target.path,
            description=f"Merge into {target.path}",
            discard=discard,
        )
        matched = MergeResult.combined(map(MergeResult.from_bytes, results))
        unmatched = operation.unmatched(matched)
        if not unmatched:
            return matched
        recorded = operation.records_changes(matched)
        parts = _split_rows(unmatched, tasks)
        try:
            if len(parts) == 1:
                work = operation.work.for_writer(tasks, 2 * tasks)
                new = [
                    work.insert(
                        target.engine, operation.source, unmatched, record_changes=recorded
                    ).to_bytes()
                ]
            else:
                new = run_tasks(
                    spark,
                    [(part.serialize(), recorded) for part in parts],
                    insert_chunk,
                    table=target.path,
                    description=f"Insert into {target.path}",
                    discard=discard,
                )
        except BaseException:
            matched.changes.discard(target.engine, target.path)
            raise
        return MergeResult.combined([matched, *map(MergeResult.from_bytes, new)])
    finally:
        source.destroy()


@dataclass(frozen=True, slots=True)
class _Worker:
    """The state that all tasks share; can be pickled."""

    work: bytes
    engine: EngineDescription
    source: Any
    writers: int

    def merge(self, number: int, chunk: list[bytes]) -> bytes:
        work = MergeTask.from_bytes(self.work).for_writer(number, self.writers)
        files = [ScanFile.from_bytes(data) for data in chunk]
        engine = from_description(self.engine)
        return work.run(engine, self._prepared(work), files).to_bytes()

    def insert(self, number: int, rows: bytes, recorded: bool) -> bytes:
        work = MergeTask.from_bytes(self.work).for_writer(number, self.writers)
        engine = from_description(self.engine)
        unmatched = BitMap64.deserialize(rows)
        result = work.insert(engine, self._prepared(work), unmatched, record_changes=recorded)
        return result.to_bytes()

    def _prepared(self, work: MergeTask) -> PreparedSource:
        return work.prepare(MergeSource.from_bytes(self.source.value))


def _split_rows(rows: BitMap64, max_parts: int) -> list[BitMap64]:
    """Split rows into at most `max_parts` parts, each large enough for a task."""
    count = max(1, min(max_parts, len(rows) // _MIN_ROWS_PER_TASK))
    step = -(-len(rows) // count)
    return [rows[first : first + step] for first in range(0, len(rows), step)]
