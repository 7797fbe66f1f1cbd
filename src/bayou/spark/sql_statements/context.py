"""What a statement runs in: the session, and what its text says about tables and rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import SparkSession

from bayou.errors import ArgumentError, StatementError
from bayou.spark.catalog_tables import NamedTable, named_table
from bayou.spark.delta_table.result_dataframes import empty_frame
from bayou.spark.sql_statements.token_cursor import quoted_name
from bayou.spark.target import TargetTable

__all__ = ["Statement", "StatementContext", "location_of", "name_of"]


class Statement(Protocol):
    """A statement of ours, understood."""

    def run(self, context: StatementContext) -> Any:
        """Its DataFrame; NotImplemented where it is Spark's after all.

        Raises:
            BayouError: it can't be.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementContext:
    """A session and a statement.

    Attributes:
        spark: classic or Connect.
        text: of the statement, its parameters filled in.
        query: runs a query that may name Delta tables, and frames that the caller gave.
        names_tables: whether a query names Delta tables that only we can read.
    """

    spark: Any
    text: str
    query: Callable[[str], Any]
    names_tables: Callable[[str], bool]

    @property
    def is_classic(self) -> bool:
        """Whether the session has a JVM beside it."""
        return isinstance(self.spark, SparkSession)

    def found(self, table: Sequence[str]) -> TargetTable | None:
        """The Delta table of a name or path; None for a name that stands for none."""
        if _is_path(table):
            return TargetTable(spark=self.spark, location=table[1])
        location = location_of(self.spark, table)
        if location is None:
            return None
        return TargetTable(spark=self.spark, location=location, name=".".join(table))

    def target(self, table: Sequence[str]) -> TargetTable:
        """The Delta table of a name or path.

        Raises:
            StatementError: the name stands for none.
        """
        found = self.found(table)
        if found is None:
            raise StatementError(
                f"{'.'.join(table)} isn't a Delta table that the session catalog knows the place "
                "of. Name it by its path: delta.`/path`.",
                statement=self.text,
            )
        return found

    def place(self, table: Sequence[str]) -> NamedTable:
        """Where a table is, or would be made; free names of the catalog included.

        Raises:
            StatementError: the name is that of something else, or can't be seen from here.
        """
        if _is_path(table):
            return NamedTable(name=name_of(table), path=table[1], exists=True, is_path=True)
        found = named_table(self.spark, name_of(table)) if self.is_classic else None
        if found is None:
            raise StatementError(
                f"{'.'.join(table)} can't be made into a Delta table: it is something else in the "
                "catalog, or the session is one of Spark Connect, where names can't be resolved. "
                "Name it by its path: delta.`/path`.",
                statement=self.text,
            )
        return found

    def nothing(self) -> Any:
        """The frame of a statement that tells nothing."""
        return empty_frame(self.spark)

    def refuse(self, message: str) -> StatementError:
        """An error about this statement."""
        return StatementError(message, statement=self.text)


def name_of(table: Sequence[str]) -> str:
    """A name as SQL writes it."""
    return ".".join(quoted_name(part) for part in table)


def location_of(spark: Any, table: Sequence[str]) -> str | None:
    """Where the table of a name is; None where it is no Delta table, and under Spark Connect.

    A client of Spark Connect can't see where the server's tables are.
    """
    if not isinstance(spark, SparkSession) or len(table) > 3:
        return None
    try:
        found = named_table(spark, name_of(table))
    except ArgumentError:
        return None
    return found.path if found is not None and found.exists else None


def _is_path(table: Sequence[str]) -> bool:
    return len(table) == 2 and table[0].lower() == "delta"
