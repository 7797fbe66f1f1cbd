"""`StatementContext`: the session that runs a statement, and the Delta tables it names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import SparkSession

from bayou.errors import ArgumentError, StatementError
from bayou.protocol.identifiers import quote_identifier
from bayou.spark.catalog_tables import NamedTable, named_table
from bayou.spark.delta_table.result_dataframes import empty_frame
from bayou.spark.target import TargetTable

__all__ = ["Statement", "StatementContext", "location_of", "quoted_table_name"]


class Statement(Protocol):
    """A parsed statement that Bayou can execute."""

    def run(self, context: StatementContext) -> Any:
        """Execute the statement and return its DataFrame; NotImplemented leaves it to Spark.

        Raises:
            BayouError: the statement fails.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementContext:
    """A session and the SQL of a statement.

    Attributes:
        spark: the session, classic or Connect.
        text: the statement's SQL, with parameters replaced by literals.
        query: runs a query that may name Delta tables and the caller's DataFrames.
        names_tables: whether a query names Delta tables that Spark can't read.
    """

    spark: Any
    text: str
    query: Callable[[str], Any]
    names_tables: Callable[[str], bool]

    @property
    def is_classic(self) -> bool:
        """Whether the session is a classic one, with a JVM, and not one of Spark Connect."""
        return isinstance(self.spark, SparkSession)

    def find_table(self, table: Sequence[str]) -> TargetTable | None:
        """The Delta table of a name or path; None if the name isn't that of a Delta table."""
        if _is_path(table):
            return TargetTable(spark=self.spark, location=table[1])
        location = location_of(self.spark, table)
        if location is None:
            return None
        return TargetTable(spark=self.spark, location=location, name=".".join(table))

    def table(self, table: Sequence[str]) -> TargetTable:
        """The Delta table of a name or path.

        Raises:
            StatementError: the name isn't that of a Delta table.
        """
        target = self.find_table(table)
        if target is None:
            raise StatementError(
                f"Table {'.'.join(table)}: the session catalog has no Delta table of this name. "
                "Use its path: delta.`/path`.",
                statement=self.text,
            )
        return target

    def resolve_name(self, table: Sequence[str]) -> NamedTable:
        """The name and location of a table that exists or can be created.

        Raises:
            StatementError: the name isn't that of a Delta table and isn't free, or the session is
                one of Spark Connect.
        """
        if _is_path(table):
            return NamedTable(
                name=quoted_table_name(table), path=table[1], exists=True, is_path=True
            )
        resolved = named_table(self.spark, quoted_table_name(table)) if self.is_classic else None
        if resolved is None:
            raise StatementError(
                f"Table {'.'.join(table)}: the name can't be used for a Delta table. It belongs to "
                "another object of the catalog, or the session is one of Spark Connect, which "
                "can't resolve names. Use a path: delta.`/path`.",
                statement=self.text,
            )
        return resolved

    def empty_result(self) -> Any:
        """An empty DataFrame, for statements without a result."""
        return empty_frame(self.spark)

    def error(self, message: str) -> StatementError:
        """A `StatementError` with this statement's SQL."""
        return StatementError(message, statement=self.text)


def quoted_table_name(table: Sequence[str]) -> str:
    """The name as SQL, each part in backticks."""
    return ".".join(quote_identifier(part) for part in table)


def location_of(spark: Any, table: Sequence[str]) -> str | None:
    """The path of a Delta table of the session catalog; None for other names.

    None under Spark Connect too: its client can't read table locations from the server's catalog.
    """
    if not isinstance(spark, SparkSession) or len(table) > 3:
        return None
    try:
        resolved = named_table(spark, quoted_table_name(table))
    except ArgumentError:
        return None
    return resolved.path if resolved is not None and resolved.exists else None


def _is_path(table: Sequence[str]) -> bool:
    return len(table) == 2 and table[0].lower() == "delta"
