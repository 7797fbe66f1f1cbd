"""`SHOW TBLPROPERTIES`, `SHOW COLUMNS`, `SHOW CREATE TABLE` and `DESCRIBE TABLE`.

`DESCRIBE HISTORY` and `DESCRIBE DETAIL`.
"""

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
from bayou.protocol.schema import StructField, StructType
from bayou.spark.delta_table.describe import detail_frame, history_frame
from bayou.spark.sql_statements.column_definitions import property_keys
from bayou.spark.sql_statements.context import Statement, StatementContext, name_of
from bayou.spark.sql_statements.token_cursor import TableName, Words, quoted_name, quoted_text
from bayou.spark.types import to_spark

__all__ = [
    "DescribeDetail",
    "DescribeHistory",
    "DescribeTable",
    "Show",
    "parse_describe",
    "parse_describe_table",
    "parse_show",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """`SHOW TBLPROPERTIES | COLUMNS | CREATE TABLE` of a table.

    Attributes:
        what: of these.
        key: the one property wanted.
    """

    table: TableName
    what: str
    key: str | None = None

    def run(self, context: StatementContext) -> Any:
        """What the latest version says."""
        target = context.found(self.table)
        if target is None:
            return NotImplemented
        snapshot = target.table.latest_snapshot(target.engine)
        spark = context.spark
        if self.what == "COLUMNS":
            return spark.createDataFrame([(n,) for n in snapshot.schema.names], "col_name string")
        if self.what == "CREATE":
            text = "\n".join(_definition(self.table, snapshot))
            return spark.createDataFrame([(text,)], "createtab_stmt string")
        found = _properties(snapshot)
        if self.key is not None:
            missing = f"Table {'.'.join(self.table)} does not have property: {self.key}"
            found = {self.key: found.get(self.key, missing)}
        return spark.createDataFrame(sorted(found.items()), "key string, value string")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTable:
    """`DESCRIBE [TABLE] [EXTENDED | FORMATTED] table` of a path."""

    table: TableName

    def run(self, context: StatementContext) -> Any:
        """Columns, with the partition columns once more at the end."""
        target = context.target(self.table)
        snapshot = target.table.latest_snapshot(target.engine)
        fields = {f.name: _described(f) for f in snapshot.schema}
        rows: list[tuple[str, str, str | None]] = list(fields.values())
        if snapshot.partition_columns:
            rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
            rows += [fields[name] for name in snapshot.partition_columns]
        return context.spark.createDataFrame(
            rows, "col_name string, data_type string, comment string"
        )


def parse_show(words: Words) -> Show | None:
    """Behind `SHOW`; None for what isn't about one table."""
    if words.take("TBLPROPERTIES"):
        table = words.table()
        key = property_keys(words)[0] if words.begin_with("(") else None
        words.end()
        return Show(table=table, what="TBLPROPERTIES", key=key)
    if words.take("CREATE", "TABLE"):
        table = words.table()
        return None if words.begin_with("AS") else Show(table=table, what="CREATE")
    if words.take("COLUMNS", "IN|FROM"):
        table = words.table()
        return Show(table=table, what="COLUMNS") if words.ended else None
    return None


def parse_describe_table(words: Words) -> DescribeTable | None:
    """Behind `DESCRIBE`; None where it isn't of a path, which Spark's catalog describes."""
    words.take("TABLE")
    words.take("EXTENDED|FORMATTED")
    if not words.begin_with("DELTA", "."):
        return None
    table = words.table()
    return DescribeTable(table=table) if words.ended else None


def _properties(snapshot: Snapshot) -> dict[str, str]:
    protocol = snapshot.protocol
    found = {
        **snapshot.properties,
        "delta.minReaderVersion": str(protocol.min_reader_version),
        "delta.minWriterVersion": str(protocol.min_writer_version),
    }
    if protocol.min_writer_version >= features.TABLE_FEATURES_WRITER_VERSION:
        for name in features.all_features(protocol):
            found[f"delta.feature.{name}"] = "supported"
    return found


def _definition(table: TableName, snapshot: Snapshot) -> Iterator[str]:
    columns = ",\n".join(f"  {text}" for text in _columns(snapshot))
    yield f"CREATE TABLE {name_of(table)} (\n{columns})"
    yield "USING delta"
    if snapshot.partition_columns:
        yield f"PARTITIONED BY ({', '.join(map(quoted_name, snapshot.partition_columns))})"
    if snapshot.clustering_columns:
        paths = (".".join(map(quoted_name, path)) for path in snapshot.clustering_columns)
        yield f"CLUSTER BY ({', '.join(paths)})"
    if snapshot.metadata.description:
        yield f"COMMENT {quoted_text(snapshot.metadata.description)}"
    if table[0].lower() != "delta":
        yield f"LOCATION {quoted_text(snapshot.path)}"
    if snapshot.properties:
        given = sorted(snapshot.properties.items())
        texts = ",\n".join(f"  {quoted_text(k)} = {quoted_text(v)}" for k, v in given)
        yield f"TBLPROPERTIES (\n{texts})"


def _columns(snapshot: Snapshot) -> Iterator[str]:
    defaults, made = column_defaults(snapshot.schema), generation_expressions(snapshot.schema)
    counted = identity_columns(snapshot.schema)
    for field in snapshot.schema:
        _, kind, comment = _described(field)
        text = f"{quoted_name(field.name)} {kind.upper()}"
        if not field.nullable:
            text += " NOT NULL"
        if field.name in defaults:
            text += f" DEFAULT {defaults[field.name]}"
        if field.name in made:
            text += f" GENERATED ALWAYS AS ({made[field.name]})"
        if field.name in counted:
            identity = counted[field.name]
            how = "BY DEFAULT" if identity.allow_explicit_insert else "ALWAYS"
            text += (
                f" GENERATED {how} AS IDENTITY "
                f"(START WITH {identity.start} INCREMENT BY {identity.step})"
            )
        yield text if comment is None else f"{text} COMMENT {quoted_text(comment)}"


def _described(field: StructField) -> tuple[str, str, str | None]:
    from_metadata = field.metadata.get("comment")
    kind = to_spark(StructType((field,))).fields[0].dataType.simpleString()
    return field.name, kind, None if from_metadata is None else str(from_metadata)


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
