"""`SHOW TBLPROPERTIES | COLUMNS | CREATE TABLE` and `DESCRIBE TABLE | HISTORY | DETAIL`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bayou.kernel import Snapshot
from bayou.protocol import features
from bayou.protocol.column_metadata import (
    column_defaults,
    generation_expressions,
    identity_columns,
)
from bayou.protocol.properties import is_settable
from bayou.protocol.schema import StructField, StructType
from bayou.protocol.sql import quote_identifier
from bayou.spark.catalog_tables import table_type
from bayou.spark.ddl import literal_sql, type_sql
from bayou.spark.delta_table.describe import detail_frame, history_frame
from bayou.spark.sql_statements.column_definitions import parse_property_keys
from bayou.spark.sql_statements.context import (
    Statement,
    StatementContext,
    TableStatement,
    quoted_table_name,
)
from bayou.spark.sql_statements.token_cursor import TableName, TokenCursor, is_path_name
from bayou.spark.target_table import TargetTable
from bayou.spark.types import to_spark


@dataclass(frozen=True, slots=True, kw_only=True)
class Show(TableStatement):
    """`SHOW TBLPROPERTIES | COLUMNS | CREATE TABLE` of a table.

    Attributes:
        subject: `TBLPROPERTIES`, `COLUMNS` or `CREATE`.
        key: for `TBLPROPERTIES`, the key of the property to show; None to show all properties.
    """

    subject: str
    key: str | None = None

    def run_on(self, target: TargetTable, context: StatementContext) -> Any:
        snapshot = target.table.latest_snapshot(target.engine)
        spark = context.spark
        if self.subject == "COLUMNS":
            return spark.createDataFrame([(n,) for n in snapshot.schema.names], "col_name string")
        if self.subject == "CREATE":
            sql = "\n".join(_definition(self.table, snapshot))
            return spark.createDataFrame([(sql,)], "createtab_stmt string")
        properties = _properties(snapshot)
        if self.key is not None:
            missing = f"Table {'.'.join(self.table)} does not have property: {self.key}"
            properties = {self.key: properties.get(self.key, missing)}
        return spark.createDataFrame(sorted(properties.items()), "key string, value string")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTable(TableStatement):
    """`DESCRIBE [TABLE] [EXTENDED | FORMATTED] table`."""

    extended: bool = False

    def run_on(self, target: TargetTable, context: StatementContext) -> Any:
        """Return a DataFrame with a row for each column, then a row for each partition column.

        With `extended`, the table's name, type, location, format and properties follow.
        """
        snapshot = target.table.latest_snapshot(target.engine)
        fields = {f.name: _description(f) for f in snapshot.schema}
        rows: list[tuple[str, str, str | None]] = list(fields.values())
        if snapshot.partition_columns:
            rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
            rows += [fields[name] for name in snapshot.partition_columns]
        if self.extended:
            rows += [("", "", ""), ("# Detailed Table Information", "", "")]
            rows += [(name, value, "") for name, value in self._details(context, snapshot)]
        return context.spark.createDataFrame(
            rows, "col_name string, data_type string, comment string"
        )

    def _details(self, context: StatementContext, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
        name = quoted_table_name(self.table)
        yield "Name", name
        if not is_path_name(self.table):
            # Spark says MANAGED for all tables of Python data sources.
            yield "Type", table_type(context.spark, name)
        yield "Location", snapshot.path
        yield "Provider", "delta"
        properties = sorted(_properties(snapshot).items())
        yield "Table Properties", f"[{','.join(f'{key}={value}' for key, value in properties)}]"


def parse_show(cursor: TokenCursor) -> Show | None:
    """Parse the tokens after `SHOW`; None for a statement that `Show` doesn't support."""
    if cursor.take("TBLPROPERTIES"):
        table = cursor.table()
        key = parse_property_keys(cursor)[0] if cursor.next_are("(") else None
        cursor.expect_end()
        return Show(table=table, subject="TBLPROPERTIES", key=key)
    if cursor.take("CREATE", "TABLE"):
        table = cursor.table()
        return None if cursor.next_are("AS") else Show(table=table, subject="CREATE")
    if cursor.take("COLUMNS", "IN|FROM"):
        table = cursor.table()
        return Show(table=table, subject="COLUMNS") if cursor.at_end else None
    return None


def parse_describe_table(cursor: TokenCursor) -> DescribeTable | None:
    """Parse the tokens after `DESCRIBE`; None for a statement that Spark must run."""
    cursor.take("TABLE")
    extended = cursor.take("EXTENDED|FORMATTED")
    if not cursor.at_name:
        return None
    table = cursor.table()
    return DescribeTable(table=table, extended=extended) if cursor.at_end else None


