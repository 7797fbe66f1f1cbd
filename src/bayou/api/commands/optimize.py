"""OPTIMIZE, Z-order and REORG: `TableOptimizer`."""

from __future__ import annotations

from collections.abc import Sequence

from bayou.api.argument_checks import BoundTable, checked_names, checked_number
from bayou.api.conditions import Condition, checked_condition
from bayou.api.rows.parallel_iteration import available_cores
from bayou.errors import ArgumentError
from bayou.kernel import Snapshot
from bayou.kernel.commands.optimize.clustering import plan_clustering
from bayou.kernel.commands.optimize.metrics import OptimizeMetrics
from bayou.kernel.commands.optimize.optimize import plan_optimize, plan_zorder
from bayou.kernel.commands.optimize.purge import plan_purge
from bayou.kernel.commands.optimize.rewrite_execution import (
    RewriteLimits,
    RewritePlan,
    planned_metrics,
    run_plan,
)
from bayou.kernel.commands.optimize.upgrade_uniform import upgrade_uniform
from bayou.version import ENGINE_INFO

_MEMORY_BYTES = 512 << 20
"""Memory in bytes for sorting rows; all concurrent sorts of a call share it."""


class TableOptimizer(BoundTable):
    """OPTIMIZE of a table: `optimize()`, `optimize.compact()`, `optimize.z_order()` and others.

    `TableHandle.optimize` returns this object. Rows don't change, and concurrent appends don't
    conflict.

    Examples:
        >>> table = bayou.table("lake/orders")
        >>> table.optimize()
        >>> table.optimize.compact(partition_filters=[("country", "=", "NZ")])
        >>> table.optimize.z_order(["id"])
    """

    __slots__ = ()

    def __call__(
        self,
        partition_filters: Condition | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        *,
        min_size: int | None = None,
        max_deleted_rows_ratio: float = 0.05,
        full: bool = False,
        batch_size: int | None = None,
        dry_run: bool = False,
    ) -> OptimizeMetrics:
        """Compact small files, or cluster the files of a table with clustering columns.

        In a clustered table, the command rewrites the files that aren't clustered yet. It also
        rewrites the ZCubes below 100 GiB. A ZCube is a group of files that were clustered together.
        The rewritten rows are ordered along the Hilbert curve of the clustering columns.

        Args:
            target_size, max_concurrent_tasks, batch_size, dry_run: see `compact`.
            partition_filters: see `compact`. This argument is an error for a clustered table.
            min_size, max_deleted_rows_ratio: see `compact`; ignored for a clustered table.
            full: whether to also rewrite files that were clustered by other columns. True is an
                error for a table without clustering columns.

        Returns:
            Metrics; `version` is None if nothing was committed.

        Raises:
            ArgumentError: an argument doesn't apply to the table.
            PredicateError, CommitConflictError, DataFileError: see `compact`.
        """
        state = self._table.latest_snapshot(self._engine)
        if not state.clustering_columns:
            if full:
                raise ArgumentError(
                    f"{state.path}: full=True requires a clustered table. Remove the argument "
                    "full.",
                    argument="full",
                )
            return self._compact(
                state,
                partition_filters,
                target_size=target_size,
                limits=_limits(batch_size, max_concurrent_tasks),
                min_size=min_size,
                max_deleted_rows_ratio=max_deleted_rows_ratio,
                dry_run=dry_run,
            )
        if partition_filters is not None:
            raise ArgumentError(
                f"{state.path}: a clustered table has no partitions to select. Remove "
                "partition_filters.",
                argument="partition_filters",
            )
        plan = plan_clustering(
            self._engine,
            state,
            ENGINE_INFO,
            full=full,
            target_bytes=_checked_size(target_size, "target_size"),
        )
        return self._run(plan, _limits(batch_size, max_concurrent_tasks), dry_run=dry_run)

    def compact(
        self,
        partition_filters: Condition | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        *,
        min_size: int | None = None,
        max_deleted_rows_ratio: float = 0.05,
        batch_size: int | None = None,
        dry_run: bool = False,
    ) -> OptimizeMetrics:
        """Compact small files into larger ones.

        Args:
            partition_filters: condition over partition columns; only matching partitions are
                compacted.
            target_size: maximum total size in bytes of the input files that are combined into one
                output file. If None, this is the table property `delta.targetFileSize` (default:
                128 MB).
            max_concurrent_tasks: number of files that are written concurrently. If None, this is
                the number of available CPU cores.
            min_size: files smaller than this number of bytes are compacted. If None, this is
                `target_size`.
            max_deleted_rows_ratio: files with a higher fraction of deleted rows are also rewritten.
            batch_size: approximate total size in bytes of the files that one commit replaces. If
                None, this is 16 GB. If a batch fails, the commits of earlier batches remain.
            dry_run: whether to rewrite nothing. The metrics describe the files to remove.

        Returns:
            Metrics; `version` is None if nothing was committed.

        Raises:
            ArgumentError: the table is clustered; call `optimize()` instead.
            PredicateError: the filter isn't valid, or uses other columns than partition columns.
            CommitConflictError: another writer removed or changed a file that this call rewrites.
            DataFileError: a file is missing or damaged.

        Examples:
            >>> metrics = bayou.table("lake/orders").optimize.compact()
            >>> print(metrics.num_files_removed, metrics.num_files_added)
        """
        state = self._table.latest_snapshot(self._engine)
        if state.clustering_columns:
            raise ArgumentError(
                f"{state.path}: the table is clustered, and compaction doesn't preserve the "
                "clustering. Call optimize() instead.",
                argument="compact",
            )
        return self._compact(
            state,
            partition_filters,
            target_size=target_size,
            limits=_limits(batch_size, max_concurrent_tasks),
            min_size=min_size,
            max_deleted_rows_ratio=max_deleted_rows_ratio,
            dry_run=dry_run,
        )

    def z_order(
        self,
        columns: Sequence[str],
        partition_filters: Condition | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        *,
        batch_size: int | None = None,
        dry_run: bool = False,
    ) -> OptimizeMetrics:
        """Rewrite each partition in Z-order of some columns, in files of similar size.

        Reads with filters on these columns then skip more files. Rows that don't fit into memory
        are spilled to the local disk.

        Args:
            columns: names of columns, or dotted paths of nested fields. They must have statistics,
                and can't be partition columns.
            partition_filters, target_size, max_concurrent_tasks, batch_size, dry_run: see
                `compact`.

        Raises:
            SchemaError: a column doesn't exist, has no statistics, or is a partition column.
            PredicateError, CommitConflictError, DataFileError: see `compact`.

        Examples:
            >>> bayou.table("lake/orders").optimize.z_order(["id", "price"])
        """
        names = checked_names(columns, "columns") or ()
        limits = _limits(batch_size, max_concurrent_tasks)
        state = self._table.latest_snapshot(self._engine)
        plan = plan_zorder(
            self._engine,
            state,
            ENGINE_INFO,
            names,
            where=checked_condition(partition_filters, "partition_filters"),
            target_bytes=_checked_size(target_size, "target_size"),
        )
        return self._run(plan, limits, dry_run=dry_run)

    def purge(
        self,
        partition_filters: Condition | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        *,
        batch_size: int | None = None,
    ) -> OptimizeMetrics:
        """Rewrite files that contain deleted rows or dropped columns (REORG TABLE APPLY (PURGE)).

        The old files remain until a vacuum deletes them. See `compact` for the arguments, the
        result and errors.

        Examples:
            >>> bayou.table("lake/orders").optimize.purge()
        """
        limits = _limits(batch_size, max_concurrent_tasks)
        state = self._table.latest_snapshot(self._engine)
        plan = plan_purge(
            self._engine,
            state,
            ENGINE_INFO,
            where=checked_condition(partition_filters, "partition_filters"),
            target_bytes=_checked_size(target_size, "target_size"),
        )
        return self._run(plan, limits)

    def upgrade_uniform(
        self,
        iceberg_compat_version: int,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        *,
        batch_size: int | None = None,
    ) -> OptimizeMetrics:
        """Make an existing table readable as an Iceberg table (REORG ... (UPGRADE UNIFORM ...)).

        The command enables a table feature such as `icebergCompatV2`, and sets
        `delta.universalFormat.enabledFormats`. For `icebergCompatV2` and `icebergCompatV3`, files
        that don't meet the feature's requirements are rewritten.

        Args:
            iceberg_compat_version: 1 for `icebergCompatV1`, 2 for `icebergCompatV2`, 3 for
                `icebergCompatV3`. For 1 and 2, deletion vectors are disabled. For 3, row tracking
                is enabled.
            target_size, max_concurrent_tasks, batch_size: see `compact`.

        Raises:
            IcebergCompatError: the table violates a rule of the table feature.

        Examples:
            >>> bayou.table("lake/orders").optimize.upgrade_uniform(2)
        """
        limits = _limits(batch_size, max_concurrent_tasks)
        return upgrade_uniform(
            self._engine,
            self._table.latest_snapshot(self._engine),
            iceberg_compat_version,
            lambda plan: self._run(plan, limits),
            engine_info=ENGINE_INFO,
            target_bytes=_checked_size(target_size, "target_size"),
        )

    def _compact(
        self,
        state: Snapshot,
        partition_filters: Condition | None,
        *,
        target_size: int | None,
        limits: RewriteLimits,
        min_size: int | None,
        max_deleted_rows_ratio: float,
        dry_run: bool,
    ) -> OptimizeMetrics:
        checked_number(
            max_deleted_rows_ratio, "max_deleted_rows_ratio", "a fraction of rows", whole=False
        )
        plan = plan_optimize(
            self._engine,
            state,
            ENGINE_INFO,
            where=checked_condition(partition_filters, "partition_filters"),
            target_bytes=_checked_size(target_size, "target_size"),
            min_bytes=_checked_size(min_size, "min_size"),
            max_deleted_rows_ratio=max_deleted_rows_ratio,
        )
        return self._run(plan, limits, dry_run=dry_run)

    def _run(
        self, plan: RewritePlan, limits: RewriteLimits, *, dry_run: bool = False
    ) -> OptimizeMetrics:
        if dry_run:
            return planned_metrics(plan, limits)
        return run_plan(self._engine, plan, ENGINE_INFO, limits)


def _checked_size(value: int | None, argument: str) -> int | None:
    return checked_number(value, argument, "a number of bytes", minimum=1)


def _limits(batch_size: int | None, max_concurrent_tasks: int | None) -> RewriteLimits:
    checked_number(batch_size, "batch_size", "a number of bytes", minimum=1)
    checked_number(max_concurrent_tasks, "max_concurrent_tasks", "a number of files", minimum=1)
    return RewriteLimits(
        batch_bytes=batch_size or RewriteLimits().batch_bytes,
        parallelism=max_concurrent_tasks or available_cores(),
        memory_bytes=_MEMORY_BYTES,
    )
