"""`df.write` and `df.writeStream` for Delta, after `bayou.spark.enable`."""

from __future__ import annotations

from typing import Any

from bayou.errors import ArgumentError, TableAlreadyExistsError
from bayou.kernel import Operation
from bayou.kernel.commands.write import WriteMode
from bayou.spark.catalog_tables import NamedTable, named_table
from bayou.spark.hooks.requests import StreamWriteRequest, WriteRequest
from bayou.spark.write.dataframes import write_rows
from bayou.spark.write.options import WriteOptions, with_session_defaults

__all__ = ["save", "start"]

_MODES = {
    "append": WriteMode.APPEND,
    "overwrite": WriteMode.OVERWRITE,
    "error": WriteMode.ERROR,
    "ignore": WriteMode.IGNORE,
}


def save(request: WriteRequest) -> Any:
    """`DataFrameWriter.save`, `saveAsTable` and `insertInto`.

    Raises:
        BayouError: the write can't be, or its rows break a rule of the table.
    """
    if request.connect:
        return _by_data_source(request)
    if request.bucket_columns is not None or request.sort_columns is not None:
        raise ArgumentError(
            "Delta tables have no buckets: use clusterBy or partitionBy in place of bucketBy and "
            "sortBy.",
            argument="bucketBy",
        )
    table = None
    path = request.path
    if request.table is not None:
        table = named_table(request.spark, request.table)
        if table is None or (request.method == "insertInto" and not table.exists):
            return NotImplemented
        path = table.path if table.exists else path or table.path
    given = with_session_defaults(request.spark, path, {**request.options, "path": path or ""})
    options = WriteOptions.parse(given)
    if table is None:
        write_rows(request.df, options, _MODES[request.mode], _by(request), _clustering(request))
        return None
    _into_named_table(request, table, options)
    return None


def start(request: StreamWriteRequest) -> Any:
    """`DataStreamWriter.start` and `toTable`: what the sink can't be told otherwise.

    Raises:
        ArgumentError: a name that stands for no Delta table, or output mode `update`.
    """
    writer = request.writer
    if request.output_mode == "update":
        raise ArgumentError(
            "A Delta table takes no stream in output mode 'update': use 'append' or 'complete', or "
            "foreachBatch with a merge.",
            argument="outputMode",
        )
    _hand_over_defaults(request)
    if request.partition_columns:
        writer.option("bayou.partitionBy", "\n".join(request.partition_columns))
    if request.table is None:
        return NotImplemented
    if request.connect:
        raise _named_under_connect("toTable")
    table = named_table(request.spark, request.table)
    if table is None or not table.exists:
        raise ArgumentError(
            f"There is no Delta table {request.table} in the session's catalog to stream into. "
            f"Make it first (df.limit(0).write.format('delta').saveAsTable('{request.table}')), or "
            "give a path: start(path).",
            argument="tableName",
        )
    return writer.start(table.path)


def _into_named_table(request: WriteRequest, table: NamedTable, options: WriteOptions) -> None:
    """A table of the session's catalog; one that isn't there is made, and registered last."""
    if request.method == "insertInto":
        if request.partition_columns:
            raise ArgumentError(
                "insertInto takes no partitionBy: the table has its partition columns already.",
                argument="partitionBy",
            )
        mode = WriteMode.OVERWRITE if request.mode == "overwrite" else WriteMode.APPEND
        write_rows(request.df, options, mode, None, None, match="position")
        return
    mode = _MODES[request.mode]
    if table.exists and mode is WriteMode.ERROR:
        raise TableAlreadyExistsError(
            f"There is a table {request.table} already, at {table.path}. Use mode 'append' or "
            "'overwrite', or another name.",
            table=table.path,
        )
    if table.exists and mode is WriteMode.IGNORE:
        return
    partitioning, clustering = _by(request), _clustering(request)
    managed = request.path is None
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
    if not table.exists:
        table.register(request.spark, options.path)


def _by_data_source(request: WriteRequest) -> Any:
    """Spark Connect: the data source, and a clear word on what it can't be asked."""
    if request.method == "insertInto":
        return NotImplemented  # of any format: what it is the server knows
    if request.method == "saveAsTable":
        raise _named_under_connect("saveAsTable")
    asked = None
    if request.mode in ("error", "ignore"):
        asked = f"mode {request.mode!r}" + (", the default" if request.mode == "error" else "")
    elif request.partition_columns:
        asked = "partitionBy"
    elif request.clustering_columns:
        asked = "clusterBy"
    if asked is None:
        _hand_over_defaults(request)
        return NotImplemented
    raise ArgumentError(
        f"Under Spark Connect a Delta table is written by a data source, which can't be asked for "
        f"{asked}. Use mode 'append' or 'overwrite'; a partitioned table is made by bayou.write, "
        "or by a classic session after bayou.spark.enable, and can be appended to then.",
        argument="mode" if asked.startswith("mode") else asked,
    )


def _named_under_connect(method: str) -> ArgumentError:
    return ArgumentError(
        "Under Spark Connect the place of a table of the session's catalog can't be seen, and "
        f"Spark gives a data source no path for {method}. Write to the table's path: "
        + ("start(path)." if method == "toTable" else "save(path)."),
        argument=method,
    )


def _hand_over_defaults(request: WriteRequest | StreamWriteRequest) -> None:
    """Set on Spark's writer what its conf says and a data source can't see."""
    for name, value in with_session_defaults(request.spark, request.path, request.options).items():
        if name not in request.options:
            request.writer.option(name, value)


def _by(request: WriteRequest) -> tuple[str, ...] | None:
    return request.partition_columns or None


def _clustering(request: WriteRequest) -> tuple[str, ...] | None:
    return request.clustering_columns or None
