"""Conversions of rows: Arrow streams to record batches, record batches to dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from bayou.api.rows.valid_strings import with_valid_strings
from bayou.errors import ArgumentError


class ArrowStream(Protocol):
    """An object with the Arrow PyCapsule interface, such as a pyarrow, polars or pandas table."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the Arrow stream in a PyCapsule."""
        ...


RowSource: TypeAlias = ArrowStream | Iterable[pa.RecordBatch]
"""An Arrow stream, or record batches that have one schema."""


def record_batches(data: RowSource, argument: str) -> pa.RecordBatchReader:
    """Return a reader of an Arrow stream, or of a list or iterator of record batches.

    The reader raises `ArgumentError` if a string isn't valid UTF-8.
    """
    reader = _reader(data, argument)
    if type(data).__module__.partition(".")[0] in _VALID_STRINGS:
        return reader
    return with_valid_strings(reader, argument)


_VALID_STRINGS = ("polars", "duckdb")
"""Libraries whose strings are always valid UTF-8."""


def _reader(data: RowSource, argument: str) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    stream: Any = data
    if not hasattr(stream, "__arrow_c_stream__"):
        if isinstance(stream, Sequence | Iterator):
            return _of_batches(iter(stream), argument)
        raise ArgumentError(
            f"{argument}: a {type(data).__name__} has no Arrow stream (__arrow_c_stream__). Give a "
            "pyarrow, polars, duckdb or pandas (2.2 or newer) table; pyarrow.Table.from_pylist "
            "converts dictionaries.",
            argument=argument,
        )
    try:
        return pa.RecordBatchReader.from_stream(stream)
    except pa.ArrowInvalid as error:
        raise ArgumentError(
            f"{argument}: the Arrow stream of a {type(data).__name__} isn't a table: {error}. Give "
            "a table.",
            argument=argument,
        ) from error


def _of_batches(batches: Iterator[object], argument: str) -> pa.RecordBatchReader:
    """Return a reader of record batches that have one schema."""
    first = next(batches, None)
    if first is None:
        raise ArgumentError(
            f"{argument}: there are no record batches, so the columns are unknown. Give at least "
            "one batch.",
            argument=argument,
        )
    schema = _batch(first, argument).schema

    def checked() -> Iterator[pa.RecordBatch]:
        for item in chain([first], batches):
            batch = _batch(item, argument)
            if batch.schema != schema:
                raise ArgumentError(
                    f"{argument}: the record batches have different schemas: {batch.schema} "
                    f"in one batch, but {schema} in the first. Give batches with one schema.",
                    argument=argument,
                )
            yield batch

    return pa.RecordBatchReader.from_batches(schema, checked())


def _batch(item: object, argument: str) -> pa.RecordBatch:
    if isinstance(item, pa.RecordBatch):
        return item
    if hasattr(item, "__arrow_c_array__"):
        return pa.record_batch(item)
    raise ArgumentError(
        f"{argument}: the items have the type {type(item).__name__}. Give record batches; "
        "pyarrow.Table.from_pylist converts dictionaries.",
        argument=argument,
    )


def python_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Convert rows to dictionaries.

    If a date or timestamp is outside of Python's years 1 to 9999, all columns and nested fields
    with a date or time type are converted to strings.
    """
    try:
        return rows.to_pylist()
    except (OverflowError, ValueError):
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        fields = [f.with_type(_without_temporal_types(f.type)) for f in table.schema]
        return table.cast(pa.schema(fields)).to_pylist()


def _without_temporal_types(type: pa.DataType) -> pa.DataType:
    convert = _without_temporal_types
    if pa.types.is_temporal(type):
        return pa.string()
    if isinstance(type, pa.StructType):
        return pa.struct([field.with_type(convert(field.type)) for field in type])
    if isinstance(type, pa.ListType):
        return pa.list_(type.value_field.with_type(convert(type.value_type)))
    if isinstance(type, pa.MapType):
        return pa.map_(convert(type.key_type), convert(type.item_type))
    return type
