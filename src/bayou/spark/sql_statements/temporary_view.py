"""`CREATE TEMPORARY VIEW ... AS query`, of queries that name Delta tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayou.spark.sql_statements.context import StatementContext
from bayou.spark.sql_statements.token_cursor import Words

__all__ = ["CreateTemporaryView", "parse_temporary_view"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTemporaryView:
    """`CREATE [OR REPLACE] [GLOBAL] TEMPORARY VIEW name [(columns)] AS query`.

    Spark keeps the text of such a view, which must not name tables that only we can resolve.
    """

    name: str
    columns: tuple[str, ...]
    query: str
    replace: bool
    is_global: bool

    def run(self, context: StatementContext) -> Any:
        """The view over the frame of the query; Spark's where it names no Delta table."""
        if not context.names_tables(self.query):
            return NotImplemented
        frame = context.query(self.query)
        if self.columns:
            frame = frame.toDF(*self.columns)
        if self.is_global and self.replace:
            frame.createOrReplaceGlobalTempView(self.name)
        elif self.is_global:
            frame.createGlobalTempView(self.name)
        elif self.replace:
            frame.createOrReplaceTempView(self.name)
        else:
            frame.createTempView(self.name)
        return context.nothing()


def parse_temporary_view(words: Words) -> CreateTemporaryView | None:
    """A whole `CREATE TEMPORARY VIEW`; None for anything else."""
    words.take("CREATE")
    replace = words.take("OR", "REPLACE")
    is_global = words.take("GLOBAL")
    if not words.take("TEMP|TEMPORARY", "VIEW") or words.begin_with("IF"):
        return None
    name = words.name("the name of a view")
    columns: tuple[str, ...] = ()
    if words.begin_with("("):
        columns = _columns(words)
        if not columns:
            return None  # comments of columns: Spark's affair
    if not words.take("AS"):
        return None
    return CreateTemporaryView(
        name=name,
        columns=columns,
        query=words.rest("a query"),
        replace=replace,
        is_global=is_global,
    )


def _columns(words: Words) -> tuple[str, ...]:
    words.expect("(")
    found = [words.name("the name of a column")]
    while words.take(","):
        found.append(words.name("the name of a column"))
    return tuple(found) if words.take(")") else ()
