"""Writes of a DataFrame to a table: planned and committed in the driver, written on executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import functions

from bayou.engines import for_path, from_description
from bayou.errors import (
    ArgumentError,
    CommitConflictError,
    SchemaError,
    VersionNotFoundError,
)
from bayou.kernel import Engine, Operation, Predicate, Table
from bayou.kernel.commands.write import TableWrite, WriteMode
from bayou.kernel.commands.write.plan import latest_or_none
from bayou.kernel.expressions.literals import normalize_time_zone
from bayou.kernel.transaction.schema_evolution import widened_type, widening_rule
from bayou.protocol.column_metadata import is_filled_by_writers
from bayou.protocol.properties import TableProperties
from bayou.protocol.schema import StructField, StructType
from bayou.protocol.sql import quote_identifier
from bayou.protocol.type_widening import WideningRule
from bayou.spark.errors import as_bayou_error
from bayou.spark.executors.engine import SessionEngine
from bayou.spark.expressions.store_assignment import (
    CastFunction,
    assignment_cast,
    check_assignment,
    check_null_structs,
    store_assignment_policy,
)
from bayou.spark.hooks.hooks import plain_save
from bayou.spark.session.connection import is_classic
from bayou.spark.session.settings import conf_flag
from bayou.spark.session.transaction_identifier import reset_transaction_version
from bayou.spark.types import as_nullable, from_spark, same_type, to_spark
from bayou.spark.write.map_in_arrow import write_frame
from bayou.spark.write.native_write import prepare_native_write
from bayou.spark.write.options import WriteOptions
from bayou.spark.write.self_reads import is_scanned, predicates_read, version_read
from bayou.spark.write.started_write import StartedWrite, check_same_metadata, start_write
from bayou.spark.write.struct_casts import cast_structs, needs_cast

NestedMatch: TypeAlias = Literal["name", "position", "spark"]


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
    nested: NestedMatch = "name",
    requires_partition_columns: bool = False,
) -> int | None:
    """Write the rows of a DataFrame in one commit, and return the table's new version.

    Returns None if the table didn't exist and wasn't created. Under Spark Connect, the result is
    always None, because the data source commits the rows on the server. If the write uses the
    session's `txnVersion`, `reset_transaction_version` is called after the write.

    Args:
        match: how columns are matched with the columns of an existing table. With "name" and
            "position", values are cast as in an `INSERT`. With None, columns are matched by name,
            and must have the types of the table's columns.
        operation: the operation in the table's history.
        requires_partition_columns: whether the DataFrame must have all partition columns of an
            existing table. If False, missing partition columns get their default, or NULL. If
            `match` is None, the argument has no effect: all partition columns are required.
        nested: how the fields of structs are matched. "spark" is the rule of delta-spark's
            `INSERT`: if any column needs a cast, fields are matched by position, otherwise by
            name.
    """
    if match is not None and not (options.overwrite_schema and mode is WriteMode.OVERWRITE):
        frame = _cast_to_table(
            frame, options, match, nested, adds_partition_columns=not requires_partition_columns
        )
    if not is_classic(frame.sparkSession):
        options = replace(
            options,
            mode=mode,
            partition_by=partition_by,
            cluster_by=cluster_by,
            operation=operation,
            is_managed=is_managed,
        )
        _write_by_data_source(frame, options)
        return _finished(frame, options, None)
    schema = as_nullable(from_spark(frame.schema, table=options.path))
    write = options.table_write(
        schema,
        mode,
        operation=operation,
        is_managed=is_managed,
        partition_by=partition_by,
        cluster_by=cluster_by,
    )
    table = Table.for_path(_engine(options), options.path)
    builds_on = version_read(frame, table.path)
    if builds_on is not None and is_scanned(frame, table.path):
        write = replace(
            write,
            reads=_rows_read(frame, _engine(options), table, builds_on, write),
            time_zone=normalize_time_zone(options.time_zone),
        )
    elif builds_on is not None and not write.overwrites:
        write = replace(write, reads=(None,))
        builds_on = None  # cached rows; an append removes no rows
    started = start_write(options, write, builds_on=builds_on)
    if started.done:
        return _finished(frame, options, started.plan.read_version)
    try:
        messages, versions = _write(_rebalanced(frame, options, started), started)
    except Exception as error:
        task_error = as_bayou_error(error, table=started.plan.table)
        if task_error is None:
            raise
        raise task_error from None
    engine = SessionEngine(frame.sparkSession, from_description(started.engine))
    # The plan doesn't show the version of each read by the Python data source. The tasks of these
    # reads report the versions.
    versions |= frozenset(() if builds_on is None else (builds_on,))
    result = started.commit(messages, engine, rows_read_from=min(versions, default=None))
    return _finished(frame, options, result.version)


def _finished(frame: Any, options: WriteOptions, version: int | None) -> int | None:
    """Reset the session's `txnVersion` if the write has used it. Return the argument `version`."""
    if options.session_application:
        reset_transaction_version(frame.sparkSession, options.path)
    return version