def _properties(snapshot: Snapshot) -> dict[str, str]:
    protocol = snapshot.protocol
    properties = {
        **snapshot.properties,
        "delta.minReaderVersion": str(protocol.min_reader_version),
        "delta.minWriterVersion": str(protocol.min_writer_version),
    }
    if protocol.min_writer_version >= features.TABLE_FEATURES_WRITER_VERSION:
        for name in features.all_features(protocol):
            properties[f"delta.feature.{name}"] = "supported"
    return properties


def _definition(table: TableName, snapshot: Snapshot) -> Iterator[str]:
    columns = ",\n".join(f"  {column}" for column in _columns(snapshot))
    yield f"CREATE TABLE {quoted_table_name(table)} (\n{columns})"
    yield "USING delta"
    if snapshot.partition_columns:
        yield f"PARTITIONED BY ({', '.join(map(quote_identifier, snapshot.partition_columns))})"
    if snapshot.clustering_columns:
        paths = (".".join(map(quote_identifier, path)) for path in snapshot.clustering_columns)
        yield f"CLUSTER BY ({', '.join(paths)})"
    if snapshot.metadata.description:
        yield f"COMMENT {literal_sql(snapshot.metadata.description)}"
    if not is_path_name(table):
        yield f"LOCATION {literal_sql(snapshot.path)}"
    items = sorted(item for item in snapshot.properties.items() if is_settable(item[0]))
    if items:
        properties = ",\n".join(f"  {literal_sql(k)} = {literal_sql(v)}" for k, v in items)
        yield f"TBLPROPERTIES (\n{properties})"


def _columns(snapshot: Snapshot) -> Iterator[str]:
    defaults, generated = column_defaults(snapshot.schema), generation_expressions(snapshot.schema)
    identities = identity_columns(snapshot.schema)
    for field in snapshot.schema:
        sql = f"{quote_identifier(field.name)} {type_sql(_spark_type(field))}"
        if not field.nullable:
            sql += " NOT NULL"
        if field.name in defaults:
            sql += f" DEFAULT {defaults[field.name]}"
        if field.name in generated:
            sql += f" GENERATED ALWAYS AS ({generated[field.name]})"
        if field.name in identities:
            identity = identities[field.name]
            mode = "BY DEFAULT" if identity.allow_explicit_insert else "ALWAYS"
            sql += (
                f" GENERATED {mode} AS IDENTITY "
                f"(START WITH {identity.start} INCREMENT BY {identity.step})"
            )
        comment = _comment(field)
        yield sql if comment is None else f"{sql} COMMENT {literal_sql(comment)}"


def _description(field: StructField) -> tuple[str, str, str | None]:
    """Return a column's name, Spark type and comment."""
    return field.name, _spark_type(field).simpleString(), _comment(field)


def _spark_type(field: StructField) -> Any:
    return to_spark(StructType((field,))).fields[0].dataType


def _comment(field: StructField) -> str | None:
    comment = field.metadata.get("comment")
    return None if comment is None else str(comment)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeHistory:
    """`DESCRIBE HISTORY table [LIMIT n]`."""

    table: TableName
    limit: int | None = None

    def run(self, context: StatementContext) -> Any:
        target = context.table(self.table)
        return history_frame(context.spark, target.engine, target.table, self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDetail:
    """`DESCRIBE DETAIL table`."""

    table: TableName

    def run(self, context: StatementContext) -> Any:
        target = context.table(self.table)
        snapshot = target.table.latest_snapshot(target.engine)
        return detail_frame(context.spark, target.engine, snapshot, target.name)


def parse_describe(cursor: TokenCursor) -> Statement | None:
    """Parse the tokens after `DESCRIBE`; None for a statement that Spark must run."""
    if cursor.next_are("HISTORY|DETAIL", "."):  # a table in the database `history` or `detail`
        return parse_describe_table(cursor)
    if cursor.take("HISTORY"):
        if cursor.at_end:
            return None  # DESCRIBE of a table with the name `history`
        table = cursor.table()
        limit = cursor.integer("a number of commits") if cursor.take("LIMIT") else None
        cursor.expect_end()
        return DescribeHistory(table=table, limit=limit)
    if cursor.take("DETAIL"):
        if cursor.at_end:
            return None
        table = cursor.table()
        cursor.expect_end()
        return DescribeDetail(table=table)
    return parse_describe_table(cursor)
