"""`CREATE TABLE`, `REPLACE TABLE`, `... CLONE` and `CREATE TEMPORARY VIEW` of Delta tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from bayou.errors import StatementError, TableAlreadyExistsError, TableNotFoundError
from bayou.kernel.commands.clone import clone
from bayou.kernel.commands.create_table import CreationMode, TableDefinition
from bayou.kernel.commands.write import WriteMode
from bayou.kernel.operation import Operation
from bayou.protocol.schema import StructField, StructType
from bayou.spark.catalog_tables import NamedTable, named_table
from bayou.spark.commands.deep_clone import copy_function
from bayou.spark.ddl import literal_sql
from bayou.spark.delta_table import DeltaTable, DeltaTableBuilder
from bayou.spark.read.time_travel import parse_timestamp
from bayou.spark.session.settings import CLONE_TRANSACTION_IDENTIFIERS
from bayou.spark.sql_statements.column_definitions import (
    complete_field,
    parse_column_definition,
    parse_properties,
)
from bayou.spark.sql_statements.context import StatementContext, quoted_table_name
from bayou.spark.sql_statements.token_cursor import TableName, TokenCursor, is_path_name
from bayou.spark.target_table import SPARK_ENGINE_INFO, TargetTable
from bayou.spark.write.dataframes import write_rows
from bayou.spark.write.options import WriteOptions, with_session_defaults

_AS_SELECT = {
    CreationMode.CREATE: (WriteMode.ERROR, Operation.CREATE_TABLE_AS_SELECT),
    CreationMode.CREATE_IF_NOT_EXISTS: (WriteMode.IGNORE, Operation.CREATE_TABLE_AS_SELECT),
    CreationMode.REPLACE: (WriteMode.OVERWRITE, Operation.REPLACE_TABLE_AS_SELECT),
    CreationMode.CREATE_OR_REPLACE: (
        WriteMode.OVERWRITE,
        Operation.CREATE_OR_REPLACE_TABLE_AS_SELECT,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """`CREATE [OR REPLACE] TABLE [IF NOT EXISTS] table [(columns)] USING delta ...`.

    Attributes:
        location: the path in `LOCATION`; None without the clause.
        query: the query after `AS`; None if the statement defines columns.
        has_default_format: whether the statement doesn't name a format, and the session's default
            format is `delta`. If the name belongs to another catalog, Spark runs the statement.
    """

    table: TableName
    mode: CreationMode
    definition: TableDefinition
    location: str | None
    query: str | None
    has_default_format: bool = False

    def run(self, context: StatementContext) -> Any:
        """Create or replace the table in one commit."""
        name = quoted_table_name(self.table)
        if self.has_default_format and named_table(context.spark, name) is None:
            return NotImplemented
        if self.query is None:
            self._create_with_columns(context)
        else:
            self._create_as_select(context, self.query)
        return context.empty_result()

    def _create_with_columns(self, context: StatementContext) -> None:
        builder = DeltaTableBuilder(context.spark, self.mode, DeltaTable)
        resolved = context.resolve_name(self.table)
        if resolved.is_path:
            resolved.check_location(self.location)
            builder = builder.location(resolved.path)
        else:
            builder = builder.tableName(quoted_table_name(self.table))
            if self.location is not None:
                builder = builder.location(self.location)
        builder.define(self.definition).execute()

    def _create_as_select(self, context: StatementContext, query: str) -> None:
        resolved = context.resolve_name(self.table)
        path = resolved.path if resolved.exists else self.location or resolved.path
        target = TargetTable(spark=context.spark, location=path)
        exists = target.exists()
        if not self.mode.replaces and (_in_catalog(resolved) or (resolved.is_path and exists)):
            if self.mode is CreationMode.CREATE_IF_NOT_EXISTS:
                return
            raise TableAlreadyExistsError(
                f"Table {'.'.join(self.table)}: the table already exists "
                "(TABLE_OR_VIEW_ALREADY_EXISTS). Use CREATE OR REPLACE TABLE, or INSERT INTO.",
                table=target.path,
            )
        if not self.mode.replaces and exists:
            name = ".".join(self.table)
            raise TableAlreadyExistsError(
                f"Table {name}: its location {target.path} already has a Delta table, but the "
                "catalog has no table of this name (DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION). "
                f"To use that table, run CREATE TABLE {name} USING delta LOCATION "
                f"{literal_sql(target.path)}. To replace it, use CREATE OR REPLACE TABLE.",
                table=target.path,
            )
        resolved.check_location(self.location)
        if self.mode is CreationMode.REPLACE and not exists:
            raise TableNotFoundError(
                f"Table {'.'.join(self.table)}: it cannot be found, so it can't be replaced "
                "(TABLE_OR_VIEW_NOT_FOUND). Use CREATE OR REPLACE TABLE.",
                table=target.path,
            )
        mode, operation = _AS_SELECT[self.mode]
        settings = {**self.definition.properties, "path": path, "overwriteSchema": "true"}
        options = WriteOptions.parse(with_session_defaults(context.spark, path, settings))
        write_rows(
            context.query(query),
            options.defining(self.definition.properties, self.definition.description),
            mode,
            self.definition.partition_columns or None,
            tuple(".".join(path) for path in self.definition.clustering_columns) or None,
            operation=operation,
            is_managed=not resolved.is_path and self.location is None,
        )
        if not resolved.exists:
            resolved.register(context.spark, path)


def _in_catalog(resolved: NamedTable) -> bool:
    return resolved.exists and not resolved.is_path


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidCreateTable:
    """A statement without a format that can't create a Delta table.

    `error` is raised only for a table of the session catalog. Another catalog may accept the
    statement, for example with partition transforms.
    """

    table: TableName
    error: StatementError

    def run(self, context: StatementContext) -> Any:
        """Raise `error`; return NotImplemented if Spark must run the statement."""
        if named_table(context.spark, quoted_table_name(self.table)) is None:
            return NotImplemented
        raise self.error


def parse_create_table(cursor: TokenCursor) -> CreateTable | InvalidCreateTable | Clone | None:
    """Parse a `CREATE TABLE` or `REPLACE TABLE` statement of a Delta table.

    A statement with `CLONE` becomes a `Clone`. Returns None for all other statements.
    """
    mode = _parse_mode(cursor)
    if mode is None:
        return None
    table = cursor.table()
    if cursor.take("SHALLOW", "CLONE"):
        return _parse_clone(cursor, table, mode, shallow=True)
    if cursor.take("DEEP", "CLONE") or cursor.take("CLONE"):
        return _parse_clone(cursor, table, mode, shallow=False)
    if is_path_name(table) or cursor.contains("USING", "DELTA"):
        return _parse_definition(cursor, table, mode)
    if not _has_default_format(cursor):
        return None  # another table format, or CREATE TABLE ... LIKE
    try:
        return replace(_parse_definition(cursor, table, mode), has_default_format=True)
    except StatementError as error:
        return InvalidCreateTable(table=table, error=error)


def _has_default_format(cursor: TokenCursor) -> bool:
    """Whether a definition has no table format, and the session's default format is `delta`."""
    if cursor.settings.default_format != "delta":
        return False
    clauses = cursor.fork()
    clauses.skip_until(lambda: clauses.next_are(f"{_FORMAT}|{_QUERY}"))
    return not clauses.next_are(_FORMAT)


