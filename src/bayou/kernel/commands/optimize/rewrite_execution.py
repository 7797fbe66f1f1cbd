"""Execution and commits of planned file rewrites.

A plan stays in the process that commits. The rewrite tasks of the plan (`RewriteTask`) run in
threads by default, or in other processes. `run_plan` commits the results of the tasks in batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from bayou.errors import (
    BayouError,
    MetadataChangedError,
    ProtocolChangedError,
)
from bayou.kernel.commands.optimize.metrics import (
    FileSizeMetrics,
    OptimizeMetrics,
    ZOrderStats,
    history_metrics,
)
from bayou.kernel.commands.optimize.rewrite import RewriteTask, rewrite
from bayou.kernel.commands.optimize.z_cubes import ClusteringStats
from bayou.kernel.data_writer.data_writer import delete_data_files
from bayou.kernel.engine import Engine
from bayou.kernel.expressions.model import Literal, Predicate
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.kernel.operation import Operation
from bayou.kernel.scan.scan import ScanBuilder
from bayou.kernel.transaction.builder import TransactionBuilder
from bayou.kernel.transaction.commit import TransactionCommitResult, discard_unless_committed
from bayou.kernel.transaction.commit_table_actions import current_time_ms, to_remove
from bayou.kernel.transaction.transaction import Transaction
from bayou.protocol.actions import Action, AddFile

_LOG = logging.getLogger(__name__)

_MAX_RETRIES = 5
"""Maximum number of retries after concurrent metadata changes that don't affect the rewrite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteLimits:
    """Resource limits for running a plan.

    Attributes:
        batch_bytes: approximate total size of the files that one commit replaces. If a rewrite task
            fails, the earlier commits remain.
        parallelism: number of rewrite tasks that run in parallel.
        memory_bytes: memory for sorting rows, shared by all running tasks.
    """

    batch_bytes: int = 16 << 30
    parallelism: int = 2
    memory_bytes: int = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePlan:
    """Groups of files to rewrite, and the values that the commits record in the history.

    Attributes:
        where: condition that selected the partitions. If None, all partitions were selected.
        time_zone: time zone of timestamp partition values that are stored without a time zone.
        items: one rewrite task for each group of files that are rewritten together. A file is in
            one group only.
        considered: number of live files in the selected partitions.
        partitions: number of partitions with rewritten files.
        started: start time in milliseconds since the epoch.
    """

    state: TableState
    operation: Operation
    parameters: Mapping[str, object]
    where: Predicate | None
    items: tuple[RewriteTask, ...]
    considered: int
    partitions: int
    started: int
    is_zorder: bool = False
    clustering: ClusteringStats | None = None
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteResult:
    """Result of a rewrite task.

    Attributes:
        item: the rewrite task, whose files are replaced.
        added: `add` actions of the new files.
    """

    item: RewriteTask
    added: tuple[AddFile, ...]

    @property
    def removed(self) -> tuple[AddFile, ...]:
        return tuple(file.add for file in self.item.files)


RunItems: TypeAlias = Callable[[Sequence[RewriteTask]], Sequence[Sequence[AddFile]]]
"""Function that runs `rewrite` for each task and returns the results in the order of the tasks.

If a task fails, the function must delete the new files of the other tasks, then raise the error.
"""


def run_plan(
    engine: Engine,
    plan: RewritePlan,
    engine_info: str,
    limits: RewriteLimits | None = None,
    *,
    run_items: RunItems | None = None,
) -> OptimizeMetrics:
    """Run the rewrite tasks of a plan, and commit the results in batches.

    A plan without rewrite tasks commits nothing. After a failure, earlier batches stay committed,
    and uncommitted new files are deleted.

    Args:
        run_items: function that runs the tasks of a batch in other processes. If None, the tasks
            run in threads of this process.
    """
    limits = limits or RewriteLimits()
    done: list[RewriteResult] = []
    version: int | None = None
    batches = _batches(plan.items, limits.batch_bytes)
    for batch in batches:
        if run_items is None:
            results = _run(engine, batch, limits)
        else:
            written = zip(batch, run_items(batch), strict=True)
            results = [RewriteResult(item=item, added=tuple(adds)) for item, adds in written]
        with discard_unless_committed(partial(_discard, engine, plan.state.path, results)):
            committed = commit_rewrites(engine, plan, results, engine_info)
        committed.run_post_commit_hooks(engine)
        version = committed.version
        done += results
    return _metrics(plan, done, len(batches), version)


def planned_metrics(plan: RewritePlan, limits: RewriteLimits | None = None) -> OptimizeMetrics:
    """Return the metrics of a dry run. They count the files to remove, but no new files."""
    unwritten = [RewriteResult(item=item, added=()) for item in plan.items]
    batches = _batches(plan.items, (limits or RewriteLimits()).batch_bytes)
    return _metrics(plan, unwritten, len(batches), None)


