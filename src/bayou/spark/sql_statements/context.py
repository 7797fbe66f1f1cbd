"""`StatementContext`: what a SQL statement needs to run, such as the session and the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bayou.errors import PredicateError, StatementError
from bayou.protocol.sql import quote_identifier
from bayou.spark.catalog_tables import NamedTable, named_table, why_unusable
from bayou.spark.delta_table.result_dataframes import empty_frame
from bayou.spark.expressions.expressions import RowExpression, parse_condition, parse_values
from bayou.spark.jvm.catalog import CatalogTable
from bayou.spark.jvm.objects import JvmError
from bayou.spark.jvm.plans import relation_options, view_relation
from bayou.spark.session.connection import is_classic
from bayou.spark.session.loaded_version import WHOLE_TABLE, read_whole_table
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
class RowStatement(TableStatement):
    """A statement that changes rows of a Delta table, directly or through a temporary view."""

    def run(self, context: StatementContext) -> Any:
        """Execute the statement; NotImplemented if no Delta table or view has the name."""
        target = context.find_table_or_view(self.table)
        if target is None:
            return NotImplemented
        result = self.run_on(target, context)
        context.refresh_view(self.table, target)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementContext:
    """The session and the SQL of a statement, and functions that a statement calls when it runs.

    Attributes:
        text: the statement's SQL, with parameters replaced by literals.
        query: function that returns the DataFrame of an SQL query, which can read Delta tables and
            the DataFrames that were passed to `sql`.
        reads_delta_tables: function that returns whether an SQL query reads Delta tables.
        resolve_subqueries: function that changes an expression, so that its subqueries can read
            Delta tables while the statement runs.
    """

    spark: Any
    text: str
    query: Callable[[str], Any]
    reads_delta_tables: Callable[[str], bool]
    resolve_subqueries: Callable[[RowExpression], RowExpression]

    def condition(self, sql: Any) -> RowExpression | None:
        """Return a condition of the statement; None if it has no condition."""
        condition = parse_condition(self.spark, sql)
        return None if condition is None else self.resolve_subqueries(condition)

    def values(self, values: Mapping[str, Any]) -> dict[str, RowExpression]:
        """Return the values that the statement assigns, by column name."""
        parsed = parse_values(self.spark, values, "set")
        return {name: self.resolve_subqueries(value) for name, value in parsed.items()}

    def find_table(self, table: Sequence[str]) -> TargetTable | None:
        """Return the Delta table with a name or path; None if no Delta table has the name.

        A table with a path need not exist.
        """
        if is_path_name(table):
            return TargetTable(spark=self.spark, location=table[1])
        location = location_of(self.spark, table)
        if location is None:
            return None
        return TargetTable(spark=self.spark, location=location, name=".".join(table))

    def find_table_or_view(self, table: Sequence[str]) -> TargetTable | None:
        """Return the result of `find_table`, or the Delta table that a temporary view shows.

        The view must show all rows and columns of the table's latest version; otherwise raise
        `PredicateError`.
        """
        target = self.find_table(table)
        if target is not None or len(table) > 1 or not is_classic(self.spark):
            return target
        name = quoted_table_name(table)
        try:
            if not CatalogTable(self.spark, name).is_temp_view():
                return None
            view = self.spark.table(name)
            viewed = read_whole_table(view_relation(view, WHOLE_TABLE))
            has_delta = any(relation_options(view, WHOLE_TABLE))
        except JvmError:
            return None
        if viewed is not None:
            return TargetTable(spark=self.spark, location=viewed[1], alias=table[-1])
        if not has_delta:
            return None
        raise PredicateError(
            f"{'.'.join(table)}: the temporary view filters rows, or omits, renames or computes "
            "columns, so rows can't be changed through it. Name the table instead of the view.",
            expression=".".join(table),
        )

    def refresh_view(self, table: Sequence[str], target: TargetTable) -> None:
        """If a statement changed rows through a temporary view, recreate the view.

        The view then shows the table's new version.
        """
        if len(table) == 1 and target.name is None:
            rows = self.spark.read.format("delta").load(target.location)
            rows.createOrReplaceTempView(quoted_table_name(table))

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
