"""OPTIMIZE and VACUUM of a table, in this process or on the executors of a Spark session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import SparkSession

from bayou.api import TableHandle
from bayou.engines import for_path
from bayou.kernel import Engine, Predicate, Table
from bayou.kernel.commands.optimize.metrics import OptimizeMetrics
from bayou.kernel.commands.vacuum.vacuum import VacuumMetrics
from bayou.spark.commands.optimize import OptimizeCommands
from bayou.spark.commands.vacuum import vacuum_table


class TableCommands(Protocol):
    """The commands that maintenance runs on a table."""

    def optimize(self, where: Predicate | None, min_size: int) -> OptimizeMetrics:
        """Compact files that are smaller than `min_size` bytes.

        If the table has clustering columns, cluster its files instead.

        Args:
            where: predicate that selects table partitions; None for all partitions.
        """
        ...

    def zorder(self, columns: Sequence[str], where: Predicate | None) -> OptimizeMetrics:
        """In each table partition that `where` selects, sort the rows in Z-order by `columns`."""
        ...

    def vacuum(self, retention_hours: float | None) -> VacuumMetrics:
        """Delete files that no version within the retention needs."""
        ...


def table_commands(
    handle: TableHandle, storage_options: Mapping[str, str], spark: SparkSession | None
) -> TableCommands:
    """Return an object that runs the commands of a table.

    Args:
        spark: the session whose executors run the commands of large tables. If None, all commands
            run in this process.
    """
    if spark is None:
        return _InProcess(handle)
    engine = for_path(handle.table_uri, storage_options)
    return _OnSpark(spark, engine, Table.for_path(engine, handle.table_uri))


@dataclass(frozen=True, slots=True)
class _InProcess:
    handle: TableHandle

    def optimize(self, where: Predicate | None, min_size: int) -> OptimizeMetrics:
        return self.handle.optimize(where, min_size=min_size)

    def zorder(self, columns: Sequence[str], where: Predicate | None) -> OptimizeMetrics:
        return self.handle.optimize.z_order(columns, where)

    def vacuum(self, retention_hours: float | None) -> VacuumMetrics:
        return self.handle.vacuum(retention_hours, dry_run=False)


@dataclass(frozen=True, slots=True)
class _OnSpark:
    spark: SparkSession
    engine: Engine
    table: Table

    def optimize(self, where: Predicate | None, min_size: int) -> OptimizeMetrics:
        return self._commands.optimize(where, min_bytes=min_size)

    def zorder(self, columns: Sequence[str], where: Predicate | None) -> OptimizeMetrics:
        return self._commands.zorder(columns, where)

    def vacuum(self, retention_hours: float | None) -> VacuumMetrics:
        return vacuum_table(self.spark, self.engine, self.table, retention_hours)

    @property
    def _commands(self) -> OptimizeCommands:
        return OptimizeCommands(spark=self.spark, engine=self.engine, table=self.table)