def _write_by_data_source(frame: Any, options: WriteOptions) -> None:
    """Write the rows with the Python data source. This is used under Spark Connect."""
    if options.optimize_write:
        frame = frame.hint("rebalance", *map(quote_identifier, options.partition_by or ()))
    overwrites = options.mode is WriteMode.OVERWRITE
    writer = frame.write.format("delta").mode("overwrite" if overwrites else "append")
    writer.options(**options.to_options())
    try:
        plain_save(writer)
    except PySparkException as error:
        raised = as_bayou_error(error, table=options.path)
        if raised is None:
            raise
        raise raised from None


def _engine(options: WriteOptions) -> Engine:
    return for_path(options.path, options.storage)


def _rows_read(
    frame: Any, engine: Engine, table: Table, version: int, write: TableWrite
) -> tuple[Predicate | None, ...]:
    """Return predicates for the rows that a DataFrame reads from the target table.

    There is one predicate for each scan of the table; see `predicates_read`. The result is empty if
    the write replaces all rows, or if the table doesn't exist.

    Args:
        table: the target table of the write.
        version: the version of the target table that the DataFrame reads.

    Raises:
        CommitConflictError: the log no longer has this version. The error is also raised if the
            latest version has another schema or other properties; see `check_same_metadata`.
    """
    if write.overwrites and write.replace_where is None and not write.dynamic_partitions:
        return ()  # the commit depends on all rows, because it replaces them
    latest = latest_or_none(engine, table)
    if latest is None:
        return ()
    if version == latest.version:
        return predicates_read(frame, latest)
    try:
        read = table.snapshot_as_of_version(engine, version)
    except VersionNotFoundError as error:
        raise CommitConflictError(
            f"{table.path}: the rows were read from version {version} of the table, but the log no "
            "longer has this version. Load the table again, and repeat the write.",
            table=table.path,
            winning_version=latest.version,
        ) from error
    check_same_metadata(read, latest)
    return predicates_read(frame, read)


def _write(frame: Any, started: StartedWrite) -> tuple[list[bytes], frozenset[int]]:
    native = prepare_native_write(frame, started)
    if native is not None:
        return native.run(), frozenset()
    if not started.plan.generates_identity:
        return write_frame(frame, started)
    # Each of n tasks generates every n-th identity value, so there must be at most n tasks.
    tasks = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    return write_frame(frame.coalesce(tasks), started, tasks)


def _rebalanced(frame: Any, options: WriteOptions, started: StartedWrite) -> Any:
    """Repartition the rows by the table's partition columns, if optimized writes are enabled."""
    enabled = options.optimize_write
    if enabled is None:
        enabled = TableProperties(started.plan.properties).optimize_write
    if not enabled:
        return frame
    names = {name.lower(): name for name in frame.columns}
    columns = [names[c.lower()] for c in started.plan.partition_columns if c.lower() in names]
    quoted = [quote_identifier(name) for name in columns]
    return frame.hint("rebalance", *quoted)


def _cast_function(spark: Any) -> CastFunction:
    if is_classic(spark):
        return assignment_cast(store_assignment_policy(spark))
    if store_assignment_policy(spark) == "LEGACY":
        return lambda column, data_type: column.cast(data_type)
    if conf_flag(spark, "spark.sql.ansi.enabled", default=True):
        return lambda column, data_type: column.cast(data_type)
    raise ArgumentError(
        "spark.sql.ansi.enabled: the setting is false. Under Spark Connect, values that don't "
        "fit a column would become NULL. Set the setting to true, or cast the columns.",
        argument="spark.sql.ansi.enabled",
    )


