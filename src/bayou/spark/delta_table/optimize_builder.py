"""The builders that `DeltaTable.optimize` and `DeltaTable.reorg` return."""

from __future__ import annotations

from typing import Any

from bayou.errors import ArgumentError
from bayou.spark.commands.optimize import OptimizeCommands
from bayou.spark.delta_table.arguments import check_names, check_string
from bayou.spark.delta_table.result_dataframes import optimize_frame
from bayou.spark.exceptions import methods_raise_spark_exceptions
from bayou.spark.expressions.session_grammar import session_sql
from bayou.spark.target_table import TargetTable


@methods_raise_spark_exceptions
class DeltaOptimizeBuilder:
    """Builder of OPTIMIZE. `DeltaTable.optimize` creates one."""

    def __init__(self, target: TargetTable, where: str | None = None) -> None:
        self._target = target
        self._where = where

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:  # noqa: N803  # delta-spark's
        """Restrict the command to partitions that match a condition over partition columns."""
        where = session_sql(self._target.spark, check_string(partitionFilter, "partitionFilter"))
        return DeltaOptimizeBuilder(self._target, where)

    def executeCompaction(  # noqa: N802  # delta-spark's names, here and below
        self, *, full: bool = False
    ) -> Any:
        """Compact small files. For a table with clustering columns, cluster the rows instead.

        Args:
            full: whether to also rewrite files that are already clustered (`OPTIMIZE ... FULL`);
                only for clustered tables.

        Returns:
            A DataFrame of one row: the table's path and metrics.

        Raises:
            PredicateError: the condition of `where` isn't over partition columns.
            CommitConflictError: a concurrent commit changed a file that this command rewrites.
        """
        metrics = _commands(self._target).optimize(self._where, full=full)
        return optimize_frame(self._target.spark, self._target.path, metrics)

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> Any:  # noqa: N802
        """Rewrite the rows in Z-order of the columns.

        Returns:
            A DataFrame of one row: the table's path and metrics.

        Raises:
            SchemaError: a column doesn't exist, has no statistics, or is a partition column.
            PredicateError, CommitConflictError: see `executeCompaction`.
        """
        metrics = _commands(self._target).zorder(check_names(cols, "cols"), self._where)
        return optimize_frame(self._target.spark, self._target.path, metrics)


@methods_raise_spark_exceptions
class DeltaReorgBuilder:
    """Builder of REORG TABLE. `DeltaTable.reorg` creates one."""

    def __init__(self, target: TargetTable, where: str | None = None) -> None:
        self._target = target
        self._where = where

    def where(self, partitionFilter: str) -> DeltaReorgBuilder:  # noqa: N803
        """Restrict the command to partitions that match a condition over partition columns."""
        where = session_sql(self._target.spark, check_string(partitionFilter, "partitionFilter"))
        return DeltaReorgBuilder(self._target, where)

    def executePurge(self) -> Any:  # noqa: N802
        """Rewrite files that contain deleted rows or dropped columns.

        Returns:
            A DataFrame of one row: the table's path and metrics.

        Raises:
            PredicateError, CommitConflictError: see `DeltaOptimizeBuilder.executeCompaction`.
        """
        metrics = _commands(self._target).purge(self._where)
        return optimize_frame(self._target.spark, self._target.path, metrics)

    def executeUpgradeUniform(self, icebergCompatVersion: int) -> Any:  # noqa: N802, N803
        """Make the table readable as an Iceberg table.

        Enables a version of Iceberg compatibility, rewrites the files that violate the rules of
        this version, and sets `delta.universalFormat.enabledFormats = iceberg`.

        Args:
            icebergCompatVersion: 1, 2 or 3.

        Returns:
            A DataFrame of one row: the table's path and metrics.

        Raises:
            IcebergCompatError: the table violates a rule of the version, and a rewrite of files
                can't fix this.
            ArgumentError: a partition filter was set.
        """
        if self._where is not None:
            raise ArgumentError(
                f"{self._target.path}: UPGRADE UNIFORM rewrites all partitions. Remove where().",
                argument="partitionFilter",
            )
        metrics = _commands(self._target).upgrade_uniform(icebergCompatVersion)
        return optimize_frame(self._target.spark, self._target.path, metrics)


def _commands(target: TargetTable) -> OptimizeCommands:
    return OptimizeCommands(
        spark=target.spark,
        engine=target.engine,
        table=target.table,
        time_zone=target.time_zone,
    )