def commit_rewrites(
    engine: Engine, plan: RewritePlan, results: Sequence[RewriteResult], engine_info: str
) -> TransactionCommitResult:
    """Commit results of rewrite tasks, after rebasing the commit onto concurrent commits.

    Concurrent appends never conflict. Concurrent metadata changes don't conflict if the schema, the
    partition columns, column mapping and row tracking stay the same.
    """
    added = [add for result in results for add in result.added]
    removed = [add for result in results for add in result.removed]
    now = current_time_ms()
    actions: list[Action] = [*added, *(to_remove(a, now, data_change=False) for a in removed)]
    vectors = [a.deletion_vector for a in removed if a.deletion_vector is not None]
    metrics = history_metrics(added, removed, vectors)
    tags = {"delta.rowTracking.preserved": "true"} if _keeps_row_ids(results) else None
    state = plan.state
    for attempt in range(_MAX_RETRIES + 1):
        transaction = _transaction(engine, plan, state, engine_info)
        transaction.record_read(plan.where or Literal(True), [add.path for add in removed])
        try:
            return transaction.commit(engine, actions, operation_metrics=metrics, tags=tags)
        except (MetadataChangedError, ProtocolChangedError):
            latest = load_table_state(engine, state.path, catalog=state.catalog)
            if attempt == _MAX_RETRIES or not _still_fits(engine, plan, latest, removed):
                raise
            state = latest
    raise AssertionError  # the last attempt returns or raises


def _transaction(
    engine: Engine, plan: RewritePlan, state: TableState, engine_info: str
) -> Transaction:
    return (
        TransactionBuilder(
            table=state.path, read_state=state, engine_info=engine_info, operation=plan.operation
        )
        .with_operation_parameters(plan.parameters)
        .build(engine)
    )


def _still_fits(
    engine: Engine, plan: RewritePlan, latest: TableState, removed: Sequence[AddFile]
) -> bool:
    """Whether a planned rewrite can still be committed after the version `latest`.

    This is the case if the schema, partition columns, column mapping and row tracking are
    unchanged, and if all files that the rewrite removes are live.
    """
    before = plan.state
    if (
        latest.table_id != before.table_id
        or latest.schema != before.schema
        or latest.partition_columns != before.partition_columns
        or latest.column_mapping != before.column_mapping
        or _row_tracking(latest) != _row_tracking(before)
    ):
        return False
    missing = {add.key for add in removed}
    builder = ScanBuilder(latest).with_filter(plan.where).with_time_zone(plan.time_zone)
    scan = builder.with_whole_adds().build()
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        missing.difference_update(file.add.key for file in files)
    return not missing


def _row_tracking(state: TableState) -> dict[str, str]:
    return {k: v for k, v in state.properties.items() if "rowtracking" in k.lower()}


def _keeps_row_ids(results: Sequence[RewriteResult]) -> bool:
    return any(
        result.item.scan_state.row_tracking and result.item.scan_state.metadata_columns
        for result in results
    )


def _batches(items: Sequence[RewriteTask], max_bytes: int) -> list[list[RewriteTask]]:
    batches: list[list[RewriteTask]] = []
    size = 0
    for item in items:
        if not batches or size + item.size > max_bytes:
            batches.append([])
            size = 0
        batches[-1].append(item)
        size += item.size
    return batches


def _run(
    engine: Engine, batch: Sequence[RewriteTask], limits: RewriteLimits
) -> list[RewriteResult]:
    """Run the rewrite tasks of a batch; if a task fails, delete the new files of the others."""
    workers = max(1, min(limits.parallelism, len(batch)))
    memory = limits.memory_bytes // workers

    def run(item: RewriteTask) -> RewriteResult:
        return RewriteResult(item=item, added=tuple(rewrite(engine, item, memory_bytes=memory)))

    if workers == 1:
        results: list[RewriteResult] = []
        try:
            results.extend(map(run, batch))
        except BaseException:
            _discard(engine, batch[0].state.table, results)
            raise
        return results
    with ThreadPoolExecutor(workers, thread_name_prefix="bayou-rewrite") as pool:
        futures = [pool.submit(run, item) for item in batch]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            done = [f for f in futures if not f.cancelled() and f.exception() is None]
            _discard(engine, batch[0].state.table, [f.result() for f in done])
            raise


def _discard(engine: Engine, table: str, results: Sequence[RewriteResult]) -> None:
    adds = [add for result in results for add in result.added]
    try:
        delete_data_files(engine, table, adds)
    except BayouError as error:
        _LOG.warning(
            "%s: can't delete %d files of a failed rewrite: %s. VACUUM deletes them later.",
            table,
            len(adds),
            error,
        )


def _metrics(
    plan: RewritePlan, done: Sequence[RewriteResult], num_batches: int, version: int | None
) -> OptimizeMetrics:
    added = [add.size for result in done for add in result.added]
    removed = [add for result in done for add in result.removed]
    vectors = [a.deletion_vector for a in removed if a.deletion_vector is not None]
    columns = len(plan.state.schema.fields)
    indexed = plan.state.table_properties.data_skipping_column_count
    return OptimizeMetrics(
        version=version,
        num_files_added=len(added),
        num_files_removed=len(removed),
        files_added=FileSizeMetrics.of(added),
        files_removed=FileSizeMetrics.of([add.size for add in removed]),
        partitions_optimized=plan.partitions,
        num_bins=len(plan.items),
        num_batches=num_batches,
        total_considered_files=plan.considered,
        total_files_skipped=plan.considered - len(removed),
        num_deletion_vectors_removed=len(vectors),
        num_deleted_rows_removed=sum(vector.cardinality for vector in vectors),
        num_output_cubes=sum(result.item.order is not None for result in done),
        num_table_columns=columns,
        num_table_columns_with_stats=columns if indexed < 0 else min(columns, indexed),
        start_time_ms=plan.started,
        end_time_ms=current_time_ms(),
        z_order_stats=ZOrderStats.of([add.size for add in removed], plan.partitions)
        if plan.is_zorder
        else None,
        clustering_stats=plan.clustering,
    )