_FORMAT = "USING|STORED|ROW|LIKE"
_QUERY = "AS|SELECT|WITH|FROM|VALUES"


def _parse_mode(cursor: TokenCursor) -> CreationMode | None:
    if cursor.take("CREATE", "OR", "REPLACE", "TABLE"):
        return CreationMode.CREATE_OR_REPLACE
    if cursor.take("REPLACE", "TABLE"):
        return CreationMode.REPLACE
    if cursor.take("CREATE", "TABLE"):
        if cursor.take("IF", "NOT", "EXISTS"):
            return CreationMode.CREATE_IF_NOT_EXISTS
        return CreationMode.CREATE
    return None


def _parse_definition(cursor: TokenCursor, table: TableName, mode: CreationMode) -> CreateTable:
    columns: tuple[StructField, ...] = ()
    if cursor.next_are("("):
        columns = cursor.parenthesized_list(lambda: complete_field(parse_column_definition(cursor)))
    return _parse_clauses(cursor, table, mode, columns)


def _parse_clauses(
    cursor: TokenCursor, table: TableName, mode: CreationMode, columns: tuple[StructField, ...]
) -> CreateTable:
    partitions: tuple[str, ...] = ()
    clustering: tuple[tuple[str, ...], ...] = ()
    table_properties: Mapping[str, str] = {}
    comment = location = query = None
    while not cursor.at_end:
        if cursor.take("USING"):
            cursor.expect("DELTA")
        elif cursor.take("PARTITIONED", "BY"):
            partitions, added = _parse_partitioning(cursor)
            columns = (*columns, *added)
        elif cursor.take("CLUSTER", "BY"):
            clustering = cursor.columns()
        elif cursor.take("COMMENT"):
            comment = cursor.string("a comment")
        elif cursor.take("TBLPROPERTIES"):
            table_properties = parse_properties(cursor)
        elif cursor.take("LOCATION"):
            location = cursor.string("a path")
        elif cursor.take("AS") or cursor.next_are(_QUERY):
            query = cursor.until_end("a query")
        else:
            raise cursor.error(
                "PARTITIONED BY, CLUSTER BY, COMMENT, TBLPROPERTIES, LOCATION or AS query"
            )
    if query is not None and columns:
        raise cursor.error(
            "no column definitions before AS (CREATE TABLE ... AS takes the columns of its query)"
        )
    definition = TableDefinition(
        schema=StructType(columns),
        partition_columns=partitions,
        clustering_columns=clustering,
        properties=table_properties,
        description=comment,
    )
    return CreateTable(
        table=table, mode=mode, definition=definition, location=location, query=query
    )


