"""`VACUUM`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StringType, StructField, StructType

from bayou.spark.statements.context import StatementContext
from bayou.spark.statements.words import TableName, Words
from bayou.spark.tables.frames import qualified
from bayou.spark.upkeep import vacuum_table

__all__ = ["Vacuum", "parse_vacuum"]

_SCHEMA = StructType([StructField("path", StringType())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """`VACUUM table [LITE | FULL] [RETAIN n HOURS] [DRY RUN]`."""

    table: TableName
    lite: bool
    hours: float | None
    dry_run: bool

    def run(self, context: StatementContext) -> Any:
        """Unneeded files deleted, or shown; a frame of paths: the table's, or those files'."""
        target = context.target(self.table)
        done = vacuum_table(
            context.spark,
            target.engine,
            target.table,
            self.hours,
            dry_run=self.dry_run,
            lite=self.lite,
        )
        paths: list[Any] = [target.path]
        if self.dry_run:
            paths = done.inventory.column("path").to_pylist()
        rows = [(qualified(path),) for path in paths]
        return context.spark.createDataFrame(rows, _SCHEMA)


def parse_vacuum(words: Words) -> Vacuum:
    """Behind `VACUUM`."""
    table = words.table()
    lite = full = dry_run = False
    hours: float | None = None
    while not words.ended:
        if words.take("LITE"):
            lite = True
        elif words.take("FULL"):
            full = True
        elif words.take("RETAIN"):
            hours = words.number("a number of hours")
            words.expect("HOURS|HOUR")
        elif words.take("DRY", "RUN"):
            dry_run = True
        elif words.begin_with("USING", "INVENTORY"):
            raise words.error("LITE, FULL, RETAIN or DRY RUN (inventories aren't supported)")
        else:
            raise words.error("LITE, FULL, RETAIN n HOURS or DRY RUN")
    if lite and full:
        raise words.error("LITE or FULL, not both,")
    return Vacuum(table=table, lite=lite, hours=hours, dry_run=dry_run)
