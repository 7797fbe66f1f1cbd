"""Requests: each describes one call of a hooked PySpark method for the hook's handlers.

The request for a reader or writer contains the settings of the reader or writer, such as format and
options. Classic readers and writers store their settings in private fields in the JVM. Connect
readers and writers store their settings in private attributes in Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from bayou.spark.jvm.readers_writers import (
    ReaderState,
    WriterState,
    reader_state,
    restored_options,
    stream_writer_state,
    writer_state,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A call of `DataFrameReader.load` or `DataStreamReader.load`.

    Attributes:
        reader: Spark's reader. Options that a handler sets on the reader apply only to this call.
        format: the format, in lower case.
        paths: the argument of `load`, or the option `path` if `load` has no argument. Empty if
            neither is set.
        options: the options in the user's spelling, without `path`. If names differ only in case,
            the last one is used.
        proceed: function that calls Spark's own method.
    """

    spark: Any
    reader: Any
    connect: bool
    streaming: bool
    format: str
    paths: tuple[str, ...]
    options: Mapping[str, str] = field(repr=False)
    schema: StructType | None
    proceed: Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRequest:
    """A call of `SparkSession.sql`.

    Attributes:
        frames: the values of `{name}` placeholders in the SQL, such as DataFrames.
    """

    spark: Any
    text: str
    args: Any
    frames: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest:
    """The result of a call of `SparkSession.sql`. A handler can replace the result."""

    spark: Any
    text: str
    frame: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRequest:
    """A call of `DataFrame.count`."""

    spark: Any
    frame: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReadRequest:
    """A call of `table` on a session, on `session.read` or on `session.readStream`.

    `reader` is None for a call on the session.
    """

    spark: Any
    reader: Any
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTableRequest:
    """A call of `Catalog.createTable`.

    Attributes:
        format: the format, in lower case. If none was set, the session's default format.
        path: the argument or the option `path`; None if neither is set.
        schema: None if the call has no schema.
        options: the options in the user's spelling, without `path`.
    """

    spark: Any
    table: str
    format: str
    path: str | None
    schema: Any
    description: str | None
    options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """A call of `DataFrameWriter.save`, `.saveAsTable` or `.insertInto`.

    The columns of `partitionBy`, `clusterBy`, `bucketBy` and `sortBy` are None if not set.

    Attributes:
        format: the format, in lower case. If none was set, the session's default format.
        path: the argument of `save`, or the option `path` if `save` has no argument. None if
            neither is set.
        table: the table name; None for `save`.
        options: the options in the user's spelling, without `path`.
        mode: `append`, `overwrite`, `error` (the default) or `ignore`.
        proceed: function that calls Spark's own method.
    """

    spark: Any
    writer: Any
    df: Any
    connect: bool
    method: str
    format: str
    path: str | None
    table: str | None
    options: Mapping[str, str] = field(repr=False)
    mode: str
    partition_columns: tuple[str, ...] | None
    clustering_columns: tuple[str, ...] | None
    bucket_columns: tuple[str, ...] | None
    sort_columns: tuple[str, ...] | None
    proceed: Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteToRequest:
    """The last call of a `DataFrame.writeTo` chain.

    Attributes:
        method: `create`, `replace`, `createOrReplace`, `append`, `overwrite` or
            `overwritePartitions`.
        provider: the argument of `using`, in lower case; None if `using` wasn't called.
        options, properties: the arguments of `option` and of `tableProperty`, in the user's
            spelling.
        partitioned_by: the arguments of `partitionedBy`: Columns or column names.
        condition: the argument of `overwrite`: a Column or a column name.
    """

    spark: Any
    df: Any
    connect: bool
    method: str
    table: str
    provider: str | None
    options: Mapping[str, str] = field(repr=False)
    properties: Mapping[str, str]
    partitioned_by: tuple[Any, ...]
    cluster_by: tuple[str, ...]
    condition: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWriteRequest:
    """A call of `DataStreamWriter.start` or `.toTable`.

    The request doesn't contain the writer's trigger and query name. The columns of `partitionBy`
    and `clusterBy` are None if not set.

    Attributes:
        writer: Spark's writer. Options that a handler sets on the writer apply only to this call.
        df: the streaming DataFrame; None with Connect.
        format: the format, in lower case; `foreachbatch` if `foreachBatch` was called.
        path: the argument of `start`, or the option `path` if `start` has no argument. None if
            neither is set, and for `toTable`.
        table: the table name; None for `start`.
        options: the options in the user's spelling, without `path`.
        output_mode: `append`, `complete` or `update`.
        proceed: function that calls Spark's own method.
    """

    spark: Any
    writer: Any
    df: Any
    connect: bool
    method: str
    format: str
    path: str | None
    table: str | None
    options: Mapping[str, str] = field(repr=False)
    output_mode: str
    partition_columns: tuple[str, ...] | None
    clustering_columns: tuple[str, ...] | None
    proceed: Callable[[], Any]


