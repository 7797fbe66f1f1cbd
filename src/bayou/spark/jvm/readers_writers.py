"""The settings of classic readers and writers, from private fields of their objects in the JVM.

The functions raise `JvmError` if a Spark version doesn't have one of these fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import StructType

from bayou.spark.jvm.objects import JavaObject, java_class, java_items, scala_items, tested_with

__all__ = [
    "ReaderState",
    "WriterState",
    "reader_state",
    "restored_options",
    "stream_writer_state",
    "writer_state",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    """The settings of a reader; option names are in the user's spelling."""

    source: str | None
    options: Mapping[str, str] = field(repr=False)
    schema: StructType | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterState:
    """The settings of a writer; `mode` is a save mode, or the output mode of a stream."""

    source: str | None
    options: Mapping[str, str] = field(repr=False)
    mode: str
    partition_columns: tuple[str, ...] | None
    clustering_columns: tuple[str, ...] | None
    bucket_columns: tuple[str, ...] | None = None
    sort_columns: tuple[str, ...] | None = None


@tested_with("4.2", "4.3")
def reader_state(reader: Any) -> ReaderState:
    """The state of a `DataFrameReader` or `DataStreamReader`."""
    java = reader._jreader
    schema = _get(java, "userSpecifiedSchema")
    return ReaderState(
        source=_get(java, "source"),
        options=_options(java),
        schema=StructType.fromJson(json.loads(schema.get().json())) if schema.isDefined() else None,
    )


@tested_with("4.2", "4.3")
def writer_state(writer: Any) -> WriterState:
    """The state of a `DataFrameWriter`."""
    java = writer._jwrite
    return WriterState(
        source=_get(java, "source"),
        options=_options(java),
        mode=str(_get(java, "curmode")),
        partition_columns=_names(java, "partitioningColumns"),
        clustering_columns=_names(java, "clusteringColumns"),
        bucket_columns=_names(java, "bucketColumnNames"),
        sort_columns=_names(java, "sortColumnNames"),
    )


@tested_with("4.2", "4.3")
def stream_writer_state(writer: Any) -> WriterState:
    """The state of a `DataStreamWriter`."""
    java = writer._jwrite
    return WriterState(
        source=_get(java, "source"),
        options=_options(java),
        mode=str(_get(java, "outputMode")),
        partition_columns=_names(java, "partitioningColumns"),
        clustering_columns=_names(java, "clusteringColumns"),
    )


@tested_with("4.2", "4.3")
@contextmanager
def restored_options(target: Any) -> Iterator[None]:
    """Context manager that restores the options of a reader or writer afterwards."""
    java = target._jreader if hasattr(target, "_jreader") else target._jwrite
    field = _field(java, "extraOptions")
    options = field.get(java)
    try:
        yield
    finally:
        field.set(java, options)


def _get(java: JavaObject, name: str) -> Any:
    return _field(java, name).get(java)


def _field(java: JavaObject, name: str) -> JavaObject:
    """Return a field of an object's class or superclass, and make it accessible."""
    own_class = java.getClass()
    for declared in (own_class, own_class.getSuperclass()):
        fields = {f.getName(): f for f in declared.getDeclaredFields()}
        if name in fields:
            fields[name].setAccessible(True)
            return fields[name]
    return own_class.getDeclaredField(name)  # raises the JVM's NoSuchFieldException


def _options(java: JavaObject) -> dict[str, str]:
    options = _get(java, "extraOptions").originalMap()
    entries = java_class(java, "scala.jdk.javaapi.CollectionConverters").asJava(options).entrySet()
    pairs = ((entry.getKey(), entry.getValue()) for entry in java_items(entries))
    # PySpark 4.2 passes options that are None as null, later versions omit them.
    return {str(key): str(value) for key, value in pairs if value is not None}


def _names(java: JavaObject, name: str) -> tuple[str, ...] | None:
    columns = _get(java, name)
    return tuple(scala_items(columns.get())) if columns.isDefined() else None
