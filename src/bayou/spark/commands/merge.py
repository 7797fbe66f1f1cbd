"""MERGE: `run_merge`. The kernel or a Spark plan joins source and target rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyroaring import BitMap64

from bayou.engines import from_description
from bayou.errors import PredicateError
from bayou.kernel import Predicate, Snapshot
from bayou.kernel.commands.merge import MergeMetrics, MergeSource
from bayou.kernel.commands.merge.execution import MergeOperation
from bayou.kernel.commands.merge.result import MergeResult
from bayou.kernel.commands.merge.task import MergeTask
from bayou.kernel.commands.merge.transaction import check_merge
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.scan.scan_file import ScanFile
from bayou.protocol.schema import StructType
from bayou.spark.commands.merge_by_spark import merge_by_spark
from bayou.spark.commands.merge_request import MergeRequest
from bayou.spark.commands.optimize import runs_in_driver
from bayou.spark.commands.source_rows import collect_small_source
from bayou.spark.executors.executor_tasks import (
    number_of_tasks,
    run_tasks,
    split_by_size,
)
from bayou.spark.expressions.kernel_eligibility import (
    check_no_view,
    check_structs_by_name,
    fall_back_to_spark,
)
from bayou.spark.expressions.store_assignment import check_null_structs
from bayou.spark.jvm.plans import common_qualifier, plan_alias
from bayou.spark.session.connection import is_classic
from bayou.spark.session.settings import automatic_widening
from bayou.spark.target_table import SPARK_ENGINE_INFO, TargetTable
from bayou.spark.types import from_spark
from bayou.spark.write.self_reads import rows_read, snapshot_read

_MIN_ROWS_PER_TASK = 200_000
"""Minimum number of rows to insert per task. If there are fewer rows, one task inserts them."""


def run_merge(target: TargetTable, source: Any, request: MergeRequest) -> MergeMetrics | None:
    """Merge a DataFrame's rows into a table, and commit; see `DeltaMergeBuilder.execute`.

    Returns None without a change if this MERGE is already in the table: the table's log contains
    the session's `txnAppId` with the same or a higher `txnVersion`.
    """
    started = time.perf_counter()
    request = replace(request, automatic_widening=automatic_widening(target.spark))
    return target.commit_once(lambda snapshot: _merge(target, snapshot, source, request, started))


def _merge(
    target: TargetTable, snapshot: Snapshot, source: Any, request: MergeRequest, started: float
) -> MergeMetrics:
    check_null_structs(target.spark, snapshot.schema, operation="merge", table=snapshot.path)
    reads: tuple[Predicate | None, ...] = ()
    if is_classic(target.spark):
        snapshot = snapshot_read(target.engine, snapshot, source)
        schema = from_spark(source.schema, table="the source of the merge")
        request = _with_table_name(request, source, (snapshot.schema, schema))
        request = request.with_default_aliases(snapshot.schema, schema)
        if any(c.values is None and c.action != "delete" for c in request.clauses):
            check_structs_by_name(target.spark, snapshot.path, snapshot.schema, schema)

        def run_spark_plan() -> MergeMetrics:
            return merge_by_spark(target, snapshot, source, request, started)

        if not request.is_for_kernel(target.spark, snapshot.schema, schema):
            return run_spark_plan()
        try:  # before the source is collected, which may take long
            check_no_view(target, request.on)
            check_merge(snapshot, schema, request.definition)
        except PredicateError as error:
            return fall_back_to_spark(target, error, run_spark_plan)
        source_table = collect_small_source(target.spark, source)
        if source_table is None:
            return run_spark_plan()
        reads = rows_read(source, snapshot)
    else:
        schema = from_spark(source.schema, table="the source of the merge")
        request = request.with_default_aliases(snapshot.schema, schema)
        check_structs_by_name(target.spark, snapshot.path, snapshot.schema)
        request.check_client_evaluates(target.spark, snapshot.schema, schema)
        source_table = source.toArrow()
    rows = MergeSource.read(source_table.schema, source_table.to_batches(), schema)
    operation = MergeOperation(
        target.engine,
        snapshot,
        rows,
        request.definition,
        engine_info=SPARK_ENGINE_INFO,
        user_metadata=target.user_metadata,
        started=started,
        transaction_ids=target.transaction_ids,
        time_zone=target.time_zone,
    )
    for predicate in reads:
        operation.record_read(target.engine, predicate)
    with operation.files(target.engine) as candidate_files:
        files = list(candidate_files)
    if runs_in_driver(target, (file.size for file in files)):
        result = operation.task.run(target.engine, operation.source, files, inserting=True)
    else:
        result = _run_on_executors(target, operation, rows, files)
    return operation.commit(target.engine, result)


def _with_table_name(
    request: MergeRequest, source: Any, schemas: Sequence[StructType]
) -> MergeRequest:
    """Set the source alias to the source table's name if a struct column has the same name.

    As in Spark, `s.a` then means the column `a` of the source table `s`. Without the alias, `s.a`
    would mean the field `a` of the struct column `s`.
    """
    structs = {f.name.lower() for s in schemas for f in s if isinstance(f.data_type, StructType)}
    if request.source_alias is not None or not structs:
        return request
    name = common_qualifier(source)
    if name is None or name.lower() not in structs:
        return request
    if request.target_alias is not None and request.target_alias.lower() == name.lower():
        return request
    return replace(request, source_alias=name)


def source_alias(source: Any) -> str | None:
    """Return the alias of a DataFrame; None if it has no alias."""
    if not is_classic(source.sparkSession):
        alias = getattr(source._plan, "_alias", None)  # noqa: SLF001  # no public API
        return None if alias is None else str(alias)
    return plan_alias(source)


def _run_on_executors(
    target: TargetTable, operation: MergeOperation, rows: MergeSource, files: Sequence[ScanFile]
) -> MergeResult:
    """Change the matched rows of `files` in a Spark job, then insert the unmatched source rows."""
    spark = target.spark
    source = spark.sparkContext.broadcast(rows)
    tasks = number_of_tasks(spark)
    chunks = split_by_size(files, lambda file: file.size, tasks)
    worker = _Worker(operation.task.to_bytes(), target.engine.description(), source, 2 * tasks)

    def discard(results: list[bytes]) -> None:
        written = MergeResult.combined(map(MergeResult.from_bytes, results))
        written.changes.discard(target.engine, target.path)

    def merge(number: int, chunk: list[bytes]) -> bytes:
        return worker.merge(number, chunk)

    def insert(number: int, chunk: BitMap64) -> bytes:
        return worker.insert(tasks + number, chunk, record_changes=recorded)

    try:
        results = run_tasks(
            spark,
            [[file.to_bytes() for file in chunk] for chunk in chunks],
            merge,
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
                task = operation.task.for_writer(tasks, 2 * tasks)
                new = task.insert(
                    target.engine, operation.source, unmatched, record_changes=recorded
                )
                return MergeResult.combined([matched, new])
            results = run_tasks(
                spark,
                parts,
                insert,
                table=target.path,
                description=f"Insert into {target.path}",
                discard=discard,
            )
        except BaseException:
            matched.changes.discard(target.engine, target.path)
            raise
        return MergeResult.combined([matched, *map(MergeResult.from_bytes, results)])
    finally:
        source.destroy()


@dataclass(frozen=True, slots=True)
class _Worker:
    """Changes and inserts rows in Spark tasks. Spark pickles the worker to send it to the tasks.

    Attributes:
        task: the serialized `MergeTask`.
        source: the broadcast variable that contains the `MergeSource`.
        writers: total number of tasks that write. The tasks need this number to assign distinct
            identity values.
    """

    task: bytes
    engine: EngineDescription
    source: Any
    writers: int

    def merge(self, number: int, chunk: list[bytes]) -> bytes:
        engine, task = from_description(self.engine), self._task(number)
        files = [ScanFile.from_bytes(data) for data in chunk]
        return task.run(engine, task.prepare(self.source.value), files).to_bytes()

    def insert(self, number: int, rows: BitMap64, *, record_changes: bool) -> bytes:
        engine, task = from_description(self.engine), self._task(number)
        source = task.prepare(self.source.value)
        return task.insert(engine, source, rows, record_changes=record_changes).to_bytes()

    def _task(self, number: int) -> MergeTask:
        return MergeTask.from_bytes(self.task).for_writer(number, self.writers)


def _split_rows(rows: BitMap64, max_parts: int) -> list[BitMap64]:
    """Split the indexes of the source rows to insert into at most `max_parts` sets.

    Each set is the input of one task.
    """
    count = max(1, min(max_parts, len(rows) // _MIN_ROWS_PER_TASK))
    step = -(-len(rows) // count)
    return [rows[first : first + step] for first in range(0, len(rows), step)]
