"""What a read or a write was asked for: everything set on a reader or writer of Spark.

A classic reader or writer keeps that in the JVM, in fields that Spark doesn't publish; one of
Connect keeps it in Python. Both are read here, and nowhere else.
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
    """`DataFrameReader.load` or `DataStreamReader.load`.

    Attributes:
        spark: the session.
        reader: Spark's own; options set on it count when `proceed` is called.
        connect: whether it is a session of Spark Connect.
        streaming: whether it is `readStream`.
        format: in lower case.
        paths: the argument of `load`, else the option `path`; empty without either.
        options: as they were written, the last one where names differ in case only; without `path`.
        schema: what the user gave, None for nothing.
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
    """`SparkSession.sql`.

    Attributes:
        spark: the session.
        text: the statement.
        args: values of its parameters.
        frames: what stands for `{name}` in it.
    """

    spark: Any
    text: str
    args: Any
    frames: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReadRequest:
    """`SparkSession.table`, `DataFrameReader.table` or that of a stream, in a classic session.

    Attributes:
        spark: the session.
        reader: the reader that was asked, None for the session itself.
        table: the name.
    """

    spark: Any
    reader: Any
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """`DataFrameWriter.save`, `.saveAsTable` or `.insertInto`.

    Attributes:
        spark: the session.
        writer: Spark's own.
        df: what is written.
        connect: whether it is a session of Spark Connect.
        method: name of the method that was called.
        format: in lower case; the session's default where none was given.
        path: where to, None without one; for a table by its name the option `path`.
        table: name of the table, None for `save`.
        options: as they were written; without `path`.
        mode: `append`, `overwrite`, `error` (also where none was given) or `ignore`.
        partition_columns: of `partitionBy`, None where it wasn't called.
        clustering_columns: of `clusterBy`, None where it wasn't called.
        bucket_columns: of `bucketBy`, None where it wasn't called.
        sort_columns: of `sortBy`, None where it wasn't called.
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
    """The last method of `DataFrame.writeTo`.

    Attributes:
        spark: the session.
        df: what is written; None under Connect.
        connect: whether it is a session of Spark Connect.
        method: `create`, `replace`, `createOrReplace`, `append`, `overwrite` or
            `overwritePartitions`.
        table: the name.
        provider: of `using`, in lower case; None without one.
        options, properties: of `option` and `tableProperty`, as they were written.
        partitioned_by: Columns and names of `partitionedBy`.
        cluster_by: columns of `clusterBy`.
        condition: the Column, or name of one, of `overwrite`.
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
    """`DataStreamWriter.start` or `.toTable`; the trigger and the query's name stay on the writer.

    Attributes:
        spark: the session.
        writer: Spark's own; options set on it count when `proceed` is called.
        df: the streaming DataFrame; None under Connect.
        connect: whether it is a session of Spark Connect.
        method: name of the method that was called.
        format: in lower case; `foreachBatch` where that was called.
        path: where to, None without one (or for a table by its name).
        table: name of the table, None for `start`.
        options: as they were written; without `path`.
        output_mode: `append`, `complete` or `update`.
        partition_columns: of `partitionBy`, None where it wasn't called.
        clustering_columns: of `clusterBy`, None where it wasn't called.
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
    """What a reader was asked for, once the arguments of `load` are set on it.

    Raises:
        Py4JError: the JVM's reader keeps its state in another way than Spark 4.0 to 4.3.
    """
    if hasattr(reader, "_jreader"):
        java = _JavaState(spark, reader._jreader)  # noqa: SLF001  # held nowhere else
        name, options, schema = java.get("source"), java.options(), java.schema()
    else:
        name, options = reader._format, dict(reader._options)  # noqa: SLF001  # as above
        schema = _connect_schema(reader._schema)  # noqa: SLF001
    given = _without_path(options)
    return ReadRequest(
        spark=spark,
        reader=reader,
        connect=not hasattr(reader, "_jreader"),
        streaming=streaming,
        format=_format(spark, name),
        paths=_paths(path, options),
        options=given,
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
    """What a writer was asked for, once the arguments of its method are set on it.

    Args:
        target: the path of `save`, the name of the table otherwise.

    Raises:
        Py4JError: the JVM's writer keeps its state in another way than Spark 4.0 to 4.3.
    """
    spark, df, by_path = writer._spark, writer._df, method == "save"  # noqa: SLF001
    if hasattr(writer, "_jwrite"):
        java = _JavaState(spark, writer._jwrite)  # noqa: SLF001  # held nowhere else
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
    """What a stream's writer was asked for, once the arguments of its method are set on it.

    Args:
        target: the path of `start`, the name of the table of `toTable`.

    Raises:
        Py4JError: the JVM's writer keeps its state in another way than Spark 4.0 to 4.3.
    """
    by_path = method == "start"
    if hasattr(writer, "_jwrite"):
        java = _JavaState(spark, writer._jwrite)  # noqa: SLF001  # held nowhere else
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
    """Fields of a reader or writer in the JVM, private ones too."""

    def __init__(self, spark: Any, state: Any) -> None:
        self._jvm = spark._jvm  # noqa: SLF001  # the way to Scala's collections
        self._state = state

    def get(self, name: str) -> Any:
        """The value of a field of the object's class or of the one above it."""
        java_class = self._state.getClass()
        for declared in (java_class, java_class.getSuperclass()):
            names = {f.getName(): f for f in declared.getDeclaredFields()}
            if name in names:
                names[name].setAccessible(True)
                return names[name].get(self._state)
        return self._state.getClass().getDeclaredField(name)  # raises what the JVM says

    def options(self) -> dict[str, str]:
        given = self.get("extraOptions").originalMap()
        java = java_class(self._jvm, "scala.jdk.javaapi.CollectionConverters").asJava(given)
        entries = ((entry.getKey(), entry.getValue()) for entry in java_items(java.entrySet()))
        # PySpark 4.2 hands options that are None over as null, later ones leave them out.
        return {str(key): str(value) for key, value in entries if value is not None}

    def schema(self) -> StructType | None:
        given = self.get("userSpecifiedSchema")
        return StructType.fromJson(json.loads(given.get().json())) if given.isDefined() else None

    def names(self, name: str) -> tuple[str, ...] | None:
        given = self.get(name)
        if not given.isDefined():
            return None
        return tuple(scala_items(self._jvm, given.get()))


def _format(spark: Any, name: str | None) -> str:
    return (name or spark.conf.get("spark.sql.sources.default", "parquet")).lower()


def _paths(given: str | list[str] | None, options: Mapping[str, str]) -> tuple[str, ...]:
    if given is None:
        return tuple(v for k, v in options.items() if k.lower() == "path")
    return (given,) if isinstance(given, str) else tuple(given)


def _without_path(options: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in options.items() if k.lower() != "path"}


def _connect_schema(text: str | None) -> StructType | None:
    if not text:
        return None
    if text.lstrip().startswith("{"):
        return StructType.fromJson(json.loads(text))
    schema = StructType.fromDDL(text)
    assert isinstance(schema, StructType)  # a list of columns is no other type
    return schema


def _or_none(names: Iterable[str]) -> tuple[str, ...] | None:
    return tuple(names) or None
