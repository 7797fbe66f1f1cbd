"""`CREATE TABLE ... [SHALLOW | DEEP] CLONE ...`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql.types import LongType, StructField, StructType

from bayou.kernel.commands.clone import clone
from bayou.kernel.commands.create_table import CreationMode
from bayou.spark.commands.deep_clone import copy_function
from bayou.spark.read.time_travel import parse_timestamp
from bayou.spark.session.settings import CLONE_TRANSACTION_IDENTIFIERS
from bayou.spark.sql_statements.column_definitions import parse_properties
from bayou.spark.sql_statements.context import StatementContext
from bayou.spark.sql_statements.token_cursor import TableName, TokenCursor
from bayou.spark.target import SPARK_ENGINE_INFO, TargetTable

_COLUMNS = (
    "source_table_size",
    "source_num_of_files",
    "num_removed_files",
    "num_copied_files",
    "removed_files_size",
    "copied_files_size",
)
_SCHEMA = StructType([StructField(name, LongType()) for name in _COLUMNS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """`CREATE [OR REPLACE] TABLE [IF NOT EXISTS] table [SHALLOW | DEEP] CLONE source ...`.

    Attributes:
        shallow: whether the clone refers to the source's data files. Without the keyword SHALLOW,
            they are copied, as on Databricks.
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

        With `IF NOT EXISTS`, nothing is cloned if the table exists, and the DataFrame has no row.
        """
        source, resolved = context.table(self.source), context.resolve_name(self.table)
        path = resolved.path if resolved.exists else self.location or resolved.path
        target = TargetTable(spark=context.spark, location=path)
        if self.mode is CreationMode.CREATE_IF_NOT_EXISTS and target.exists():
            return context.spark.createDataFrame([], _SCHEMA)
        table, engine = source.table, source.engine
        if self.version is not None:
            snapshot = table.snapshot_as_of_version(engine, self.version)
        elif self.timestamp is not None:
            zone = str(context.spark.conf.get("spark.sql.session.timeZone"))
            at = parse_timestamp("timestamp", self.timestamp, zone)
            snapshot = table.snapshot_as_of_timestamp(engine, at)
        else:
            snapshot = table.latest_snapshot(engine)
        metrics = clone(
            target.engine,
            snapshot,
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
        return context.spark.createDataFrame([tuple(values[c] for c in _COLUMNS)], _SCHEMA)


def parse_clone(
    cursor: TokenCursor, table: TableName, mode: CreationMode, *, shallow: bool
) -> Clone:
    """Parse the tokens after `CLONE`."""
    source = cursor.table()
    version = timestamp = location = None
    overrides: Mapping[str, str] = {}
    cursor.take("FOR")
    if cursor.take("VERSION|SYSTEM_VERSION", "AS", "OF"):
        version = cursor.integer("a version number")
    elif cursor.take("TIMESTAMP|SYSTEM_TIME", "AS", "OF"):
        timestamp = cursor.string("a timestamp")
    if cursor.take("TBLPROPERTIES"):
        overrides = parse_properties(cursor)
    if cursor.take("LOCATION"):
        location = cursor.string("a path")
    cursor.expect_end()
    return Clone(
        table=table,
        mode=mode,
        shallow=shallow,
        source=source,
        version=version,
        timestamp=timestamp,
        properties=overrides,
        location=location,
    )
