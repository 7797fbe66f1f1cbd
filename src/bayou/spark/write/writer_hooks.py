"""Handlers of `df.write` and `df.writeStream` for the format `delta`."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException

from bayou.errors import ArgumentError, TableAlreadyExistsError
from bayou.kernel import Operation, Table
from bayou.kernel.commands.write import WriteMode
from bayou.spark.catalog_tables import NamedTable, named_table
from bayou.spark.hooks.requests import StreamWriteRequest, WriteRequest
from bayou.spark.jvm.objects import JvmError
from bayou.spark.jvm.plans import relation_options
from bayou.spark.session.hadoop_storage import session_engine
from bayou.spark.session.read_version_options import LOADED_VERSION
from bayou.spark.write.dataframes import write_rows
from bayou.spark.write.options import WriteOptions, with_session_defaults
from bayou.spark.write.self_reads import version_read

_MODES = {
    "append": WriteMode.APPEND,
    "overwrite": WriteMode.OVERWRITE,
    "error": WriteMode.ERROR,
    "ignore": WriteMode.IGNORE,
}


def save(request: WriteRequest) -> Any:
    """Handler of the hook `save`: `DataFrameWriter.save`, `saveAsTable` and `insertInto`.

    A writer without `format("delta")` can write to an existing Delta table with `insertInto`, and
    with `saveAsTable` in the mode `append`.
    """
    other_format = request.format != "delta" and request.method == "saveAsTable"
    if other_format and (request.mode != "append" or not _is_delta_table(request)):
        return NotImplemented
    if request.bucket_columns is not None or request.sort_columns is not None:
        raise ArgumentError(
            "bucketBy: Delta tables have no buckets. Use clusterBy or partitionBy instead of "
            "bucketBy and sortBy.",
            argument="bucketBy",
        )
    table = None
    path = request.path
    if request.table is not None:
        table = _target(request, request.table)
        if table is None and request.method == "saveAsTable" and request.mode == "overwrite":
            _check_replaceable(request.spark, request.table)
        if table is None or (request.method == "insertInto" and not table.exists):
            return NotImplemented
        if request.method == "saveAsTable" and request.mode == "overwrite":
            table.check_location(path)
        path = table.path if table.exists or table.is_path else path or table.path
    options = WriteOptions.parse(
        with_session_defaults(request.spark, path, {**request.options, "path": path or ""})
    )
    if table is None:
        mode, partitioning = _MODES[request.mode], _partitioning(request)
        write_rows(request.df, options, mode, partitioning, _clustering(request))
        return None
    _save_to_named_table(request, table, options)
    return None


def _target(request: WriteRequest, name: str) -> NamedTable | None:
    """Return the `NamedTable` for the name in a write; None if Spark must handle the write.

    For a path name, `exists` is whether the path has a table.
    """
    table = named_table(request.spark, name, behind_views=ignores_views(request))
    if table is None or not table.is_path:
        return table
    engine = session_engine(request.spark, table.path, request.options)
    return replace(table, exists=Table.for_path(engine, table.path).exists(engine))


def start(request: StreamWriteRequest) -> Any:
    """Handler of the hook `stream_start`: `DataStreamWriter.start` and `toTable`.

    The handler adds the session's settings to the options of the sink. Spark then starts the query.
    """
    writer = request.writer
    if request.format != "delta":
        if not _is_delta_table(request):
            return NotImplemented
        writer.format("delta")
    if request.output_mode == "update":
        raise ArgumentError(
            "outputMode: Delta tables don't support the output mode 'update'. Use 'append' or "
            "'complete', or foreachBatch with a merge.",
            argument="outputMode",
        )
    _set_session_defaults(request)
    if request.partition_columns:
        writer.option("bayou.partitionBy", "\n".join(request.partition_columns))
    if request.table is None:
        if request.path is not None:
            _check_static_reads(request, request.path)
        return NotImplemented
    table = named_table(request.spark, request.table)
    if table is None or not table.exists:
        raise ArgumentError(
            f"{request.table}: there is no Delta table of this name in the session's catalog. "
            "Create it first "
            f"(df.limit(0).write.format('delta').saveAsTable('{request.table}')), or give a path: "
            "start(path).",
            argument="tableName",
        )
    _check_static_reads(request, table.path)
    return writer.start(table.path)


def _check_static_reads(request: StreamWriteRequest, path: str) -> None:
    """Raise `ArgumentError` if a streaming query joins the stream with the table that it writes.

    The commit of a micro-batch doesn't know which version of the table the join has read, and can't
    detect conflicts with later commits. Under Spark Connect, nothing is checked.

    Args:
        path: the path of the table that the query writes.
    """
    if request.connect:
        return
    try:
        if not any(relation_options(request.df, LOADED_VERSION)):
            return
        table = Table.for_path(session_engine(request.spark, path, request.options), path).path
        is_read = version_read(request.df, table) is not None
    except JvmError:  # a Spark version with other plans
        return
    if is_read:
        raise ArgumentError(
            f"{table}: the streaming query writes to this table, and joins the stream with "
            "its rows. The query would not notice rows that other commits add while a micro-batch "
            "runs. Use foreachBatch, and load the table inside the function.",
            argument="path",
        )


def _check_replaceable(spark: Any, name: str) -> None:
    """Raise `ArgumentError` if `name` is the name of a view or of a table of another format."""
    exists = False
    with contextlib.suppress(PySparkException):  # for such a name, Spark raises an error
        exists = spark.catalog.tableExists(name)
    if exists:
        raise ArgumentError(
            f"{name}: a view or a table of another format has this name, and saveAsTable can't "
            "replace it by a Delta table. Drop it first, or use another name.",
            argument="name",
        )


def ignores_views(request: WriteRequest) -> bool:
    """Whether a write ignores a temporary view that has the name of the target table.

    As in delta-spark, `insertInto` without `format("delta")` doesn't ignore the view. All other
    writes ignore it.
    """
    return request.method == "saveAsTable" or request.format == "delta"


def _is_delta_table(request: WriteRequest | StreamWriteRequest) -> bool:
    assert request.table is not None  # only methods with a table name are called for other formats
    behind_views = isinstance(request, WriteRequest)
    table = named_table(request.spark, request.table, behind_views=behind_views)
    return table is not None and table.exists and not table.is_path


def _save_to_named_table(request: WriteRequest, table: NamedTable, options: WriteOptions) -> None:
    """Write to a table by name. If the table is new, add it to the session's catalog."""
    if request.method == "insertInto":
        if request.partition_columns:
            raise ArgumentError(
                "partitionBy: insertInto uses the table's partition columns. Remove partitionBy.",
                argument="partitionBy",
            )
        mode = WriteMode.OVERWRITE if request.mode == "overwrite" else WriteMode.APPEND
        write_rows(request.df, options, mode, None, None, match="position", nested="spark")
        return
    mode = _MODES[request.mode]
    if table.exists and mode is WriteMode.ERROR:
        raise TableAlreadyExistsError(
            f"{request.table}: the table already exists, at {table.path} "
            "(TABLE_OR_VIEW_ALREADY_EXISTS). Use mode 'append' or 'overwrite', or another name.",
            table=table.path,
        )
    if table.exists and mode is WriteMode.IGNORE:
        return
    partitioning, clustering = _partitioning(request), _clustering(request)
    managed = request.path is None and not table.is_path
    operation = Operation.WRITE
    if not table.exists:
        operation = Operation.CREATE_TABLE_AS_SELECT
    elif mode is WriteMode.OVERWRITE and not table.is_path:
        operation = Operation.CREATE_OR_REPLACE_TABLE_AS_SELECT
    write_rows(
        request.df,
        options,
        mode,
        partitioning,
        clustering,
        "name" if table.exists else None,
        operation,
        is_managed=managed,
    )
    if not (table.exists or table.is_path):
        table.register(request.spark, options.path)


def _set_session_defaults(request: StreamWriteRequest) -> None:
    """Add the session's settings to the options that the writer passes to the data source."""
    options = with_session_defaults(request.spark, request.path, request.options, transaction=False)
    for name, value in options.items():
        if name not in request.options:
            request.writer.option(name, value)


def _partitioning(request: WriteRequest) -> tuple[str, ...] | None:
    return request.partition_columns or None


def _clustering(request: WriteRequest) -> tuple[str, ...] | None:
    return request.clustering_columns or None
