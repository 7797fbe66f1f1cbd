"""`DELETE FROM`, `UPDATE` and `TRUNCATE TABLE`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from bayou.kernel.commands.truncate import truncate
from bayou.spark.commands.delete_update import run_delete, run_update
from bayou.spark.expressions.expressions import condition_of, values_of
from bayou.spark.sql_statements.context import StatementContext
from bayou.spark.sql_statements.token_cursor import TableName, Words, quoted_name
from bayou.spark.target import SPARK_ENGINE_INFO, TargetTable

__all__ = [
    "Delete",
    "Truncate",
    "Update",
    "assignments",
    "parse_delete",
    "parse_truncate",
    "parse_update",
]

_AFFECTED = StructType([StructField("num_affected_rows", LongType())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """`DELETE FROM table [alias] [WHERE condition]`."""

    table: TableName
    alias: str | None
    where: str | None

    def run(self, context: StatementContext) -> Any:
        """Rows deleted; a frame of their number."""
        target = context.found(self.table)
        if target is None:
            return NotImplemented
        done = run_delete(_named(target, self.alias), condition_of(context.spark, self.where))
        rows = [] if done is None else [(done.num_deleted_rows,)]
        return context.spark.createDataFrame(rows, _AFFECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """`UPDATE table [alias] SET column = value, ... [WHERE condition]`."""

    table: TableName
    alias: str | None
    values: dict[str, str]
    where: str | None

    def run(self, context: StatementContext) -> Any:
        """Rows given new values; a frame of their number."""
        target = context.found(self.table)
        if target is None:
            return NotImplemented
        done = run_update(
            _named(target, self.alias),
            condition_of(context.spark, self.where),
            values_of(context.spark, self.values, "set"),
        )
        rows = [] if done is None else [(done.num_updated_rows,)]
        return context.spark.createDataFrame(rows, _AFFECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """`TRUNCATE TABLE table`."""

    table: TableName

    def run(self, context: StatementContext) -> Any:
        """All rows deleted, whole files at a time."""
        target = context.found(self.table)
        if target is None:
            return NotImplemented
        snapshot = target.table.latest_snapshot(target.engine)
        truncate(target.engine, snapshot, engine_info=SPARK_ENGINE_INFO)
        return context.nothing()


def parse_delete(words: Words) -> Delete:
    """Behind `DELETE`."""
    words.expect("FROM")
    table = words.table()
    alias = _alias(words, "WHERE")
    where = words.rest("a condition") if words.take("WHERE") else None
    words.end()
    return Delete(table=table, alias=alias, where=where)


def parse_update(words: Words) -> Update:
    """Behind `UPDATE`."""
    table = words.table()
    alias = _alias(words, "SET")
    words.expect("SET")
    values = assignments(words, "WHERE")
    where = words.rest("a condition") if words.take("WHERE") else None
    words.end()
    return Update(table=table, alias=alias, values=values, where=where)


def parse_truncate(words: Words) -> Truncate:
    """Behind `TRUNCATE`."""
    words.expect("TABLE")
    table = words.table()
    if words.begin_with("PARTITION"):
        raise words.error("The end (use DELETE FROM ... WHERE for partitions)")
    words.end()
    return Truncate(table=table)


def assignments(words: Words, *stops: str) -> dict[str, str]:
    """`column = value, ...`, up to one of some words or the end."""
    found: dict[str, str] = {}
    while True:
        path = words.column()
        words.expect("=")
        name = ".".join(p if p.isidentifier() else quoted_name(p) for p in path)
        found[name] = words.until(lambda: _stops(words, stops), what=f"the value of {name}")
        if not words.take(","):
            return found


def _stops(words: Words, stops: tuple[str, ...]) -> bool:
    """A `WHEN` of a `CASE` in a value isn't one of a merge's clauses."""
    if words.begin_with("WHEN"):
        return words.begin_with("WHEN", "MATCHED") or words.begin_with("WHEN", "NOT", "MATCHED")
    return words.begin_with("|".join((",", *stops)))


def _alias(words: Words, *stops: str) -> str | None:
    if words.take("AS"):
        return words.name("an alias")
    if words.ended or words.begin_with("|".join(stops)):
        return None
    return words.name("an alias or " + " or ".join(stops))


def _named(target: TargetTable, alias: str | None) -> TargetTable:
    if alias is not None:
        return target.named(alias)
    return target if target.name is None else target.named(target.name.split(".")[-1])
