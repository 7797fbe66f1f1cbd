"""Requests: the state of a Spark reader or writer at the time of its last call.

Classic readers and writers have their state in private fields in the JVM, Connect's in Python. Only
this module reads that state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import StructType

from bayou.spark.jvm.classes import java_class, java_items, scala_items

__all__ = [
    "ReadRequest",
    "SqlRequest",
    "StreamWriteRequest",
    "TableReadRequest",
    "WriteRequest",
    "WriteToRequest",
    "read_request",
    "stream_write_request",
    "write_request",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A call of `DataFrameReader.load` or `DataStreamReader.load`.

    Attributes:
        spark: the session.
        reader: Spark's reader; `proceed` uses the options that are set on it.
        connect: whether the session is a Spark Connect session.
        streaming: whether the reader is `readStream`.
        format: the format, in lower case.
        paths: the argument of `load`, else the option `path`; empty without either.
        options: the options in the user's spelling, without `path`; of names that differ only in
            case, the last one.
        schema: the user's schema, or None.
        proceed: Spark's own method.
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
        spark: the session.
        text: the statement.
        args: values of the parameters.
        frames: values of `{name}` placeholders, such as DataFrames.
    """

    spark: Any
    text: str
    args: Any
    frames: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReadRequest:
    """A call of `table` of a classic session, of its reader or of its stream reader.

    Attributes:
        spark: the session.
        reader: the reader; None for `SparkSession.table`.
        table: the table name.
    """

    spark: Any
    reader: Any
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """A call of `DataFrameWriter.save`, `.saveAsTable` or `.insertInto`.

    Attributes:
        spark: the session.
        writer: Spark's writer.
        df: the DataFrame to write.
        connect: whether the session is a Spark Connect session.
        method: name of the called method.
        format: the format, in lower case; the session's default if none was set.
        path: the path, or None; for a named table the option `path`.
        table: the table name; None for `save`.
        options: the options in the user's spelling, without `path`.
        mode: `append`, `overwrite`, `error` (the default) or `ignore`.
        partition_columns: columns of `partitionBy`; None if it wasn't called.
        clustering_columns: columns of `clusterBy`; None if it wasn't called.
        bucket_columns: columns of `bucketBy`; None if it wasn't called.
        sort_columns: columns of `sortBy`; None if it wasn't called.
        proceed: Spark's own method.
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
        spark: the session.
        df: the DataFrame to write; None with Connect.
        connect: whether the session is a Spark Connect session.
        method: `create`, `replace`, `createOrReplace`, `append`, `overwrite` or
            `overwritePartitions`.
        table: the table name.
        provider: the argument of `using`, in lower case, or None.
        options, properties: arguments of `option` and `tableProperty`, in the user's spelling.
        partitioned_by: Columns and names of `partitionedBy`.
        cluster_by: columns of `clusterBy`.
        condition: the argument of `overwrite`, a Column or a column name.
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
    """A call of `DataStreamWriter.start` or `.toTable`, without trigger and query name.

    Attributes:
        spark: the session.
        writer: Spark's writer; `proceed` uses the options that are set on it.
        df: the streaming DataFrame; None with Connect.
        connect: whether the session is a Spark Connect session.
        method: name of the called method.
        format: the format, in lower case; `foreachBatch` if that was called.
        path: the path; None without one or for a named table.
        table: the table name; None for `start`.
        options: the options in the user's spelling, without `path`.
        output_mode: `append`, `complete` or `update`.
        partition_columns: columns of `partitionBy`; None if it wasn't called.
        clustering_columns: columns of `clusterBy`; None if it wasn't called.
        proceed: Spark's own method.
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
    """Create the request of a reader, after the arguments of `load` were set on it.

    Raises:
        Py4JError: the JVM's reader has other fields than in Spark 4.0 to 4.3.
    """
    if hasattr(reader, "_jreader"):
        java = _JavaState(spark, reader._jreader)  # noqa: SLF001  # no public API
        name, options, schema = java.get("source"), java.options(), java.schema()
    else:
        name, options = reader._format, dict(reader._options)  # noqa: SLF001  # as above
        schema = _connect_schema(reader._schema)  # noqa: SLF001
    return ReadRequest(
        spark=spark,
        reader=reader,
        connect=not hasattr(reader, "_jreader"),
        streaming=streaming,
        format=_format(spark, name),
        paths=_paths(path, options),
        options=_without_path(options),
        schema=schema,
        proceed=proceed,
    )