def read_request(
    reader: Any,
    path: str | list[str] | None,
    *,
    spark: Any,
    streaming: bool,
    proceed: Callable[[], Any],
) -> ReadRequest:
    """Create the request for a call of `load(path)`.

    The caller has set all arguments of `load` except `path` on the reader.
    """
    connect = not isinstance(spark, SparkSession)
    state = _connect_reader_state(reader) if connect else reader_state(reader)
    return ReadRequest(
        spark=spark,
        reader=reader,
        connect=connect,
        streaming=streaming,
        format=_format(spark, state.source),
        paths=_paths(path, state.options),
        options=_without_path(state.options),
        schema=state.schema,
        proceed=proceed,
    )


def create_table_request(  # noqa: PLR0917  # the order of Spark's parameters
    spark: Any,
    table: str,
    path: str | None,
    source: str | None,
    schema: Any,
    description: str | None,
    options: Mapping[str, str],
) -> CreateTableRequest:
    """Create the request for a call of `createTable`."""
    return CreateTableRequest(
        spark=spark,
        table=table,
        format=_format(spark, source),
        path=next(iter(_paths(path, options)), None),
        schema=schema,
        description=description,
        options=_without_path(options),
    )


def write_request(
    writer: Any,
    method: str,
    target: str | None,
    *,
    proceed: Callable[[], Any],
) -> WriteRequest:
    """Create the request for a call of a writer's method.

    The caller has set all arguments of the method except `target` on the writer.

    Args:
        target: the path if the method is `save`, otherwise the table name.
    """
    spark, df, by_path = writer._spark, writer._df, method == "save"  # noqa: SLF001
    connect = not isinstance(spark, SparkSession)
    if connect:
        from pyspark.sql.connect.dataframe import DataFrame

        df, state = DataFrame(df, spark), _connect_writer_state(writer)
    else:
        state = writer_state(writer)
    return WriteRequest(
        spark=spark,
        writer=writer,
        df=df,
        connect=connect,
        method=method,
        format=_format(spark, state.source),
        path=next(iter(_paths(target if by_path else None, state.options)), None),
        table=None if by_path else target,
        options=_without_path(state.options),
        mode=_MODES.get(state.mode.lower(), state.mode.lower()),
        partition_columns=state.partition_columns,
        clustering_columns=state.clustering_columns,
        bucket_columns=state.bucket_columns,
        sort_columns=state.sort_columns,
        proceed=proceed,
    )


