"""`DESCRIBE HISTORY` and `DESCRIBE DETAIL`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayou.spark.delta_table.describe import detail_frame, history_frame
from bayou.spark.sql_statements.context import Statement, StatementContext
from bayou.spark.sql_statements.show import parse_describe_table
from bayou.spark.sql_statements.token_cursor import TableName, Words

__all__ = ["DescribeDetail", "DescribeHistory", "parse_describe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeHistory:
    """`DESCRIBE HISTORY table [LIMIT n]`."""

    table: TableName
    limit: int | None = None

    def run(self, context: StatementContext) -> Any:
        """The commits that are still in the log, newest first."""
        target = context.target(self.table)
        return history_frame(context.spark, target.engine, target.table, self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDetail:
    """`DESCRIBE DETAIL table`."""

    table: TableName

    def run(self, context: StatementContext) -> Any:
        """One row about the latest version."""
        target = context.target(self.table)
        snapshot = target.table.latest_snapshot(target.engine)
        return detail_frame(context.spark, target.engine, snapshot, target.name)


def parse_describe(words: Words) -> Statement | None:
    """Behind `DESCRIBE`."""
    if words.begin_with("HISTORY|DETAIL", "."):  # a table of a database of that name
        return parse_describe_table(words)
    if words.take("HISTORY"):
        if words.ended:
            return None  # a table of that name
        table = words.table()
        limit = words.integer("a number of commits") if words.take("LIMIT") else None
        words.end()
        return DescribeHistory(table=table, limit=limit)
    if words.take("DETAIL"):
        if words.ended:
            return None
        table = words.table()
        words.end()
        return DescribeDetail(table=table)
    return parse_describe_table(words)
