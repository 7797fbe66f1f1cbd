"""MERGE of `DeltaTable`."""

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
from bayou.kernel.commands.merge.result import MergeOutcome
from bayou.kernel.commands.merge.task import MergeWork, PreparedSource
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.scan.scan_file import ScanFile
from bayou.spark.commands.merge_by_spark import merge_by_spark
from bayou.spark.commands.merge_request import MergeRequest
from bayou.spark.commands.optimize import stays_local
from bayou.spark.commands.source_rows import collected
from bayou.spark.executors.executor_tasks import (
    number_of_tasks,
    run_shares,
    shares_by_size,
)
from bayou.spark.expressions.kernel_eligibility import by_spark
from bayou.spark.target import SPARK_ENGINE_INFO, TargetTable, is_classic
from bayou.spark.types import from_spark

__all__ = ["run_merge", "source_alias"]

_ROWS_A_TASK = 200_000
"""Rows of the source that are inserted by one task, at least."""


def run_merge(target: TargetTable, source: Any, request: MergeRequest) -> MergeMetrics | None:
    """Merge a DataFrame's rows into a table, and commit; see `DeltaMergeBuilder.execute`.

    Returns:
        None where the session's application has done it before.
    """
    started = time.perf_counter()
    snapshot, application = target.snapshot(), target.application
    if target.has_recorded(snapshot, application):
        target.forget_transaction_version()
        return None
    metrics = _merged(target, snapshot, source, request, started)
    target.forget_transaction_version()
    return metrics


def _merged(
    target: TargetTable, snapshot: Snapshot, source: Any, request: MergeRequest, started: float
) -> MergeMetrics:
    if is_classic(target.spark):
        schema = from_spark(source.schema, table="the source of the merge")

        def plan() -> MergeMetrics:
            return merge_by_spark(target, snapshot, source, request, started)

        if not request.is_for_kernel(target.spark, snapshot.schema, schema):
            return plan()
        try:  # before the source is collected, which may take its time
            check_merge(snapshot, schema, request.definition)
        except PredicateError as error:
            return by_spark(target, error, plan)
        brought = collected(target.spark, source)
        if brought is None:
            return plan()
    else:
        brought = source.toArrow()
    rows = MergeSource.read(brought.schema, brought.to_batches())
    operation = MergeOperation(
        target.engine,
        snapshot,
        rows,
        request.definition,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        started=started,
        application=target.application,
    )
    with operation.files(target.engine) as found:
        files = list(found)
    if stays_local(target, (file.size for file in files)):
        outcome = operation.work.run(target.engine, operation.source, files, inserting=True)
    else:
        outcome = _on_executors(target, operation, rows, files)
    return operation.commit(target.engine, outcome)


def source_alias(source: Any) -> str | None:
    """By which name a DataFrame's columns may be called; None where it has none."""
    if not hasattr(source, "_jdf"):
        alias = getattr(source._plan, "_alias", None)  # noqa: SLF001  # published nowhere
        return None if alias is None else str(alias)
    plan = source._jdf.queryExecution().analyzed()  # noqa: SLF001  # published nowhere
    if str(plan.getClass().getSimpleName()) != "SubqueryAlias":
        return None
    return str(plan.alias())


def _on_executors(
    target: TargetTable, operation: MergeOperation, rows: MergeSource, files: Sequence[ScanFile]
) -> MergeOutcome:
    """Matches first, by whoever has a file; then what matched nothing is inserted."""
    spark = target.spark
    source = spark.sparkContext.broadcast(rows.to_bytes())
    tasks = number_of_tasks(spark)
    shares = shares_by_size(files, lambda file: file.size, tasks)
    worker = _Worker(operation.work.to_bytes(), target.engine.description(), source, 2 * tasks)

    def discard(outcomes: list[bytes]) -> None:
        written = MergeOutcome.combined(map(MergeOutcome.from_bytes, outcomes))
        written.changes.discard(target.engine, target.path)

    def merged(number: int, share: list[bytes]) -> bytes:
        return worker.merge(number, share)

    def inserted(number: int, share: tuple[bytes, bool]) -> bytes:
        return worker.insert(tasks + number, *share)

    try:
        outcomes = run_shares(
            spark,
            [[file.to_bytes() for file in share] for share in shares],
            merged,
            table=target.path,
            description=f"Merge into {target.path}",
            discard=discard,
        )
        matched = MergeOutcome.combined(map(MergeOutcome.from_bytes, outcomes))
        unmatched = operation.unmatched(matched)
        if not unmatched:
            return matched
        recorded = operation.records_changes(matched)
        parts = _parts(unmatched, tasks)
        try:
            if len(parts) == 1:
                work = operation.work.for_writer(tasks, 2 * tasks)
                new = [
                    work.insert(
                        target.engine, operation.source, unmatched, record_changes=recorded
                    ).to_bytes()
                ]
            else:
                new = run_shares(
                    spark,
                    [(part.serialize(), recorded) for part in parts],
                    inserted,
                    table=target.path,
                    description=f"Insert into {target.path}",
                    discard=discard,
                )
        except BaseException:
            matched.changes.discard(target.engine, target.path)
            raise
        return MergeOutcome.combined([matched, *map(MergeOutcome.from_bytes, new)])
    finally:
        source.destroy()


@dataclass(frozen=True, slots=True)
class _Worker:
    """What a task needs besides its share; pickles."""

    work: bytes
    engine: EngineDescription
    source: Any
    writers: int

    def merge(self, number: int, share: list[bytes]) -> bytes:
        work = MergeWork.from_bytes(self.work).for_writer(number, self.writers)
        files = [ScanFile.from_bytes(data) for data in share]
        engine = from_description(self.engine)
        return work.run(engine, self._prepared(work), files).to_bytes()

    def insert(self, number: int, rows: bytes, recorded: bool) -> bytes:
        work = MergeWork.from_bytes(self.work).for_writer(number, self.writers)
        engine = from_description(self.engine)
        chosen = BitMap64.deserialize(rows)
        return work.insert(engine, self._prepared(work), chosen, record_changes=recorded).to_bytes()

    def _prepared(self, work: MergeWork) -> PreparedSource:
        return work.prepare(MergeSource.from_bytes(self.source.value))


def _parts(rows: BitMap64, most: int) -> list[BitMap64]:
    """Rows in at most so many parts, each worth a task."""
    count = max(1, min(most, len(rows) // _ROWS_A_TASK))
    step = -(-len(rows) // count)
    return [rows[first : first + step] for first in range(0, len(rows), step)]
