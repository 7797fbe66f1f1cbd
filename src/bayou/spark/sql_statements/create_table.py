"""`CREATE TABLE` and `REPLACE TABLE ... USING delta`, with columns or `AS query`.

`CREATE TEMPORARY VIEW ... AS query`, of queries that name Delta tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayou.errors import TableAlreadyExistsError, TableNotFoundError
from bayou.kernel.commands.create_table import CreationMode, TableDefinition
from bayou.kernel.commands.write import WriteMode
from bayou.kernel.operation import Operation
from bayou.protocol.schema import StructField, StructType
from bayou.spark.delta_table import DeltaTable, DeltaTableBuilder
from bayou.spark.sql_statements.clone import Clone, parse_clone
from bayou.spark.sql_statements.column_definitions import column_definition, properties
from bayou.spark.sql_statements.context import StatementContext, name_of
from bayou.spark.sql_statements.token_cursor import TableName, Words
from bayou.spark.target import TargetTable
from bayou.spark.write.dataframes import write_rows
from bayou.spark.write.options import WriteOptions, with_session_defaults

__all__ = ["CreateTable", "CreateTemporaryView", "parse_create_table", "parse_temporary_view"]


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
        definition: columns, partitioning, clustering, properties and comment.
        location: of `LOCATION`.
        query: of `AS`; None where columns define the table.
    """

    table: TableName
    mode: CreationMode
    definition: TableDefinition
    location: str | None
    query: str | None

    def run(self, context: StatementContext) -> Any:
        """A table made, in one commit."""
        if self.query is None:
            self._define(context)
        else:
            self._fill(context, self.query)
        return context.nothing()

    def _define(self, context: StatementContext) -> None:
        builder = DeltaTableBuilder(context.spark, self.mode, DeltaTable)
        place = context.place(self.table)
        if place.is_path:
            builder = builder.location(place.path)
        else:
            builder = builder.tableName(name_of(self.table))
            if self.location is not None:
                builder = builder.location(self.location)
        builder.define(self.definition).execute()

    def _fill(self, context: StatementContext, query: str) -> None:
        if not context.is_classic:
            raise context.refuse(
                "CREATE TABLE ... AS isn't possible under Spark Connect: create the table with its "
                "columns, and INSERT INTO it."
            )
        place = context.place(self.table)
        path = place.path if place.exists else self.location or place.path
        target = TargetTable(spark=context.spark, location=path)
        there = target.exists()
        if self.mode is CreationMode.CREATE_IF_NOT_EXISTS and (there or _is_named(place)):
            return
        if self.mode is CreationMode.CREATE and (there or _is_named(place)):
            raise TableAlreadyExistsError(
                f"There is a table {'.'.join(self.table)} already (TABLE_OR_VIEW_ALREADY_EXISTS). "
                "Use CREATE OR REPLACE TABLE, or INSERT INTO.",
                table=target.path,
            )
        if self.mode is CreationMode.REPLACE and not there:
            raise TableNotFoundError(
                f"There is no table {'.'.join(self.table)} to be replaced "
                "(TABLE_OR_VIEW_NOT_FOUND). Use CREATE OR REPLACE TABLE.",
                table=target.path,
            )
        mode, operation = _AS_SELECT[self.mode]
        given = {**self.definition.properties, "path": path, "overwriteSchema": "true"}
        options = WriteOptions.parse(with_session_defaults(context.spark, path, given))
        write_rows(
            context.query(query),
            options.defining(self.definition.properties, self.definition.description),
            mode,
            self.definition.partition_columns or None,
            tuple(".".join(path) for path in self.definition.clustering_columns) or None,
            operation=operation,
            is_managed=not place.is_path and self.location is None,
        )
        if not place.exists:
            place.register(context.spark, path)


def _is_named(place: Any) -> bool:
    return place.exists and not place.is_path


def parse_create_table(words: Words) -> CreateTable | Clone | None:
    """A whole `CREATE TABLE` or `REPLACE TABLE`; None where it isn't one of a Delta table."""
    mode = _mode(words)
    if mode is None:
        return None
    table = words.table()
    if words.take("SHALLOW", "CLONE"):
        return parse_clone(words, table, mode)
    if words.take("DEEP", "CLONE") or words.take("CLONE"):
        raise words.error("SHALLOW CLONE (deep clones aren't supported), not what")
    if not _is_path(table) and not words.has_ahead("USING", "DELTA"):
        return None  # of another format, or like another table
    columns: tuple[StructField, ...] = ()
    if words.begin_with("("):
        columns = words.several(lambda: column_definition(words).whole_field)
    return _clauses(words, table, mode, columns)


def _mode(words: Words) -> CreationMode | None:
    if words.take("CREATE", "OR", "REPLACE", "TABLE"):
        return CreationMode.CREATE_OR_REPLACE
    if words.take("REPLACE", "TABLE"):
        return CreationMode.REPLACE
    if words.take("CREATE", "TABLE"):
        if words.take("IF", "NOT", "EXISTS"):
            return CreationMode.CREATE_IF_NOT_EXISTS
        return CreationMode.CREATE
    return None


def _clauses(
    words: Words, table: TableName, mode: CreationMode, columns: tuple[StructField, ...]
) -> CreateTable:
    partitions: tuple[str, ...] = ()
    clustering: tuple[tuple[str, ...], ...] = ()
    given: Mapping[str, str] = {}
    comment = location = query = None
    while not words.ended:
        if words.take("USING"):
            words.expect("DELTA")
        elif words.take("PARTITIONED", "BY"):
            partitions, added = _partitioning(words)
            columns = (*columns, *added)
        elif words.take("CLUSTER", "BY"):
            clustering = words.columns()
        elif words.take("COMMENT"):
            comment = words.string("a comment")
        elif words.take("TBLPROPERTIES"):
            given = properties(words)
        elif words.take("LOCATION"):
            location = words.string("a path")
        elif words.take("AS") or words.begin_with("SELECT|WITH|FROM|VALUES"):
            query = words.rest("a query")
        else:
            raise words.error(
                "PARTITIONED BY, CLUSTER BY, COMMENT, TBLPROPERTIES, LOCATION or AS and a query"
            )
    if query is not None and columns:
        raise words.error("A query without columns before it: CREATE TABLE ... AS makes them")
    definition = TableDefinition(
        schema=StructType(columns),
        partition_columns=partitions,
        clustering_columns=clustering,
        properties=given,
        description=comment,
    )
    return CreateTable(
        table=table, mode=mode, definition=definition, location=location, query=query
    )


def _partitioning(words: Words) -> tuple[tuple[str, ...], tuple[StructField, ...]]:
    """Names; and columns, where types stand behind them."""
    added: list[StructField] = []

    def column() -> str:
        if words.begin_with("(", after=1):
            raise words.error("The name of a partition column (transforms aren't Delta's)")
        if words.begin_with(",|)", after=1):
            return words.name("the name of a column")
        definition = column_definition(words)
        added.append(definition.whole_field)
        return definition.field.name

    return words.several(column), tuple(added)


def _is_path(table: TableName) -> bool:
    return len(table) == 2 and table[0].lower() == "delta"


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
