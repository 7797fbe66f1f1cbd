"""The settings of classic readers and writers, read from private fields in the JVM.

The functions raise `JvmError` if a Spark version doesn't have one of these fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import StructType

from bayou.spark.jvm.objects import (
    JavaObject,
    cached,
    java_class,
    java_items,
    scala_items,
    tested_with,
)

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
    """The settings of a reader. The names of options are in the user's spelling."""

    source: str | None
    options: Mapping[str, str] = field(repr=False)
    schema: StructType | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterState:
    """The settings of a writer. `mode` is the save mode, or the output mode of a stream."""

    source: str | None
    options: Mapping[str, str] = field(repr=False)
    mode: str
    partition_columns: tuple[str, ...] | None
    clustering_columns: tuple[str, ...] | None
    bucket_columns: tuple[str, ...] | None = None
    sort_columns: tuple[str, ...] | None = None


@tested_with("4.2", "4.3")
def reader_state(reader: Any) -> ReaderState:
    """The settings of a `DataFrameReader` or `DataStreamReader`."""
    private = _PrivateFields(reader._jreader)
    schema = private["userSpecifiedSchema"]
    return ReaderState(
        source=private["source"],
        options=_options(private),
        schema=StructType.fromJson(json.loads(schema.get().json())) if schema.isDefined() else None,
    )


@tested_with("4.2", "4.3")
def writer_state(writer: Any) -> WriterState:
    """The settings of a `DataFrameWriter`."""
    private = _PrivateFields(writer._jwrite)
    return WriterState(
        source=private["source"],
        options=_options(private),
        mode=str(private["curmode"]),
        partition_columns=_names(private, "partitioningColumns"),
        clustering_columns=_names(private, "clusteringColumns"),
        bucket_columns=_names(private, "bucketColumnNames"),
        sort_columns=_names(private, "sortColumnNames"),
    )


@tested_with("4.2", "4.3")
def stream_writer_state(writer: Any) -> WriterState:
    """The settings of a `DataStreamWriter`."""
    private = _PrivateFields(writer._jwrite)
    return WriterState(
        source=private["source"],
        options=_options(private),
        mode=str(private["outputMode"]),
        partition_columns=_names(private, "partitioningColumns"),
        clustering_columns=_names(private, "clusteringColumns"),
    )


@tested_with("4.2", "4.3")
@contextmanager
def restored_options(target: Any) -> Iterator[None]:
    """Context manager that restores the options of a reader or writer after its block."""
    private = _PrivateFields(target._jreader if hasattr(target, "_jreader") else target._jwrite)
    options = private["extraOptions"]
    try:
        yield
    finally:
        private["extraOptions"] = options


class _PrivateFields:
    """The values of an object's private fields by name, including those of the superclass."""

    def __init__(self, java: JavaObject) -> None:
        self._java = java
        self._class = java.getClass()
        key = (_PrivateFields, self._class.getName())
        self._fields = cached(java, key, lambda: _accessible_fields(self._class))

    def __getitem__(self, name: str) -> Any:
        return self._field(name).get(self._java)

    def __setitem__(self, name: str, value: JavaObject) -> None:
        self._field(name).set(self._java, value)

    def _field(self, name: str) -> JavaObject:
        if name not in self._fields:
            return self._class.getDeclaredField(name)  # raises the JVM's NoSuchFieldException
        return self._fields[name]


def _accessible_fields(own_class: JavaObject) -> dict[str, JavaObject]:
    """Return the `java.lang.reflect.Field`s of a class and its superclass, by name."""
    fields = {}
    for declared in (own_class.getSuperclass(), own_class):
        for declared_field in declared.getDeclaredFields():
            declared_field.setAccessible(True)
            fields[str(declared_field.getName())] = declared_field
    return fields


def _options(private: _PrivateFields) -> dict[str, str]:
    options = private["extraOptions"].originalMap()
    if options.isEmpty():
        return {}
    converters = java_class(options, "scala.jdk.javaapi.CollectionConverters")
    entries = converters.asJava(options).entrySet()
    pairs = ((entry.getKey(), entry.getValue()) for entry in java_items(entries))
    # PySpark 4.2 passes options that are None as null, later versions omit them.
    return {str(key): str(value) for key, value in pairs if value is not None}


def _names(private: _PrivateFields, name: str) -> tuple[str, ...] | None:
    columns = private[name]
    return tuple(scala_items(columns.get())) if columns.isDefined() else None
