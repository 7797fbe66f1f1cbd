"""Writes of a DataFrame to a table: planned and committed in the driver, written on executors."""

from __future__ import annotations

from typing import Any, Literal

from pyspark.sql import functions

from bayou.engines import for_path, from_description
from bayou.errors import SchemaError
from bayou.kernel import Engine, Operation, Table
from bayou.kernel.commands.write import WriteMode
from bayou.protocol.identifiers import quote_identifier
from bayou.protocol.properties import TableProperties
from bayou.spark.errors import as_bayou_error
from bayou.spark.executors.engine import SessionEngine
from bayou.spark.types import as_nullable, from_spark, same_type, to_spark
from bayou.spark.write.executors import write_frame
from bayou.spark.write.options import WriteOptions
from bayou.spark.write.own_rows import version_read
from bayou.spark.write.started_write import StartedWrite, start_write

__all__ = ["write_rows"]


def write_rows(  # noqa: PLR0917  # the arguments of Spark's writer
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
        mode: effect on existing rows.
        match: how columns are matched with those of an existing table: by name or by position, with
            the casts of `INSERT`. None matches by name and requires equal types.
        operation: the operation in the table history.
        is_managed: see `TableWrite`.

    Returns:
        The table's version after the write; None if the table still doesn't exist.

    Raises:
        BayouError: the write isn't possible, a row violates a constraint, or the commit failed.
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
    started = start_write(options, write, builds_on=builds_on)
    if started.done:
        return started.plan.read_version
    try:
        messages = _write(_rebalanced(frame, options, started), started)
    except Exception as error:
        task_error = as_bayou_error(error, table=started.plan.table)
        if task_error is None:
            raise
        raise task_error from None
    engine = SessionEngine(frame.sparkSession, from_description(started.engine))
    return started.commit(messages, engine)


def _engine(options: WriteOptions) -> Engine:
    return for_path(options.path, options.storage)


def _write(frame: Any, started: StartedWrite) -> list[bytes]:
    if not started.plan.generates_identity:
        return write_frame(frame, started)
    # Each of n tasks generates every n-th identity value, so there must be at most n tasks.
    tasks = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    return write_frame(frame.coalesce(tasks), started, tasks)


def _rebalanced(frame: Any, options: WriteOptions, started: StartedWrite) -> Any:
    """The rows, rebalanced by partition if optimized writes are enabled."""
    enabled = options.optimize_write
    if enabled is None:
        enabled = TableProperties(started.plan.properties).optimize_write
    if not enabled:
        return frame
    names = {name.lower(): name for name in frame.columns}
    columns = [names[c.lower()] for c in started.plan.partition_columns if c.lower() in names]
    quoted = [quote_identifier(name) for name in columns]
    return frame.hint("rebalance", *quoted)


def _cast_to_table(frame: Any, options: WriteOptions, match: str) -> Any:
    """The rows with the column names and types of the table, if it exists."""
    engine = _engine(options)
    table = Table.for_path(engine, options.path)
    if not table.exists(engine):
        return frame
    schema = table.latest_snapshot(engine).schema
    rows = from_spark(frame.schema, table=options.path)
    if match == "position":
        if len(rows) != len(schema):
            raise SchemaError(
                f"{options.path}: the table has {len(schema)} columns ({', '.join(schema.names)}), "
                f"but the rows have {len(rows)} ({', '.join(rows.names)}). insertInto matches "
                "columns by position: provide all of them.",
                table=options.path,
            )
        frame = frame.toDF(*schema.names)
        rows = from_spark(frame.schema, table=options.path)
    table_fields = {field.name.lower(): field for field in schema}
    spark_types = {f.name.lower(): f.dataType for f in to_spark(schema).fields}
    columns = []
    for field in rows:
        key = field.name.lower()
        column = functions.col(quote_identifier(field.name))
        table_field = table_fields.get(key)
        if table_field is not None and not same_type(table_field.data_type, field.data_type):
            column = column.cast(spark_types[key]).alias(table_field.name)
        columns.append(column)
    return frame.select(*columns)
