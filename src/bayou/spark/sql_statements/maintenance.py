"""`OPTIMIZE`, `REORG`, `VACUUM`, `RESTORE`, `GENERATE` and `CONVERT TO DELTA`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayou.kernel.arrow.types import to_arrow_schema
from bayou.protocol.schema import StructType
from bayou.spark.commands.vacuum import Inventory, vacuum_table
from bayou.spark.delta_table import DeltaTable
from bayou.spark.delta_table.result_dataframes import qualified
from bayou.spark.sql_statements.column_definitions import parse_column_definition
from bayou.spark.sql_statements.context import StatementContext, quoted_table_name
from bayou.spark.sql_statements.token_cursor import TableName, TokenCursor
from bayou.spark.target_table import TargetTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimize:
    """`OPTIMIZE table [FULL] [WHERE condition] [ZORDER BY (columns)]`."""

    table: TableName
    full: bool
    where: str | None
    zorder: tuple[str, ...]

    def run(self, context: StatementContext) -> Any:
        if self.full and (self.where is not None or self.zorder):
            raise context.error(
                f"Table {'.'.join(self.table)}: OPTIMIZE ... FULL is for clustered tables and "
                "can't be combined with WHERE or ZORDER BY. Remove FULL, or WHERE and ZORDER BY."
            )
        builder = DeltaTable(context.table(self.table)).optimize()
        if self.where is not None:
            builder = builder.where(self.where)
        if self.zorder:
            return builder.executeZOrderBy(*self.zorder)
        return builder.executeCompaction(full=self.full)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorg:
    """`REORG TABLE table [WHERE condition] APPLY (PURGE)`, or `APPLY (UPGRADE UNIFORM (...))`.

    Attributes:
        iceberg_compat_version: the argument of UPGRADE UNIFORM; None for PURGE.
    """

    table: TableName
    where: str | None
    iceberg_compat_version: int | None = None

    def run(self, context: StatementContext) -> Any:
        builder = DeltaTable(context.table(self.table)).reorg()
        if self.iceberg_compat_version is not None:
            return builder.executeUpgradeUniform(self.iceberg_compat_version)
        return (builder if self.where is None else builder.where(self.where)).executePurge()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """`VACUUM table [LITE | FULL] [USING INVENTORY ...] [RETAIN n HOURS] [DRY RUN]`.

    Attributes:
        lite: True for `LITE`, False for `FULL`, None if the statement has neither keyword.
        inventory: an SQL query that returns the files in the table's folder. If None, `VACUUM`
            lists the folder.
        retention_hours: n in `RETAIN n HOURS`. If None, the retention in the table's properties is
            used.
    """

    table: TableName
    lite: bool | None
    inventory: str | None
    retention_hours: float | None
    dry_run: bool

    def run(self, context: StatementContext) -> Any:
        """Delete unreferenced files, and return a DataFrame with one row: the table's path.

        A dry run deletes nothing, and returns a DataFrame of the unreferenced files' paths.
        """
        target = context.table(self.table)
        inventory = None
        if self.inventory is not None:
            inventory = Inventory(frame=context.query(self.inventory), location=target.location)
        result = vacuum_table(
            context.spark,
            target.engine,
            target.table,
            self.retention_hours,
            dry_run=self.dry_run,
            lite=self.lite,
            inventory=inventory,
        )
        paths: list[Any] = [target.path]
        if self.dry_run:
            paths = result.inventory.column("path").to_pylist()
        rows = [(qualified(path),) for path in paths]
        return context.spark.createDataFrame(rows, "path string")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """`RESTORE [TABLE] table [TO] VERSION | TIMESTAMP AS OF ...`."""

    table: TableName
    version: int | None
    timestamp: str | None

    def run(self, context: StatementContext) -> Any:
        table = DeltaTable(context.table(self.table))
        if self.version is not None:
            return table.restoreToVersion(self.version)
        assert self.timestamp is not None  # the parser requires a version or a timestamp
        return table.restoreToTimestamp(self.timestamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """`GENERATE mode FOR TABLE table`."""

    table: TableName
    mode: str

    def run(self, context: StatementContext) -> Any:
        DeltaTable(context.table(self.table)).generate(self.mode)
        return context.empty_result()


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert:
    """``CONVERT TO DELTA parquet.`/path` [NO STATISTICS] [PARTITIONED BY (column type, ...)]``."""

    table: TableName
    statistics: bool
    partitions: StructType | None

    def run(self, context: StatementContext) -> Any:
        if len(self.table) != 2 or self.table[0].lower() not in ("parquet", "delta"):
            is_folder = len(self.table) == 2 and "/" in self.table[1]
            condition = "CONVERT_NON_PARQUET_TABLE" if is_folder else "MISSING_PROVIDER_FOR_CONVERT"
            raise context.error(
                f"CONVERT TO DELTA: {quoted_table_name(self.table)} isn't a folder of Parquet "
                f"files, and catalog names aren't supported (DELTA_{condition}). Use a path: "
                "parquet.`/path`."
            )
        target = TargetTable(spark=context.spark, location=self.table[1])
        partitions = None if self.partitions is None else to_arrow_schema(self.partitions)
        target.handle.convert(partitions, collect_statistics=self.statistics)
        return context.empty_result()


def parse_optimize(cursor: TokenCursor) -> Optimize:
    """Parse the tokens after `OPTIMIZE`."""
    table = cursor.table()
    full = cursor.take("FULL")
    where = None
    if cursor.take("WHERE"):
        where = cursor.until(lambda: cursor.next_are("ZORDER", "BY"), expected="a condition")
    zorder: tuple[tuple[str, ...], ...] = ()
    if cursor.take("ZORDER", "BY"):
        parenthesized = cursor.next_are("(")
        zorder = cursor.columns() if parenthesized else cursor.comma_separated(cursor.column)
    cursor.expect_end()
    return Optimize(
        table=table, full=full, where=where, zorder=tuple(".".join(path) for path in zorder)
    )


def parse_reorg(cursor: TokenCursor) -> Reorg:
    """Parse the tokens after `REORG`."""
    cursor.expect("TABLE")
    table = cursor.table()
    where = cursor.until_keywords("APPLY", expected="a condition") if cursor.take("WHERE") else None
    cursor.expect("APPLY", "(")
    if where is None and cursor.take("UPGRADE", "UNIFORM", "(", "ICEBERG_COMPAT_VERSION", "="):
        version = cursor.integer("a version of Iceberg compatibility")
        cursor.expect(")", ")")
        cursor.expect_end()
        return Reorg(table=table, where=None, iceberg_compat_version=version)
    cursor.expect("PURGE", ")")
    cursor.expect_end()
    return Reorg(table=table, where=where)


def parse_vacuum(cursor: TokenCursor) -> Vacuum:
    """Parse the tokens after `VACUUM`."""
    table = cursor.table()
    clauses: dict[str, Any] = {}

    def add(clause: str, value: Any) -> None:
        if clause in clauses:
            raise cursor.error(f"{clause} only once")
        clauses[clause] = value

    while not cursor.at_end:
        if cursor.take("LITE"):
            add("LITE or FULL", "LITE")
        elif cursor.take("FULL"):
            add("LITE or FULL", "FULL")
        elif cursor.take("USING", "INVENTORY"):
            add("USING INVENTORY", _parse_inventory(cursor))
        elif cursor.take("RETAIN"):
            add("RETAIN", cursor.number("a number of hours"))
            cursor.expect("HOURS|HOUR")
        elif cursor.take("DRY", "RUN"):
            add("DRY RUN", True)
        else:
            raise cursor.error("LITE, FULL, USING INVENTORY, RETAIN n HOURS or DRY RUN")
    kind, inventory = clauses.get("LITE or FULL"), clauses.get("USING INVENTORY")
    if kind == "LITE" and inventory is not None:
        raise cursor.error("LITE or USING INVENTORY, not both")
    return Vacuum(
        table=table,
        lite=None if kind is None else kind == "LITE",
        inventory=inventory,
        retention_hours=clauses.get("RETAIN"),
        dry_run=clauses.get("DRY RUN", False),
    )


def _parse_inventory(cursor: TokenCursor) -> str:
    """Parse a query in parentheses, or a table name; a name becomes the query `TABLE name`."""
    if cursor.next_are("("):
        return cursor.parenthesized()
    return f"TABLE {quoted_table_name(cursor.column('a table, or a query in parentheses'))}"


def parse_restore(cursor: TokenCursor) -> Restore:
    """Parse the tokens after `RESTORE`."""
    cursor.take("TABLE")
    table = cursor.table()
    cursor.take("TO")
    version, timestamp = cursor.time_travel()
    if version is None and timestamp is None:
        raise cursor.error("VERSION AS OF number or TIMESTAMP AS OF timestamp")
    cursor.expect_end()
    return Restore(table=table, version=version, timestamp=timestamp)


def parse_generate(cursor: TokenCursor) -> Generate:
    """Parse the tokens after `GENERATE`."""
    mode = cursor.name("symlink_format_manifest")
    cursor.expect("FOR", "TABLE")
    table = cursor.table()
    cursor.expect_end()
    return Generate(table=table, mode=mode)


def parse_convert(cursor: TokenCursor) -> Convert:
    """Parse the tokens after `CONVERT`."""
    cursor.expect("TO", "DELTA")
    table = cursor.table()
    statistics = not cursor.take("NO", "STATISTICS")
    partitions = None
    if cursor.take("PARTITIONED", "BY"):
        fields = cursor.parenthesized_list(lambda: parse_column_definition(cursor).field)
        partitions = StructType(fields)
    cursor.expect_end()
    return Convert(table=table, statistics=statistics, partitions=partitions)