def _cast_to_table(
    frame: Any,
    options: WriteOptions,
    match: str,
    nested: NestedMatch,
    *,
    adds_partition_columns: bool,
) -> Any:
    """Cast the columns of a DataFrame to the types of the table's columns.

    If `match` is "position", the columns also get the names of the table's columns. If the table
    doesn't exist, the DataFrame is returned unchanged.

    Args:
        match, nested: see `write_rows`.
        adds_partition_columns: whether missing partition columns are added to the DataFrame. Their
            values are NULL. Columns that writers compute, such as generated columns, aren't added.
    """
    engine = _engine(options)
    table = Table.for_path(engine, options.path)
    if not table.exists(engine):
        return frame
    snapshot = table.latest_snapshot(engine)
    schema = snapshot.schema
    rows = from_spark(frame.schema, table=options.path)
    if match == "position":
        check_number_of_columns(
            options.path, schema.names, rows.names, merge_schema=options.merge_schema
        )
        frame = frame.toDF(*schema.names, *rows.names[len(schema) :])
        rows = from_spark(frame.schema, table=options.path)
    rule = widening_rule(snapshot.properties, options.automatic_widening)
    if rule is not None and options.merge_schema:
        schema = StructType(tuple(_widened_field(field, rows, rule) for field in schema))
    table_fields = {field.name.lower(): field for field in schema}
    spark = frame.sparkSession
    cast, policy = _cast_function(spark), store_assignment_policy(spark)
    casts = any(
        needs_cast(field.data_type, known.data_type)
        for field in rows
        if (known := table_fields.get(field.name.lower())) is not None
    )
    if casts:
        check_null_structs(spark, schema, operation="insert", table=options.path)
    columns = []
    for field in rows:
        key = field.name.lower()
        column = functions.col(quote_identifier(field.name))
        table_field = table_fields.get(key)
        if table_field is not None and not same_type(table_field.data_type, field.data_type):
            name, data_type = table_field.name, table_field.data_type
            check_assignment(policy, field.data_type, data_type, column=name, table=options.path)
            column = cast_structs(
                column,
                field.data_type,
                table_field,
                cast,
                by_name=nested == "name" or (nested == "spark" and not casts),
                allow_missing=nested == "name",
                table=options.path,
            ).alias(table_field.name)
        columns.append(column)
    if adds_partition_columns:
        written = {name.lower() for name in rows.names}
        partitions = snapshot.schema.select(snapshot.partition_columns)
        absent = [f for f in partitions if f.name.lower() not in written]
        added = StructType(tuple(f for f in absent if not is_filled_by_writers(f)))
        for column_type in to_spark(added).fields:
            null = functions.lit(None).cast(column_type.dataType)
            columns.append(null.alias(column_type.name))
    return frame.select(*columns)


def check_number_of_columns(
    path: str, table_columns: Sequence[str], row_columns: Sequence[str], *, merge_schema: bool
) -> None:
    """Raise `SchemaError` if rows don't have as many columns as the table.

    Args:
        merge_schema: whether the rows can have more columns than the table.
    """
    count, expected = len(row_columns), len(table_columns)
    missing = count < expected
    if missing or (count > expected and not merge_schema):
        condition = "DELTA_INSERT_COLUMN_ARITY_MISMATCH" if missing else "DELTA_METADATA_MISMATCH"
        reason = "not enough data columns; " if missing else ""
        raise SchemaError(
            f"{path}: {reason}the table has {expected} columns ({', '.join(table_columns)}), but "
            f"the rows have {count} ({', '.join(row_columns)}) ({condition}). insertInto matches "
            "columns by position. Write exactly the table's columns. To add columns, set the "
            "option mergeSchema.",
            table=path,
        )


def _widened_field(field: StructField, rows: StructType, rule: WideningRule) -> StructField:
    """Return a column of the table with its type after the write; see `widened_type`.

    Args:
        field: the column before the write.
        rows: the schema of the written rows.
        rule: the type changes that are allowed.
    """
    other = rows.get(field.name)
    if other is None:
        return field
    return field.with_data_type(widened_type(field.data_type, other.data_type, rule))
