"""`StatementContext`: the session, the SQL and the functions that a statement uses when it runs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from pyspark.errors import PySparkException

from bayou.errors import (
    PredicateError,
    StatementError,
    TableNotFoundError,
    VersionNotFoundError,
)
from bayou.protocol.sql import quote_identifier
from bayou.spark.catalog_tables import NamedTable, named_table, why_unusable
from bayou.spark.delta_table.result_dataframes import empty_frame
from bayou.spark.expressions.expressions import RowExpression, parse_condition, parse_values
from bayou.spark.jvm.catalog import CatalogTable
from bayou.spark.jvm.objects import JvmError, error_reason
from bayou.spark.jvm.plans import first_relation_option, relation_options
from bayou.spark.jvm.views import ViewPlan
from bayou.spark.session.connection import is_classic
from bayou.spark.session.read_version_options import LOADED_VERSION, WHOLE_TABLE, read_whole_table
from bayou.spark.sql_statements.token_cursor import TableName, is_path_name
from bayou.spark.target_table import TargetTable
from bayou.spark.target_view import TargetView

_LOG = logging.getLogger(__name__)


class Statement(Protocol):
    """A parsed statement that Bayou can execute."""

    def run(self, context: StatementContext) -> Any:
        """Execute the statement and return a DataFrame.

        Returns NotImplemented if Spark must execute the statement.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatement:
    """A statement that Bayou executes for Delta tables, and Spark executes for other tables."""

    table: TableName

    def run(self, context: StatementContext) -> Any:
        """Execute the statement; return NotImplemented if the table isn't a Delta table."""
        target = context.find_table(self.table)
        return NotImplemented if target is None else self.run_on(target, context)

    def run_on(self, target: TargetTable, context: StatementContext) -> Any:
        """Execute the statement for a Delta table, and return a DataFrame."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStatement(TableStatement):
    """A statement that changes rows of a Delta table, directly or through a temporary view.

    Attributes:
        operation: `DELETE`, `UPDATE` or `MERGE`.
    """

    operation: ClassVar[str]

    @property
    def unaliased_tables(self) -> tuple[TableName, ...]:
        """The statement's tables that have no alias. Tables in subqueries aren't included."""
        raise NotImplementedError

    def run(self, context: StatementContext) -> Any:
        """Execute the statement and return a DataFrame.

        Returns NotImplemented if the table is neither a Delta table nor a temporary view of one.
        """
        target = context.find_table_or_view(self.table, self.operation)
        if target is None:
            return NotImplemented
        try:
            result = self.run_on(target, context)
        except TableNotFoundError:
            outer = target.enclosing_table()
            if outer is None or outer == target.path:
                raise
            raise PredicateError(
                f"{target.path}: Expect a full scan of Delta sources, but found a partial scan, "
                f"because the path is a folder of the table {outer} "
                "(DELTA_UNEXPECTED_PARTIAL_SCAN). Use the table's path, and select the folder's "
                "rows with a condition.",
                expression=target.path,
            ) from None
        if is_temporary_view(self.table, target):
            context.refresh_view(self.table, target)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementContext:
    """The session and SQL of a statement, and the functions that the statement calls when it runs.

    Attributes:
        text: the statement's SQL, in which literals have replaced the parameters.
        query: function that runs an SQL query and returns the DataFrame. The query can read Delta
            tables and the DataFrames that the user passes to `sql`.
        reads_delta_tables: function that returns whether an SQL query reads Delta tables.
        resolve_subqueries: function that replaces Delta tables in the subqueries of an expression
            by temporary views. The views exist while the statement runs.
    """

    spark: Any
    text: str
    query: Callable[[str], Any]
    reads_delta_tables: Callable[[str], bool]
    resolve_subqueries: Callable[[RowExpression], RowExpression]

    def condition(self, sql: Any) -> RowExpression | None:
        """Convert a condition of the statement to a `RowExpression`; None stays None."""
        condition = parse_condition(self.spark, sql)
        return None if condition is None else self.resolve_subqueries(condition)

    def values(self, values: Mapping[str, Any]) -> dict[str, RowExpression]:
        """Convert assigned values (SQL) to `RowExpression`s. The keys are the columns' names."""
        parsed = parse_values(self.spark, values, "set")
        return {name: self.resolve_subqueries(value) for name, value in parsed.items()}

    def find_table(self, table: Sequence[str]) -> TargetTable | None:
        """Return the Delta table with a name or path.

        Returns None if the session catalog has no Delta table with the name. For a path, the result
        is never None, because the method doesn't check whether the path has a table.
        """
        if is_path_name(table):
            return TargetTable(spark=self.spark, location=table[1])
        location = location_of(self.spark, table)
        if location is None:
            return None
        return TargetTable(spark=self.spark, location=location, name=".".join(table))

    def find_table_or_view(self, table: Sequence[str], operation: str) -> TargetTable | None:
        """Return the Delta table that a statement changes, directly or through a temporary view.

        Returns None if `table` is neither a Delta table nor a temporary view of one. In a Connect
        session, views aren't supported: the result for a view is None.

        Args:
            operation: `DELETE`, `UPDATE` or `MERGE`, for error messages.

        Raises:
            PredicateError: rows can't be changed through the view. A view can be changed if it
                only selects columns of one table, without a filter and without time travel. The
                table's columns must be the same as when the view was created.
        """
        target = self.find_table(table)
        if target is not None or not is_classic(self.spark):
            return target
        name = quoted_table_name(table)
        try:
            if not CatalogTable(self.spark, name).is_temp_view():
                return None
            view = self.spark.table(name)
            reads = list(relation_options(view, LOADED_VERSION))
            first_read = first_relation_option(view, LOADED_VERSION)
            loaded = read_whole_table(first_relation_option(view, WHOLE_TABLE))
        except JvmError:
            return None
        if not reads:
            return None
        if loaded is None:
            raise _unsupported_view(operation, table[-1], first_read)
        _, path, version = loaded
        plan = ViewPlan(view, self._version(path, version))
        if plan.operations or not plan.is_deterministic:
            other = plan.operations or ["nondeterministic column"]
            raise _unsupported_view(operation, table[-1], first_read, other)
        target = TargetTable(spark=self.spark, location=path, alias=table[-1])
        target_view = TargetView(name=table[-1], plan=plan)
        latest = target.snapshot()
        if version != latest.version:
            read = None
            with contextlib.suppress(VersionNotFoundError):
                read = target.snapshot_at(version, None)
            target_view.check_columns(read, latest)
        if plan.shows_whole_table:
            return target
        target_view.check_table(self._latest_rows(path))
        return replace(target, view=target_view)

    def _version(self, path: str, version: int) -> Any:
        """Return a DataFrame that reads one version of a table.

        If this version is no longer available, the DataFrame reads the latest version.
        """
        latest = TargetTable(spark=self.spark, location=path).snapshot().version
        if version != latest:
            with contextlib.suppress(VersionNotFoundError):
                return self.spark.read.format("delta").option("versionAsOf", version).load(path)
        return self._latest_rows(path)

    def _latest_rows(self, path: str) -> Any:
        return self.spark.read.format("delta").load(path)

    def refresh_view(self, table: Sequence[str], target: TargetTable) -> None:
        """Recreate a temporary view through which a statement has changed rows.

        The view then shows the table's new version. If the view can't be recreated, a warning is
        logged and no error is raised, because the rows are already committed. For example, a view
        can't be recreated if the statement has changed the type of one of the view's columns.
        """
        try:
            problem = self._recreate_view(table, target)
        except Exception as error:  # noqa: BLE001  # the commit is valid
            problem = f"it can't be created again: {error_reason(error).removesuffix('.')}"
        if problem is not None:
            _LOG.warning(
                "%s: the statement has changed the table's rows, but the view still shows the "
                "earlier version, because %s. Create the view again.",
                ".".join(table),
                problem,
            )

    def _recreate_view(self, table: Sequence[str], target: TargetTable) -> str | None:
        """Recreate a temporary view; return the reason if it can't be recreated, otherwise None."""
        rows = self._latest_rows(target.location)
        if target.view is not None:
            rows = target.view.refreshed(rows)
        if rows is None:
            return "the statement has changed the table's columns or their types"
        if len(table) == 1:
            rows.createOrReplaceTempView(quoted_table_name(table))
        else:
            rows.createOrReplaceGlobalTempView(quoted_table_name(table[-1:]))
        return None

    def table(self, table: Sequence[str]) -> TargetTable:
        """Return the Delta table with a name or path; raise an error if there is no such table.

        For a path, the method doesn't check whether the path has a table.

        Raises:
            StatementError: the session catalog has no table with the name, or the name belongs to
                a view or to a table of another format.
        """
        target = self.find_table(table)
        if target is None:
            if self._has_table_or_view(table):
                raise self.error(
                    f"Table {'.'.join(table)}: this is a view, or a table of another format. The "
                    "statement is only supported for Delta tables (DELTA_TABLE_ONLY_OPERATION). "
                    "Write the name of a Delta table, or its path: delta.`/path`."
                )
            raise self.error(
                f"Table {'.'.join(table)}: the session catalog has no table of this name "
                "(TABLE_OR_VIEW_NOT_FOUND). Correct the name, or use the table's path: "
                "delta.`/path`."
            )
        return target

    def _has_table_or_view(self, table: Sequence[str]) -> bool:
        try:
            return bool(self.spark.catalog.tableExists(quoted_table_name(table)))
        except (PySparkException, JvmError):
            return False  # such as a name with too many parts

    def resolve_name(self, table: Sequence[str]) -> NamedTable:
        """Return the name and the location of a table. The table need not exist.

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


def is_temporary_view(table: Sequence[str], target: TargetTable) -> bool:
    """Whether `table` is a temporary view through which a statement changes `target`."""
    return target.name is None and not is_path_name(table)


def _unsupported_view(
    operation: str, view: str, read: str | None, operations: Sequence[str] = ()
) -> PredicateError:
    """Return the error for a view through which rows can't be changed.

    Args:
        operation: `DELETE`, `UPDATE` or `MERGE`.
        view: the view's name.
        read: path and version of the table that the first relation in the view's plan reads, in
            one string. The string is "" for time travel. None if the table isn't a Delta table.
        operations: unsupported operators in the view's plan, such as `Join`. If empty, the error
            describes the problem of the first relation.
    """
    if read == "":
        problem = (
            "Expect a full scan of the latest version of the Delta source, but found a historical "
            "scan, because the view reads an earlier version of the table "
            "(DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION)"
        )
    elif read is not None and all(name == "Filter" for name in operations):
        problem = (
            "Expect a full scan of Delta sources, but found a partial scan, because the view "
            "filters rows of the table (DELTA_UNEXPECTED_PARTIAL_SCAN)"
        )
    else:
        problem = (
            f"{operation} destination only supports Delta sources. The view does more than "
            "select columns of one table (DELTA_UNSUPPORTED_SOURCE)"
        )
    return PredicateError(
        f"{view}: {problem}. Write the table's name instead of the view's.", expression=view
    )


def quoted_table_name(table: Sequence[str]) -> str:
    """Return a table's name as SQL, with each part in backticks."""
    return ".".join(quote_identifier(part) for part in table)


def location_of(spark: Any, table: Sequence[str]) -> str | None:
    """Return the path of the Delta table with a name; None if the catalog has no such table."""
    if len(table) > 3:
        return None
    resolved = named_table(spark, quoted_table_name(table))
    return resolved.path if resolved is not None and resolved.exists else None