def _parse_partitioning(cursor: TokenCursor) -> tuple[tuple[str, ...], tuple[StructField, ...]]:
    """Parse the list after `PARTITIONED BY`, such as `(a, b STRING)`.

    Returns:
        The names of all partition columns, and a field for each column whose type is in the list.
    """
    added: list[StructField] = []

    def column() -> str:
        if cursor.next_are("(", after=1):
            raise cursor.error("the name of a partition column (Delta has no partition transforms)")
        if cursor.next_are(",|)", after=1):
            return cursor.name("the name of a column")
        field = complete_field(parse_column_definition(cursor))
        added.append(field)
        return field.name

    return cursor.parenthesized_list(column), tuple(added)


_CLONE_METRICS = (
    "source_table_size",
    "source_num_of_files",
    "num_removed_files",
    "num_copied_files",
    "removed_files_size",
    "copied_files_size",
)
_CLONE_SCHEMA = ", ".join(f"{name} bigint" for name in _CLONE_METRICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """`CREATE [OR REPLACE] TABLE [IF NOT EXISTS] table [SHALLOW | DEEP] CLONE source ...`.

    Attributes:
        shallow: whether the clone refers to the source's data files. Without the keyword SHALLOW,
            the files are copied, as on Databricks.
        version, timestamp: the version of the source to clone; the latest if both are None.
        properties: table properties that override the source's properties.
    """

    table: TableName
    mode: CreationMode
    shallow: bool
    source: TableName
    version: int | None
    timestamp: str | None
    properties: Mapping[str, str]
    location: str | None

    def run(self, context: StatementContext) -> Any:
        """Clone the source and return a DataFrame with one row of metrics.

        With `IF NOT EXISTS`, nothing is cloned if the table exists, and the DataFrame has no row. A
        table at the location that the catalog lacks is an error.
        """
        source, resolved = context.table(self.source), context.resolve_name(self.table)
        path = resolved.path if resolved.exists else self.location or resolved.path
        target = TargetTable(spark=context.spark, location=path)
        if self.mode is CreationMode.CREATE_IF_NOT_EXISTS and resolved.exists and target.exists():
            return context.spark.createDataFrame([], _CLONE_SCHEMA)
        resolved.check_location(self.location)
        timestamp = None
        if self.timestamp is not None:
            zone = str(context.spark.conf.get("spark.sql.session.timeZone"))
            timestamp = parse_timestamp("timestamp", self.timestamp, zone)
        metrics = clone(
            target.engine,
            source.snapshot_at(self.version, timestamp),
            target.path,
            SPARK_ENGINE_INFO,
            shallow=self.shallow,
            properties=self.properties,
            replace=self.mode.replaces,
            transaction_identifiers=CLONE_TRANSACTION_IDENTIFIERS.boolean(context.spark, True),
            run_copies=copy_function(context.spark, target.engine, target.path),
        )
        if not resolved.exists:
            resolved.register(context.spark, target.path)
        values = asdict(metrics)
        return context.spark.createDataFrame(
            [tuple(values[name] for name in _CLONE_METRICS)], _CLONE_SCHEMA
        )


def _parse_clone(
    cursor: TokenCursor, table: TableName, mode: CreationMode, *, shallow: bool
) -> Clone:
    """Parse the tokens after the keyword `CLONE`."""
    source = cursor.table()
    version, timestamp = cursor.time_travel()
    properties = parse_properties(cursor) if cursor.take("TBLPROPERTIES") else {}
    location = cursor.string("a path") if cursor.take("LOCATION") else None
    cursor.expect_end()
    return Clone(
        table=table,
        mode=mode,
        shallow=shallow,
        source=source,
        version=version,
        timestamp=timestamp,
        properties=properties,
        location=location,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTemporaryView:
    """`CREATE [OR REPLACE] [GLOBAL] TEMPORARY VIEW name [(columns)] AS query`.

    The view is created from the query's DataFrame, not from the query's SQL, because Spark can't
    resolve paths and versions of Delta tables in SQL.
    """

    name: str
    columns: tuple[str, ...]
    query: str
    replace: bool
    is_global: bool

    def run(self, context: StatementContext) -> Any:
        """Create the view; return NotImplemented if the query reads no Delta table."""
        if not context.reads_delta_tables(self.query):
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
        return context.empty_result()


def parse_temporary_view(cursor: TokenCursor) -> CreateTemporaryView | None:
    """Parse a `CREATE TEMPORARY VIEW`; None for other statements."""
    cursor.take("CREATE")
    replace = cursor.take("OR", "REPLACE")
    is_global = cursor.take("GLOBAL")
    if not cursor.take("TEMP|TEMPORARY", "VIEW") or cursor.next_are("IF"):
        return None
    name = cursor.name("the name of a view")
    columns: tuple[str, ...] = ()
    if cursor.next_are("("):
        columns = _parse_columns(cursor)
        if not columns:
            return None  # column comments are left to Spark
    if not cursor.take("AS"):
        return None
    return CreateTemporaryView(
        name=name,
        columns=columns,
        query=cursor.until_end("a query"),
        replace=replace,
        is_global=is_global,
    )


def _parse_columns(cursor: TokenCursor) -> tuple[str, ...]:
    cursor.expect("(")
    names = cursor.comma_separated(lambda: cursor.name("the name of a column"))
    return names if cursor.take(")") else ()
