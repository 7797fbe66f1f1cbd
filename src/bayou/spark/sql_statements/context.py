"""`StatementContext`: the session that runs a statement, and the Delta tables it names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bayou.errors import StatementError
from bayou.protocol.sql import quote_identifier
from bayou.spark.catalog_tables import NamedTable, named_table, why_unusable
from bayou.spark.delta_table.result_dataframes import empty_frame
from bayou.spark.target import TargetTable


class Statement(Protocol):
    """A parsed statement that Bayou can execute."""

    def run(self, context: StatementContext) -> Any:
        """Execute the statement and return its DataFrame; NotImplemented if Spark must run it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementContext:
    """The session that runs a statement, the statement's SQL, and functions that run queries.

    Attributes:
        text: the statement's SQL, with parameters replaced by literals.
        query: function that returns the DataFrame of an SQL query. The query may name Delta tables
            and the caller's DataFrames.
        names_tables: function that returns whether an SQL query names Delta tables.
    """

    spark: Any
    text: str
    query: Callable[[str], Any]
    names_tables: Callable[[str], bool]

    def find_table(self, table: Sequence[str]) -> TargetTable | None:
        """Return the Delta table with a name or path; None if no Delta table has the name.

        For a path, the table need not exist.
        """
        if _is_path(table):
            return TargetTable(spark=self.spark, location=table[1])
        location = location_of(self.spark, table)
        if location is None:
            return None
        return TargetTable(spark=self.spark, location=location, name=".".join(table))

    def table(self, table: Sequence[str]) -> TargetTable:
        """Return the result of `find_table`; raise `StatementError` if the result is None."""
        target = self.find_table(table)
        if target is None:
            raise StatementError(
                f"Table {'.'.join(table)}: the session catalog has no Delta table of this name. "
                "Use its path: delta.`/path`.",
                statement=self.text,
            )
        return target

    def resolve_name(self, table: Sequence[str]) -> NamedTable:
        """Return the name and location of a table that exists or can be created.

        Raise `StatementError` if the name belongs to a catalog object that isn't a Delta table.
        """
        if _is_path(table):
            return NamedTable(
                name=quoted_table_name(table), path=table[1], exists=True, is_path=True
            )
        resolved = named_table(self.spark, quoted_table_name(table))
        if resolved is None:
            raise StatementError(
                f"Table {'.'.join(table)}: {why_unusable(self.spark, quoted_table_name(table))}",
                statement=self.text,
            )
        return resolved

    def empty_result(self) -> Any:
        return empty_frame(self.spark)

    def error(self, message: str) -> StatementError:
        return StatementError(message, statement=self.text)


def quoted_table_name(table: Sequence[str]) -> str:
    """Return the name as SQL, each part in backticks."""
    return ".".join(quote_identifier(part) for part in table)


def location_of(spark: Any, table: Sequence[str]) -> str | None:
    """Return the path of a Delta table in the session catalog; None if no Delta table has it."""
    if len(table) > 3:
        return None
    resolved = named_table(spark, quoted_table_name(table))
    return resolved.path if resolved is not None and resolved.exists else None


def _is_path(table: Sequence[str]) -> bool:
    return len(table) == 2 and table[0].lower() == "delta"
