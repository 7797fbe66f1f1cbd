"""`OPTIMIZE`, `REORG`, `VACUUM`, `RESTORE`, `GENERATE`, `CONVERT TO DELTA`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayou.kernel.arrow.types import to_arrow_schema
from bayou.protocol.schema import StructType
from bayou.spark.delta_table import DeltaTable
from bayou.spark.sql_statements.column_definitions import column_definition
from bayou.spark.sql_statements.context import StatementContext, name_of
from bayou.spark.sql_statements.token_cursor import TableName, Words
from bayou.spark.target import TargetTable

__all__ = ["parse_convert", "parse_generate", "parse_optimize", "parse_reorg", "parse_restore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimize:
    """`OPTIMIZE table [FULL] [WHERE condition] [ZORDER BY (columns)]`."""

    table: TableName
    full: bool
    where: str | None
    zorder: tuple[str, ...]

    def run(self, context: StatementContext) -> Any:
        """Files packed or ordered; a frame of metrics."""
        if self.full and (self.where is not None or self.zorder):
            raise context.refuse(
                "OPTIMIZE ... FULL is for clustered tables, which take neither WHERE nor ZORDER "
                "BY: leave them out."
            )
        builder = DeltaTable(context.target(self.table)).optimize()
        if self.where is not None:
            builder = builder.where(self.where)
        if self.zorder:
            return builder.executeZOrderBy(*self.zorder)
        return builder.executeCompaction(full=self.full)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorg:
    """`REORG TABLE table [WHERE condition] APPLY (PURGE)`."""

    table: TableName
    where: str | None

    def run(self, context: StatementContext) -> Any:
        """Deleted rows and columns out of the files; a frame of metrics."""
        builder = DeltaTable(context.target(self.table)).reorg()
        return (builder if self.where is None else builder.where(self.where)).executePurge()


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """`RESTORE [TABLE] table [TO] VERSION | TIMESTAMP AS OF ...`."""

    table: TableName
    version: int | None
    timestamp: str | None

    def run(self, context: StatementContext) -> Any:
        """An earlier version made the next one; a frame of metrics."""
        table = DeltaTable(context.target(self.table))
        if self.version is not None:
            return table.restoreToVersion(self.version)
        assert self.timestamp is not None  # the grammar has one of them
        return table.restoreToTimestamp(self.timestamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """`GENERATE mode FOR TABLE table`."""

    table: TableName
    mode: str

    def run(self, context: StatementContext) -> Any:
        """Files for other systems."""
        DeltaTable(context.target(self.table)).generate(self.mode)
        return context.nothing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert:
    """``CONVERT TO DELTA parquet.`/path` [NO STATISTICS] [PARTITIONED BY (column type, ...)]``."""

    table: TableName
    statistics: bool
    partitions: StructType | None

    def run(self, context: StatementContext) -> Any:
        """A folder of Parquet files made a table."""
        if len(self.table) != 2 or self.table[0].lower() not in ("parquet", "delta"):
            is_folder = len(self.table) == 2 and "/" in self.table[1]
            condition = "CONVERT_NON_PARQUET_TABLE" if is_folder else "MISSING_PROVIDER_FOR_CONVERT"
            raise context.refuse(
                f"CONVERT TO DELTA takes a folder of Parquet files, parquet.`/path`, and no name "
                f"of a catalog: {name_of(self.table)} isn't one (DELTA_{condition})."
            )
        target = TargetTable(spark=context.spark, location=self.table[1])
        partitions = None if self.partitions is None else to_arrow_schema(self.partitions)
        target.handle.convert(partitions, collect_statistics=self.statistics)
        return context.nothing()


def parse_optimize(words: Words) -> Optimize:
    """Behind `OPTIMIZE`."""
    table = words.table()
    full = words.take("FULL")
    where = None
    if words.take("WHERE"):
        where = words.until(lambda: words.begin_with("ZORDER", "BY"), what="a condition")
    zorder: tuple[tuple[str, ...], ...] = ()
    if words.take("ZORDER", "BY"):
        if words.begin_with("("):
            zorder = words.columns()
        else:
            found = [words.column()]
            while words.take(","):
                found.append(words.column())
            zorder = tuple(found)
    words.end()
    return Optimize(
        table=table, full=full, where=where, zorder=tuple(".".join(path) for path in zorder)
    )


def parse_reorg(words: Words) -> Reorg:
    """Behind `REORG`."""
    words.expect("TABLE")
    table = words.table()
    where = words.until_words("APPLY", what="a condition") if words.take("WHERE") else None
    words.expect("APPLY", "(")
    if words.begin_with("UPGRADE"):
        raise words.error("PURGE (UniForm isn't supported)")
    words.expect("PURGE", ")")
    words.end()
    return Reorg(table=table, where=where)


def parse_restore(words: Words) -> Restore:
    """Behind `RESTORE`."""
    words.take("TABLE")
    table = words.table()
    words.take("TO")
    words.take("FOR")
    version = timestamp = None
    if words.take("VERSION|SYSTEM_VERSION", "AS", "OF"):
        version = words.integer("the number of a version")
    elif words.take("TIMESTAMP|SYSTEM_TIME", "AS", "OF"):
        timestamp = words.string("a time")
    else:
        raise words.error("VERSION AS OF a number or TIMESTAMP AS OF a time")
    words.end()
    return Restore(table=table, version=version, timestamp=timestamp)


def parse_generate(words: Words) -> Generate:
    """Behind `GENERATE`."""
    mode = words.name("symlink_format_manifest")
    words.expect("FOR", "TABLE")
    table = words.table()
    words.end()
    return Generate(table=table, mode=mode)


def parse_convert(words: Words) -> Convert:
    """Behind `CONVERT`."""
    words.expect("TO", "DELTA")
    table = words.table()
    statistics = not words.take("NO", "STATISTICS")
    partitions = None
    if words.take("PARTITIONED", "BY"):
        fields = words.several(lambda: column_definition(words).field)
        partitions = StructType(fields)
    words.end()
    return Convert(table=table, statistics=statistics, partitions=partitions)
