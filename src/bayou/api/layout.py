"""How a table's rows are laid out in files, and which version's files those are."""

from __future__ import annotations

from collections.abc import Sequence

from bayou.api.arguments import checked_names
from bayou.api.bound_table import BoundTable
from bayou.api.interleaving import available_cores
from bayou.errors import ArgumentError
from bayou.kernel import Predicate
from bayou.kernel.operations.optimize import (
    clustering_paths,
    plan_clustering,
    plan_optimize,
    plan_zorder,
)
from bayou.kernel.operations.optimize_metrics import OptimizeMetrics
from bayou.kernel.operations.purge import plan_purge
from bayou.kernel.operations.rewrite_plan import RewriteLimits, RewritePlan, run_plan
from bayou.version import ENGINE_INFO

__all__ = ["Layout"]

_MEMORY_BYTES = 512 << 20
"""For rows that wait to be ordered."""


class Layout(BoundTable):
    """Files rearranged, versions brought back, tables cloned."""

    __slots__ = ()

    def optimize(
        self,
        where: Predicate | str | None = None,
        target_size: int | None = None,
        *,
        min_size: int | None = None,
        max_deleted_rows_ratio: float = 0.05,
        full: bool = False,
        batch_size: int | None = None,
        parallelism: int | None = None,
    ) -> OptimizeMetrics:
        """Pack small files into larger ones; rows stay what they are.

        A clustered table is clustered instead: its new files and small cubes along the Hilbert
        curve of its clustering columns. Safe beside other writers: appends never stand in the way.

        Args:
            where: over partition columns; only these partitions.
            target_size: bytes of files that become one at most; None: `delta.targetFileSize`, or
                128 MB.
            min_size: bytes from which a file stays as it is; None: `target_size`.
            max_deleted_rows_ratio: a file with a deletion vector is rewritten where more than this
                share of its rows is deleted.
            full: of a clustered table also what was clustered by other columns before.
            batch_size: bytes of files that one commit replaces, about; None: 16 GB. What was
                committed stands if a later batch fails.
            parallelism: files that are written at the same time; None: one a core.

        Returns:
            What was done; `version` is None where there was nothing to do, and no commit.

        Raises:
            PredicateError: `where` can't be understood, or isn't over partition columns only.
            CommitConflictError: another writer removed or changed a file that was rewritten.
            DataFileError: a file is missing or damaged.
        """
        limits = _limits(batch_size, parallelism)
        state = self._table.latest_snapshot(self._engine)
        if clustering_paths(state):
            if where is not None:
                raise ArgumentError(
                    f"{state.path} is a clustered table, which has no partitions to choose by "
                    "where.",
                    argument="where",
                )
            return self._run(
                plan_clustering(
                    self._engine, state, ENGINE_INFO, full=full, target_bytes=target_size
                ),
                limits,
            )
        if full:
            raise ArgumentError(
                f"full is for clustered tables, and {state.path} isn't one.", argument="full"
            )
        plan = plan_optimize(
            self._engine,
            state,
            ENGINE_INFO,
            where=where,
            target_bytes=target_size,
            min_bytes=min_size,
            max_deleted_rows_ratio=max_deleted_rows_ratio,
        )
        return self._run(plan, limits)

    def zorder(
        self,
        columns: Sequence[str],
        where: Predicate | str | None = None,
        target_size: int | None = None,
        *,
        batch_size: int | None = None,
        parallelism: int | None = None,
    ) -> OptimizeMetrics:
        """Put each partition's rows along the Z-order of some columns, in files of one size.

        A filter on any of the columns then reads few files. Memory is bounded: rows that don't fit
        wait on the local disk.

        Args:
            columns: names, dotted for nested ones; they need statistics, and aren't partition
                columns.
            where, target_size, batch_size, parallelism: see `optimize`.

        Raises:
            SchemaError: a column that isn't there, has no statistics, or partitions the table.
            PredicateError, CommitConflictError, DataFileError: see `optimize`.
        """
        names = checked_names(columns, "columns") or ()
        limits = _limits(batch_size, parallelism)
        state = self._table.latest_snapshot(self._engine)
        plan = plan_zorder(
            self._engine, state, ENGINE_INFO, names, where=where, target_bytes=target_size
        )
        return self._run(plan, limits)

    def purge(
        self,
        where: Predicate | str | None = None,
        *,
        target_size: int | None = None,
        batch_size: int | None = None,
        parallelism: int | None = None,
    ) -> OptimizeMetrics:
        """Rewrite files that hold deleted rows, or columns that the table has dropped.

        The old files go with the next vacuum. Arguments, result and errors as of `optimize`.
        """
        limits = _limits(batch_size, parallelism)
        state = self._table.latest_snapshot(self._engine)
        plan = plan_purge(self._engine, state, ENGINE_INFO, where=where, target_bytes=target_size)
        return self._run(plan, limits)

    def _run(self, plan: RewritePlan, limits: RewriteLimits) -> OptimizeMetrics:
        return run_plan(self._engine, plan, ENGINE_INFO, limits)


def _limits(batch_size: int | None, parallelism: int | None) -> RewriteLimits:
    for name, value in (("batch_size", batch_size), ("parallelism", parallelism)):
        if value is not None and (type(value) is not int or value < 1):
            raise ArgumentError(f"{name} is {value!r}; it is a number from 1 on.", argument=name)
    return RewriteLimits(
        batch_bytes=batch_size or RewriteLimits().batch_bytes,
        parallelism=parallelism or available_cores(),
        memory_bytes=_MEMORY_BYTES,
    )
