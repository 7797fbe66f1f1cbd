"""`VACUUM`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StringType, StructField, StructType

from bayou.spark.commands.vacuum import Inventory, vacuum_table
from bayou.spark.delta_table.result_dataframes import qualified
from bayou.spark.sql_statements.context import StatementContext, name_of
from bayou.spark.sql_statements.token_cursor import TableName, Words

__all__ = ["Vacuum", "parse_vacuum"]

_SCHEMA = StructType([StructField("path", StringType())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """`VACUUM table [LITE | FULL] [USING INVENTORY ...] [RETAIN n HOURS] [DRY RUN]`.

    Attributes:
        lite: None where the statement doesn't say.
        inventory: a query that gives what lies in the table's folder; None: that is listed.
    """

    table: TableName
    lite: bool | None
    inventory: str | None
    hours: float | None
    dry_run: bool

    def run(self, context: StatementContext) -> Any:
        """Unneeded files deleted, or shown; a frame of paths: the table's, or those files'."""
        target = context.target(self.table)
        inventory = None
        if self.inventory is not None:
            inventory = Inventory(frame=context.query(self.inventory), location=target.location)
        done = vacuum_table(
            context.spark,
            target.engine,
            target.table,
            self.hours,
            dry_run=self.dry_run,
            lite=self.lite,
            inventory=inventory,
        )
        paths: list[Any] = [target.path]
        if self.dry_run:
            paths = done.inventory.column("path").to_pylist()
        rows = [(qualified(path),) for path in paths]
        return context.spark.createDataFrame(rows, _SCHEMA)


def parse_vacuum(words: Words) -> Vacuum:
    """Behind `VACUUM`."""
    table = words.table()
    given: dict[str, Any] = {}

    def say(what: str, value: Any) -> None:
        if what in given:
            raise words.error(f"{what} only once")
        given[what] = value

    while not words.ended:
        if words.take("LITE"):
            say("LITE or FULL", "LITE")
        elif words.take("FULL"):
            say("LITE or FULL", "FULL")
        elif words.take("USING", "INVENTORY"):
            say("USING INVENTORY", _inventory(words))
        elif words.take("RETAIN"):
            say("RETAIN", words.number("a number of hours"))
            words.expect("HOURS|HOUR")
        elif words.take("DRY", "RUN"):
            say("DRY RUN", True)
        else:
            raise words.error("LITE, FULL, USING INVENTORY, RETAIN n HOURS or DRY RUN")
    kind, inventory = given.get("LITE or FULL"), given.get("USING INVENTORY")
    if kind == "LITE" and inventory is not None:
        raise words.error("LITE or USING INVENTORY, not both,")
    return Vacuum(
        table=table,
        lite=None if kind is None else kind == "LITE",
        inventory=inventory,
        hours=given.get("RETAIN"),
        dry_run=given.get("DRY RUN", False),
    )


def _inventory(words: Words) -> str:
    """A query in parentheses, or all of a table."""
    if words.begin_with("("):
        return words.parenthesized()
    return f"TABLE {name_of(words.column('a table, or a query in parentheses'))}"
