"""A DataFrame into a table: planned here, written on executors, committed here."""

from __future__ import annotations

from typing import Any, Literal

from pyspark.sql import functions

from bayou.engines import for_path, from_description
from bayou.errors import SchemaError
from bayou.kernel import Engine, Operation, Table
from bayou.kernel.commands.write import WriteMode
from bayou.protocol.properties import TableProperties
from bayou.spark.errors import as_bayou_error
from bayou.spark.executors.engine import SessionEngine
from bayou.spark.types import as_nullable, from_spark, same_type, to_spark
from bayou.spark.write.executors import write_frame
from bayou.spark.write.options import WriteOptions
from bayou.spark.write.own_rows import version_read
from bayou.spark.write.started_write import BegunWrite, begin

__all__ = ["write_rows"]


def write_rows(  # noqa: PLR0917  # what a writer was asked for
    frame: Any,
    options: WriteOptions,
    mode: WriteMode,
    partition_by: tuple[str, ...] | None,
    cluster_by: tuple[str, ...] | None,
    match: Literal["name", "position"] | None = None,
    operation: Operation = Operation.WRITE,
    *,
    is_managed: bool = False,
) -> int | None:
    """Write a DataFrame's rows in one commit.

    Args:
        frame: a classic `DataFrame`.
        mode: what happens to the rows that are there.
        match: how columns go to those of a table that is there: by name or by position, cast to its
            types as `INSERT` casts. None: by name, and types must be equal, as for a path.
        operation: what the history says.
        is_managed: see `TableWrite`.

    Returns:
        The table's version afterwards, None where there still is no table.

    Raises:
        BayouError: the write can't be, its rows break a rule of the table, or the commit failed.
    """
    if match is not None and not (options.overwrite_schema and mode is WriteMode.OVERWRITE):
        frame = _cast_to_table(frame, options, match)
    schema = as_nullable(from_spark(frame.schema, table=options.path))
    write = options.table_write(
        schema,
        mode,
        operation=operation,
        is_managed=is_managed,
        partition_by=partition_by,
        cluster_by=cluster_by,
    )
    builds_on = None
    if write.overwrites:
        builds_on = version_read(frame, Table.for_path(_engine(options), options.path).path)
    begun = begin(options, write, builds_on=builds_on)
    if begun.done:
        return begun.plan.read_version
    try:
        messages = _write(_laid_out(frame, options, begun), begun)
    except Exception as error:
        ours = as_bayou_error(error, table=begun.plan.table)
        if ours is None:
            raise
        raise ours from None
    engine = SessionEngine(frame.sparkSession, from_description(begun.engine))
    return begun.commit(messages, engine)


def _engine(options: WriteOptions) -> Engine:
    return for_path(options.path, options.storage)


def _write(frame: Any, begun: BegunWrite) -> list[bytes]:
    if not begun.plan.generates_identity:
        return write_frame(frame, begun)
    # Each task gives out every n-th value, so that there mustn't be more than n.
    tasks = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    return write_frame(frame.coalesce(tasks), begun, tasks)


def _laid_out(frame: Any, options: WriteOptions, begun: BegunWrite) -> Any:
    """The rows as tasks get them: brought together by partition where that is asked for."""
    wanted = options.optimize_write
    if wanted is None:
        wanted = TableProperties(begun.plan.properties).optimize_write
    if not wanted:
        return frame
    names = {name.lower(): name for name in frame.columns}
    columns = [names[c.lower()] for c in begun.plan.partition_columns if c.lower() in names]
    quoted = ["`" + name.replace("`", "``") + "`" for name in columns]
    return frame.hint("rebalance", *quoted)


def _cast_to_table(frame: Any, options: WriteOptions, match: str) -> Any:
    """The rows with the table's names and types, where there is a table."""
    engine = _engine(options)
    table = Table.for_path(engine, options.path)
    if not table.exists(engine):
        return frame
    schema = table.latest_snapshot(engine).schema
    rows = from_spark(frame.schema, table=options.path)
    if match == "position":
        if len(rows) != len(schema):
            raise SchemaError(
                f"{options.path} has {len(schema)} columns ({', '.join(schema.names)}), the rows "
                f"have {len(rows)} ({', '.join(rows.names)}): insertInto takes columns by their "
                "position, all of them.",
                table=options.path,
            )
        frame = frame.toDF(*schema.names)
        rows = from_spark(frame.schema, table=options.path)
    wanted = {field.name.lower(): field for field in schema}
    spark_types = {f.name.lower(): f.dataType for f in to_spark(schema).fields}
    columns = []
    for field in rows:
        key = field.name.lower()
        column = functions.col("`" + field.name.replace("`", "``") + "`")
        if key in wanted and not same_type(wanted[key].data_type, field.data_type):
            column = column.cast(spark_types[key]).alias(wanted[key].name)
        columns.append(column)
    return frame.select(*columns)