def stream_write_request(
    writer: Any,
    method: str,
    target: str | None,
    *,
    spark: Any,
    proceed: Callable[[], Any],
) -> StreamWriteRequest:
    """Create the request for a call of a stream writer's method.

    The caller has set all arguments of the method except `target` on the writer.

    Args:
        target: the path if the method is `start`; the table name if the method is `toTable`.
    """
    by_path, connect = method == "start", not isinstance(spark, SparkSession)
    state = _connect_stream_writer_state(writer) if connect else stream_writer_state(writer)
    return StreamWriteRequest(
        spark=spark,
        writer=writer,
        df=None if connect else writer._df,  # noqa: SLF001  # no public API
        connect=connect,
        method=method,
        format=_format(spark, state.source),
        path=next(iter(_paths(target, state.options)), None) if by_path else None,
        table=None if by_path else target,
        options=_without_path(state.options),
        output_mode=state.mode.lower(),
        partition_columns=state.partition_columns,
        clustering_columns=state.clustering_columns,
        proceed=proceed,
    )


@contextmanager
def restored_request_options(
    request: ReadRequest | WriteRequest | StreamWriteRequest,
) -> Iterator[None]:
    """Context manager that restores the options of a request's reader or writer after its block.

    A program can use a reader or writer for several tables. Options that handlers set, such as the
    version or the credentials, are valid for only one table.
    """
    target = request.reader if isinstance(request, ReadRequest) else request.writer
    if not request.connect:
        with restored_options(target):
            yield
    elif isinstance(request, ReadRequest):
        options = target._options  # noqa: SLF001  # no public API
        target._options = dict(options)  # noqa: SLF001  # the plan refers to this copy
        try:
            yield
        finally:
            target._options = options  # noqa: SLF001
    else:
        options = _connect_writer_options(request)
        saved = dict(options)
        try:
            yield
        finally:
            options.clear()
            options.update(saved)


def _connect_writer_options(request: WriteRequest | StreamWriteRequest) -> Any:
    if isinstance(request, WriteRequest):
        return request.writer._write.options  # noqa: SLF001  # no public API
    return request.writer._write_proto.options  # noqa: SLF001


_MODES = {"errorifexists": "error", "default": "error"}


def _connect_reader_state(reader: Any) -> ReaderState:
    return ReaderState(
        source=reader._format,  # noqa: SLF001  # no public API
        options=dict(reader._options),  # noqa: SLF001
        schema=_connect_schema(reader._schema),  # noqa: SLF001
    )


def _connect_writer_state(writer: Any) -> WriterState:
    plan = writer._write  # noqa: SLF001  # no public API
    return WriterState(
        source=plan.source,
        options={k: v for k, v in plan.options.items() if v is not None},
        mode=plan.mode or "error",
        partition_columns=_or_none(plan.partitioning_cols),
        clustering_columns=_or_none(plan.clustering_cols),
        bucket_columns=_or_none(plan.bucket_cols),
        sort_columns=_or_none(plan.sort_cols),
    )


def _connect_stream_writer_state(writer: Any) -> WriterState:
    plan = writer._write_proto  # noqa: SLF001  # no public API
    return WriterState(
        source="foreachBatch" if plan.HasField("foreach_batch") else plan.format,
        options=dict(plan.options),
        mode=plan.output_mode or "append",
        partition_columns=_or_none(plan.partitioning_column_names),
        clustering_columns=_or_none(plan.clustering_column_names),
    )


def _format(spark: Any, name: str | None) -> str:
    return (name or spark.conf.get("spark.sql.sources.default", "parquet")).lower()


def _paths(argument: str | list[str] | None, options: Mapping[str, str]) -> tuple[str, ...]:
    if argument is None:
        return tuple(v for k, v in options.items() if k.lower() == "path")
    return (argument,) if isinstance(argument, str) else tuple(argument)


def _without_path(options: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in options.items() if k.lower() != "path"}


def _connect_schema(string: str | None) -> StructType | None:
    if not string:
        return None
    if string.lstrip().startswith("{"):
        return StructType.fromJson(json.loads(string))
    schema = StructType.fromDDL(string)
    assert isinstance(schema, StructType)  # the type of every DDL column list
    return schema


def _or_none(names: Iterable[str]) -> tuple[str, ...] | None:
    return tuple(names) or None
