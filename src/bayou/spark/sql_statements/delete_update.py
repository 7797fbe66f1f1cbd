"""`DELETE FROM`, `UPDATE` and `TRUNCATE TABLE`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from bayou.kernel.commands.truncate import truncate
from bayou.protocol.sql import quote_identifier
from bayou.spark.commands.delete_update import run_delete, run_update
from bayou.spark.sql_statements.context import RowStatement, StatementContext, TableStatement
from bayou.spark.sql_statements.token_cursor import TableName, TokenCursor
from bayou.spark.target_table import SPARK_ENGINE_INFO, TargetTable

_AFFECTED = StructType([StructField("num_affected_rows", LongType())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(RowStatement):
    """`DELETE FROM table [alias] [WHERE condition]`."""

    operation = "DELETE"

    alias: str | None
    where: str | None

    @property
    def unaliased_tables(self) -> tuple[TableName, ...]:
        return (self.table,) if self.alias is None else ()

    def run_on(self, target: TargetTable, context: StatementContext) -> Any:
        metrics = run_delete(_with_alias(target, self.alias), context.condition(self.where))
        rows = [] if metrics is None else [(metrics.num_deleted_rows,)]
        return context.spark.createDataFrame(rows, _AFFECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(RowStatement):
    """`UPDATE table [alias] SET column = value, ... [WHERE condition]`."""

    operation = "UPDATE"

    alias: str | None
    values: dict[str, str]
    where: str | None

    @property
    def unaliased_tables(self) -> tuple[TableName, ...]:
        return (self.table,) if self.alias is None else ()

    def run_on(self, target: TargetTable, context: StatementContext) -> Any:
        metrics = run_update(
            _with_alias(target, self.alias),
            context.condition(self.where),
            context.values(self.values),
        )
        rows = [] if metrics is None else [(metrics.num_updated_rows,)]
        return context.spark.createDataFrame(rows, _AFFECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate(TableStatement):
    """`TRUNCATE TABLE table`."""

    def run_on(self, target: TargetTable, context: StatementContext) -> Any:
        snapshot = target.table.latest_snapshot(target.engine)
        truncate(target.engine, snapshot, engine_info=SPARK_ENGINE_INFO)
        return context.empty_result()


def parse_delete(cursor: TokenCursor) -> Delete:
    """Parse the tokens after `DELETE`."""
    cursor.expect("FROM")
    table = cursor.table()
    alias = _parse_alias(cursor, "WHERE")
    where = cursor.until_end("a condition") if cursor.take("WHERE") else None
    cursor.expect_end()
    return Delete(table=table, alias=alias, where=where)


def parse_update(cursor: TokenCursor) -> Update:
    """Parse the tokens after `UPDATE`."""
    table = cursor.table()
    alias = _parse_alias(cursor, "SET")
    cursor.expect("SET")
    values = parse_assignments(cursor, "WHERE")
    where = cursor.until_end("a condition") if cursor.take("WHERE") else None
    cursor.expect_end()
    return Update(table=table, alias=alias, values=values, where=where)


def parse_truncate(cursor: TokenCursor) -> Truncate:
    """Parse the tokens after `TRUNCATE`."""
    cursor.expect("TABLE")
    table = cursor.table()
    if cursor.next_are("PARTITION"):
        raise cursor.error("the end of the statement (use DELETE FROM ... WHERE for partitions)")
    cursor.expect_end()
    return Truncate(table=table)


def parse_assignments(cursor: TokenCursor, *stops: str) -> dict[str, str]:
    """Parse `column = value, ...` up to a keyword in `stops` or the end of the statement.

    Returns:
        A dictionary from column name to value. Both are SQL. In a column name, the parts that
        aren't identifiers are in backticks.
    """
    values: dict[str, str] = {}
    while True:
        path = cursor.column()
        cursor.expect("=")
        name = path_sql(path)
        if name in values:
            raise cursor.duplicate_column_error(name)
        values[name] = cursor.until(
            lambda: _is_at_stop(cursor, stops), expected=f"the value of {name}"
        )
        if not cursor.take(","):
            return values


def path_sql(path: Iterable[str]) -> str:
    """Join the parts of a column name with dots; put parts that aren't identifiers in backticks."""
    return ".".join(p if p.isidentifier() else quote_identifier(p) for p in path)


def _is_at_stop(cursor: TokenCursor, stops: tuple[str, ...]) -> bool:
    """Whether a comma or a keyword in `stops` is next.

    A `WHEN` counts only if `MATCHED` or `NOT MATCHED` follows. Other WHENs belong to a `CASE`.
    """
    if cursor.next_are("WHEN"):
        return cursor.next_are("WHEN", "MATCHED") or cursor.next_are("WHEN", "NOT", "MATCHED")
    return cursor.next_are("|".join((",", *stops)))


def _parse_alias(cursor: TokenCursor, *stops: str) -> str | None:
    if cursor.take("AS"):
        return cursor.name("an alias")
    if cursor.at_end or cursor.next_are("|".join(stops)):
        return None
    return cursor.name("an alias or " + " or ".join(stops))


def _with_alias(target: TargetTable, alias: str | None) -> TargetTable:
    if alias is not None:
        return target.with_alias(alias)
    return target if target.name is None else target.with_alias(target.name.split(".")[-1])
