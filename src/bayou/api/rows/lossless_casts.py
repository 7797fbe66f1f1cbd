"""Lossless casts of rows to a table's types, such as `int32` values into a `long` column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from bayou.errors import SchemaError
from bayou.kernel import CloseableIterator
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import from_arrow_type, to_arrow_type
from bayou.protocol.schema import (
    BYTE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)

_INTEGER_BITS: dict[DataType, int] = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}


def fitting_schema(rows: pa.Schema, schema: StructType, *, widens: bool) -> pa.Schema:
    """Return the schema to which `cast_batches` casts rows before they are written to a table.

    A column of the rows gets the type of the table's column if a cast to this type can be lossless.
    Other columns keep their type, and the kernel raises an error if the type doesn't match.
    `cast_batches` raises an error if a cast would change a value.

    Args:
        rows: the schema of the rows.
        schema: the table's schema.
        widens: whether the write can widen the types of the table's columns. If True, a column of
            the rows keeps its type if this type is wider than the type of the table's column.
    """
    fields: list[Any] = []
    for field in rows:
        column = schema.get(field.name)
        target = None if column is None else _target(field.type, column.data_type, widens)
        fields.append(field if target is None else field.with_type(target))
    return pa.schema(fields)


def cast_batches(
    table: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterable[pa.RecordBatch]:
    """Cast batches to a schema from `fitting_schema`. Closing the result closes `batches`.

    Raises:
        SchemaError: a value can't be stored in the table's column without a change.
    """
    return CloseableIterator(_cast_batches(table, batches, schema), batches)


def _cast_batches(
    table: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.schema.equals(schema):
            yield batch
            continue
        columns = [
            _cast(table, column, field) for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(table: str, column: Any, field: Any) -> Any:
    if column.type.equals(field.type):
        return column
    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        elif pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        if pa.types.is_integer(column.type) and pa.types.is_decimal(field.type):
            # Arrow casts integers only to decimals that can hold every value of the integer type.
            scale = field.type.scale
            column = column.cast(pa.decimal128(min(38, 20 + scale), scale))
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        type_name = from_arrow_type(field.type, table=table, column=field.name)
        raise SchemaError(
            f"{table}: a value of column {field.name!r} doesn't fit the table's type {type_name}: "
            f"{error}. Cast the column to {type_name}, or change the table's type.",
            table=table,
            column=field.name,
        ) from error


def _target(arrow_type: Any, data_type: DataType, widens: bool) -> pa.DataType | None:
    """Return the Arrow type to which a column or nested field is cast; None if it isn't cast."""
    types: Any = pa.types
    if types.is_dictionary(arrow_type) or types.is_run_end_encoded(arrow_type):
        return _target(arrow_type.value_type, data_type, widens)
    match data_type:
        case StructType() if types.is_struct(arrow_type):
            inner = []
            for field in arrow_type:
                child = data_type.get(field.name)
                inner.append(
                    None if child is None else _target(field.type, child.data_type, widens)
                )
            if not any(inner):
                return None
            return pa.struct(
                [f.with_type(t or f.type) for f, t in zip(arrow_type, inner, strict=True)]
            )
        case ArrayType() if types.is_list(arrow_type) or types.is_large_list(arrow_type):
            element = _target(arrow_type.value_type, data_type.element_type, widens)
            if element is None:
                return None
            return pa.list_(arrow_type.value_field.with_type(element))
        case MapType() if types.is_map(arrow_type):
            key = _target(arrow_type.key_type, data_type.key_type, widens)
            value = _target(arrow_type.item_type, data_type.value_type, widens)
            if key is None and value is None:
                return None
            item: Any = arrow_type.item_field
            return pa.map_(key or arrow_type.key_type, item.with_type(value or item.type))
        case _ if _is_castable(arrow_type, data_type, widens):
            return to_arrow_type(data_type)
        case _:
            return None


def _is_castable(arrow_type: Any, data_type: DataType, widens: bool) -> bool:
    types: Any = pa.types
    if types.is_integer(arrow_type):
        if data_type in _INTEGER_BITS:
            bits = arrow_type.bit_width + types.is_unsigned_integer(arrow_type)
            narrower = bits > _INTEGER_BITS[data_type]
            return arrow_type != to_arrow_type(data_type) and not (narrower and widens)
        return not widens and (data_type in (FLOAT, DOUBLE) or isinstance(data_type, DecimalType))
    if types.is_floating(arrow_type):
        return data_type == DOUBLE and not types.is_float64(arrow_type)
    if types.is_decimal128(arrow_type) and isinstance(data_type, DecimalType):
        same = (arrow_type.precision, arrow_type.scale) == (data_type.precision, data_type.scale)
        return not same and not widens
    return False
