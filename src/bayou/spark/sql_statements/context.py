"""`StatementContext`: what a SQL statement needs to run, such as the session and the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bayou.errors import StatementError
from bayou.protocol.sql import quote_identifier
from bayou.spark.catalog_tables import NamedTable, named_table, why_unusable
from bayou.spark.delta_table.result_dataframes import empty_frame
from bayou.spark.sql_statements.token_cursor import TableName, is_path_name
from bayou.spark.target import TargetTable


class Statement(Protocol):
    """A parsed statement that Bayou can execute."""

    def run(self, context: StatementContext) -> Any:
        """Execute the statement and return a DataFrame; NotImplemented if Spark must execute it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatement:
    """A statement that Bayou executes for a Delta table, and Spark for any other table."""

    table: TableName

    def run(self, context: StatementContext) -> Any:
        """Execute the statement; NotImplemented if the table isn't a Delta table."""
        target = context.find_table(self.table)
        return NotImplemented if target is None else self.run_on(target, context)

    def run_on(self, target: TargetTable, context: StatementContext) -> Any:
        """Execute the statement for a Delta table, and return a DataFrame."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementContext:
    """The session and the SQL of a statement, and functions that a statement calls when it runs.

    Attributes:
        text: the statement's SQL, with parameters replaced by literals.
        query: function that returns the DataFrame of an SQL query, which can read Delta tables and
            the DataFrames that were passed to `sql`.
        reads_delta_tables: function that returns whether an SQL query reads Delta tables.
    """

    spark: Any
    text: str
    query: Callable[[str], Any]
    reads_delta_tables: Callable[[str], bool]

    def find_table(self, table: Sequence[str]) -> TargetTable | None:
        """Return the Delta table with a name or path; None if the name isn't that of a Delta table.

        A table with a path need not exist.
        """
        if is_path_name(table):
            return TargetTable(spark=self.spark, location=table[1])
        location = location_of(self.spark, table)
        if location is None:
            return None
        return TargetTable(spark=self.spark, location=location, name=".".join(table))

    def table(self, table: Sequence[str]) -> TargetTable:
        """Return the Delta table with a name or path, like `find_table`.

        Raises:
            StatementError: the session catalog has no Delta table with the name.
        """
        target = self.find_table(table)
        if target is None:
            raise self.error(
                f"Table {'.'.join(table)}: the session catalog has no Delta table of this name. "
                "Use its path: delta.`/path`."
            )
        return target

    def resolve_name(self, table: Sequence[str]) -> NamedTable:
        """Return the name and the location of a table, which need not exist.

        Raises:
            StatementError: the catalog has a view or a table of another format with the name.
        """
        if is_path_name(table):
            return NamedTable(
                name=quoted_table_name(table), path=table[1], exists=True, is_path=True
            )
        resolved = named_table(self.spark, quoted_table_name(table))
        if resolved is None:
            raise self.error(
                f"Table {'.'.join(table)}: {why_unusable(self.spark, quoted_table_name(table))}"
            )
        return resolved

    def empty_result(self) -> Any:
        return empty_frame(self.spark)

    def error(self, message: str) -> StatementError:
        return StatementError(message, statement=self.text)


def quoted_table_name(table: Sequence[str]) -> str:
    """Return a table's name as SQL, with each part in backticks."""
    return ".".join(quote_identifier(part) for part in table)


def location_of(spark: Any, table: Sequence[str]) -> str | None:
    """Return the path of the Delta table with a name; None if the catalog has no such table."""
    if len(table) > 3:
        return None
    resolved = named_table(spark, quoted_table_name(table))
    return resolved.path if resolved is not None and resolved.exists else None