def write_request(
    writer: Any,
    method: str,
    target: str | None,
    *,
    proceed: Callable[[], Any],
) -> WriteRequest:
    """Create the request of a writer, after the arguments of the method were set on it.

    Args:
        target: the path of `save`; the table name of the other methods.

    Raises:
        Py4JError: the JVM's writer has other fields than in Spark 4.0 to 4.3.
    """
    spark, df, by_path = writer._spark, writer._df, method == "save"  # noqa: SLF001
    if hasattr(writer, "_jwrite"):
        java = _JavaState(spark, writer._jwrite)  # noqa: SLF001  # no public API
        name, options = java.get("source"), java.options()
        mode = str(java.get("curmode"))
        partitioning = java.names("partitioningColumns")
        clustering = java.names("clusteringColumns")
        buckets, sorting = java.names("bucketColumnNames"), java.names("sortColumnNames")
    else:
        from pyspark.sql.connect.dataframe import DataFrame

        plan = writer._write  # noqa: SLF001  # as above
        df = DataFrame(df, spark)
        name, mode = plan.source, plan.mode or "error"
        options = {k: v for k, v in plan.options.items() if v is not None}
        partitioning, clustering = _or_none(plan.partitioning_cols), _or_none(plan.clustering_cols)
        buckets, sorting = _or_none(plan.bucket_cols), _or_none(plan.sort_cols)
    return WriteRequest(
        spark=spark,
        writer=writer,
        df=df,
        connect=not hasattr(writer, "_jwrite"),
        method=method,
        format=_format(spark, name),
        path=next(iter(_paths(target if by_path else None, options)), None),
        table=None if by_path else target,
        options=_without_path(options),
        mode=_MODES.get(mode.lower(), mode.lower()),
        partition_columns=partitioning,
        clustering_columns=clustering,
        bucket_columns=buckets,
        sort_columns=sorting,
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
    """Create the request of a stream writer, after the arguments of the method were set on it.

    Args:
        target: the path of `start`; the table name of `toTable`.

    Raises:
        Py4JError: the JVM's writer has other fields than in Spark 4.0 to 4.3.
    """
    by_path = method == "start"
    if hasattr(writer, "_jwrite"):
        java = _JavaState(spark, writer._jwrite)  # noqa: SLF001  # no public API
        df, name, options = writer._df, java.get("source"), java.options()  # noqa: SLF001
        mode = str(java.get("outputMode"))
        partitioning = java.names("partitioningColumns")
        clustering = java.names("clusteringColumns")
    else:
        proto = writer._write_proto  # noqa: SLF001  # as above
        df, name, options = None, proto.format, dict(proto.options)
        if proto.HasField("foreach_batch"):
            name = "foreachBatch"
        mode = proto.output_mode or "append"
        partitioning = _or_none(proto.partitioning_column_names)
        clustering = _or_none(proto.clustering_column_names)
    return StreamWriteRequest(
        spark=spark,
        writer=writer,
        df=df,
        connect=not hasattr(writer, "_jwrite"),
        method=method,
        format=_format(spark, name),
        path=next(iter(_paths(target, options)), None) if by_path else None,
        table=None if by_path else target,
        options=_without_path(options),
        output_mode=mode.lower(),
        partition_columns=partitioning,
        clustering_columns=clustering,
        proceed=proceed,
    )


_MODES = {"errorifexists": "error", "default": "error"}


class _JavaState:
    """Access to the private fields of a reader or writer in the JVM."""

    def __init__(self, spark: Any, state: Any) -> None:
        self._jvm = spark._jvm  # noqa: SLF001  # to access Scala collections
        self._state = state

    def get(self, name: str) -> Any:
        """The value of a field of the object's class or its superclass."""
        java_class = self._state.getClass()
        for declared in (java_class, java_class.getSuperclass()):
            names = {f.getName(): f for f in declared.getDeclaredFields()}
            if name in names:
                names[name].setAccessible(True)
                return names[name].get(self._state)
        return self._state.getClass().getDeclaredField(
            name
        )  # raises the JVM's NoSuchFieldException

    def options(self) -> dict[str, str]:
        scala = self.get("extraOptions").originalMap()
        java = java_class(self._jvm, "scala.jdk.javaapi.CollectionConverters").asJava(scala)
        entries = ((entry.getKey(), entry.getValue()) for entry in java_items(java.entrySet()))
        # PySpark 4.2 passes options that are None as null, later versions omit them.
        return {str(key): str(value) for key, value in entries if value is not None}

    def schema(self) -> StructType | None:
        schema = self.get("userSpecifiedSchema")
        return StructType.fromJson(json.loads(schema.get().json())) if schema.isDefined() else None

    def names(self, name: str) -> tuple[str, ...] | None:
        columns = self.get(name)
        if not columns.isDefined():
            return None
        return tuple(scala_items(self._jvm, columns.get()))


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
