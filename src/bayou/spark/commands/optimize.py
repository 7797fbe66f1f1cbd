"""OPTIMIZE, Z-order, clustering and purge: planned and committed here, run where they are large.

What a table needs is planned by the kernel, as items that rewrite some files each. A few bytes, or
one item, are rewritten by threads of this process: that takes no job and no workers. More goes to
executors, an item a task. Either way batches of items are committed one by one, so that what fails
late loses little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from bayou.api.parallel_iteration import available_cores
from bayou.errors import ArgumentError
from bayou.kernel import Engine, Snapshot, Table
from bayou.kernel.commands.optimize.clustering import plan_clustering
from bayou.kernel.commands.optimize.metrics import OptimizeMetrics
from bayou.kernel.commands.optimize.optimize import (
    plan_optimize,
    plan_zorder,
)
from bayou.kernel.commands.optimize.purge import plan_purge
from bayou.kernel.commands.optimize.rewrite_plan import RewriteLimits, RewritePlan, run_plan
from bayou.spark.commands.rewrite import rewrite_on_executors
from bayou.spark.commands.z_order import order_on_executors
from bayou.spark.session.settings import (
    OPTIMIZE_BATCH_BYTES,
    OPTIMIZE_DELETED_ROWS_RATIO,
    OPTIMIZE_LOCAL_BYTES,
    OPTIMIZE_MAX_FILE_SIZE,
    OPTIMIZE_MIN_FILE_SIZE,
)
from bayou.version import ENGINE_INFO

__all__ = ["Rearranging"]

_INFO = f"{ENGINE_INFO} (spark)"
_LOCAL_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearranging:
    """A table whose files are to be rearranged.

    Attributes:
        spark: a session, classic or Connect.
    """

    spark: Any
    engine: Engine
    table: Table

    def optimize(self, where: str | None = None, *, full: bool = False) -> OptimizeMetrics:
        """Pack small files into larger ones; a clustered table is clustered instead.

        Args:
            where: over partition columns; only these partitions.
            full: of a clustered table also what was clustered before.

        Raises:
            ArgumentError: `where` on a clustered table, `full` on another one, or a setting that
                isn't usable.
            PredicateError: `where` can't be understood, or isn't over partition columns only.
            CommitConflictError: another writer changed a file that was rewritten.
            DataFileError: a file is missing or damaged.
        """
        state = self._latest()
        target = OPTIMIZE_MAX_FILE_SIZE.integer(spark=self.spark)
        if state.clustering_columns:
            if where is not None:
                raise ArgumentError(
                    f"{state.path} is a clustered table, which has no partitions to choose by "
                    "WHERE (DELTA_CLUSTERING_WITH_PARTITION_PREDICATE).",
                    argument="where",
                )
            return self._run(
                plan_clustering(self.engine, state, _INFO, full=full, target_bytes=target)
            )
        if full:
            raise ArgumentError(
                f"FULL is for clustered tables, and {state.path} isn't one "
                "(DELTA_OPTIMIZE_FULL_NOT_SUPPORTED).",
                argument="full",
            )
        least = OPTIMIZE_MIN_FILE_SIZE.integer(spark=self.spark)
        return self._run(
            plan_optimize(
                self.engine,
                state,
                _INFO,
                where=where,
                target_bytes=target,
                min_bytes=least,
                max_deleted_rows_ratio=OPTIMIZE_DELETED_ROWS_RATIO.share(self.spark, 0.05),
            )
        )

    def zorder(self, columns: Sequence[str], where: str | None = None) -> OptimizeMetrics:
        """Lay each partition's rows out along the Z-order of some columns.

        Raises:
            SchemaError: a column that isn't there, has no statistics, or partitions the table.
            PredicateError, CommitConflictError, DataFileError: see `optimize`.
        """
        target = OPTIMIZE_MAX_FILE_SIZE.integer(spark=self.spark)
        state = self._latest()
        return self._run(
            plan_zorder(self.engine, state, _INFO, list(columns), where=where, target_bytes=target)
        )

    def purge(self, where: str | None = None) -> OptimizeMetrics:
        """Rewrite files that hold deleted rows, or columns that the table has dropped.

        Raises:
            PredicateError, CommitConflictError, DataFileError: see `optimize`.
        """
        target = OPTIMIZE_MAX_FILE_SIZE.integer(spark=self.spark)
        state = self._latest()
        return self._run(plan_purge(self.engine, state, _INFO, where=where, target_bytes=target))

    def _latest(self) -> Snapshot:
        return self.table.latest_snapshot(self.engine)

    def _run(self, plan: RewritePlan) -> OptimizeMetrics:
        limits = RewriteLimits(
            parallelism=available_cores(),
            batch_bytes=OPTIMIZE_BATCH_BYTES.integer(spark=self.spark)
            or RewriteLimits().batch_bytes,
        )
        local = OPTIMIZE_LOCAL_BYTES.integer(spark=self.spark)
        size = sum(item.size for item in plan.items)
        if not isinstance(self.spark, SparkSession) or size <= (
            _LOCAL_BYTES if local is None else local
        ):
            return run_plan(self.engine, plan, _INFO, limits)
        what = f"{plan.operation} {plan.state.path}@{plan.state.version}"
        if any(item.order is not None for item in plan.items):
            run_items = order_on_executors(self.spark, self.engine, plan.state.path, what)
        else:
            run_items = rewrite_on_executors(self.spark, self.engine, plan.state.path, what)
        return run_plan(self.engine, plan, _INFO, limits, run_items=run_items)
