"""`DeltaTable.optimize()` and `DeltaTable.reorg()`."""

from __future__ import annotations

from typing import Any

from bayou.spark.commands.optimize import Rearranging
from bayou.spark.delta_table.result_dataframes import names, optimize_frame, text
from bayou.spark.target import TargetTable

__all__ = ["DeltaOptimizeBuilder", "DeltaReorgBuilder"]


class DeltaOptimizeBuilder:
    """Which partitions are laid out anew, and how. Made by `DeltaTable.optimize`."""

    def __init__(self, target: TargetTable, where: str | None = None) -> None:
        self._target = target
        self._where = where

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:  # noqa: N803  # delta-spark's
        """Only partitions for which a condition over partition columns is true."""
        return DeltaOptimizeBuilder(self._target, text(partitionFilter, "partitionFilter"))

    def executeCompaction(  # noqa: N802  # delta-spark's names, here and below
        self, *, full: bool = False
    ) -> Any:
        """Pack small files into larger ones; a clustered table is clustered instead.

        Args:
            full: of a clustered table also what was clustered before (`OPTIMIZE ... FULL`).

        Returns:
            A DataFrame of one row: the table's path and metrics.

        Raises:
            PredicateError: the condition isn't one over partition columns.
            CommitConflictError: another writer changed a file that was rewritten.
        """
        metrics = _rearranging(self._target).optimize(self._where, full=full)
        return optimize_frame(self._target.spark, self._target.path, metrics)

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> Any:  # noqa: N802
        """Lay rows out along the Z-order of some columns.

        Returns:
            A DataFrame of one row: the table's path and metrics.

        Raises:
            SchemaError: a column that isn't there, has no statistics, or partitions the table.
            PredicateError, CommitConflictError: see `executeCompaction`.
        """
        metrics = _rearranging(self._target).zorder(names(cols, "cols"), self._where)
        return optimize_frame(self._target.spark, self._target.path, metrics)


class DeltaReorgBuilder:
    """Which partitions are rid of what is deleted. Made by `DeltaTable.reorg`."""

    def __init__(self, target: TargetTable, where: str | None = None) -> None:
        self._target = target
        self._where = where

    def where(self, partitionFilter: str) -> DeltaReorgBuilder:  # noqa: N803
        """Only partitions for which a condition over partition columns is true."""
        return DeltaReorgBuilder(self._target, text(partitionFilter, "partitionFilter"))

    def executePurge(self) -> Any:  # noqa: N802
        """Rewrite files that hold deleted rows, or columns that the table has dropped.

        Returns:
            A DataFrame of one row: the table's path and metrics.

        Raises:
            PredicateError, CommitConflictError: see `DeltaOptimizeBuilder.executeCompaction`.
        """
        metrics = _rearranging(self._target).purge(self._where)
        return optimize_frame(self._target.spark, self._target.path, metrics)


def _rearranging(target: TargetTable) -> Rearranging:
    return Rearranging(spark=target.spark, engine=target.engine, table=target.table)
