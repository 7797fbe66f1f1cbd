"""`VACUUM`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StringType, StructField, StructType

from bayou.spark.commands.vacuum import Inventory, vacuum_table
from bayou.spark.delta_table.result_dataframes import qualified
from bayou.spark.sql_statements.context import StatementContext, quoted_table_name
from bayou.spark.sql_statements.token_cursor import TableName, TokenCursor

_SCHEMA = StructType([StructField("path", StringType())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """`VACUUM table [LITE | FULL] [USING INVENTORY ...] [RETAIN n HOURS] [DRY RUN]`.

    Attributes:
        lite: True for `LITE`, False for `FULL`, None for neither.
        inventory: a query that returns the files in the table's folder; None to list the folder.
        hours: the retention of `RETAIN n HOURS`; None for the table's retention.
    """

    table: TableName
    lite: bool | None
    inventory: str | None
    hours: float | None
    dry_run: bool

    def run(self, context: StatementContext) -> Any:
        """Delete unreferenced files and return a DataFrame with one row, the table's path.

        In a dry run, nothing is deleted. The DataFrame has the paths of the unreferenced files.
        """
        target = context.table(self.table)
        inventory = None
        if self.inventory is not None:
            inventory = Inventory(frame=context.query(self.inventory), location=target.location)
        result = vacuum_table(
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
            paths = result.inventory.column("path").to_pylist()
        rows = [(qualified(path),) for path in paths]
        return context.spark.createDataFrame(rows, _SCHEMA)


def parse_vacuum(cursor: TokenCursor) -> Vacuum:
    """Parse the tokens after `VACUUM`."""
    table = cursor.table()
    clauses: dict[str, Any] = {}

    def add(clause: str, value: Any) -> None:
        if clause in clauses:
            raise cursor.error(f"{clause} only once")
        clauses[clause] = value

    while not cursor.at_end:
        if cursor.take("LITE"):
            add("LITE or FULL", "LITE")
        elif cursor.take("FULL"):
            add("LITE or FULL", "FULL")
        elif cursor.take("USING", "INVENTORY"):
            add("USING INVENTORY", _parse_inventory(cursor))
        elif cursor.take("RETAIN"):
            add("RETAIN", cursor.number("a number of hours"))
            cursor.expect("HOURS|HOUR")
        elif cursor.take("DRY", "RUN"):
            add("DRY RUN", True)
        else:
            raise cursor.error("LITE, FULL, USING INVENTORY, RETAIN n HOURS or DRY RUN")
    kind, inventory = clauses.get("LITE or FULL"), clauses.get("USING INVENTORY")
    if kind == "LITE" and inventory is not None:
        raise cursor.error("LITE or USING INVENTORY, not both")
    return Vacuum(
        table=table,
        lite=None if kind is None else kind == "LITE",
        inventory=inventory,
        hours=clauses.get("RETAIN"),
        dry_run=clauses.get("DRY RUN", False),
    )


def _parse_inventory(cursor: TokenCursor) -> str:
    """Parse the inventory, a query in parentheses or a table's name, and return it as a query."""
    if cursor.next_are("("):
        return cursor.parenthesized()
    return f"TABLE {quoted_table_name(cursor.column('a table, or a query in parentheses'))}"
