"""Conversion of batches to the columns and Arrow types of a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.errors import ConstraintViolationError, SchemaError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import from_arrow_type, to_arrow_type
from bayou.kernel.table_features.geospatial import conform_geospatial
from bayou.kernel.table_features.variant import conform_variants
from bayou.protocol.schema import (
    BINARY,
    VARIANT,
    ArrayType,
    DataType,
    GeographyType,
    GeometryType,
    MapType,
    StructField,
    StructType,
)
from bayou.protocol.type_widening import INT32_TYPES


def conform_to_schema(table: str, schema: StructType, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert a batch to the columns of `schema`, in the order and the Arrow types of `schema`.

    Columns and nested fields are matched by name: first exactly, then ignoring case. A missing
    nullable column is filled with nulls.

    A column must have the same Delta type in the batch and in `schema`, except that byte can become
    short or int, and short can become int. The Arrow representation of a Delta type may differ
    (large strings, dictionaries, units of timestamps).
    """
    struct = None
    if batch.num_columns:
        struct = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
    if struct is None:
        arrays = [_missing(table, f, f.name, batch.num_rows) for f in schema]
    else:
        arrays = _conform_fields(table, schema, struct, "")
    fields = [pa.field(f.name, a.type, f.nullable) for f, a in zip(schema, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _conform_fields(
    table: str, schema: StructType, struct: pa.StructArray, prefix: str
) -> list[pa.Array[Any]]:
    names = [f.name for f in struct.type]
    by_lower_case = {name.lower(): i for i, name in enumerate(names)}
    by_name = {name: i for i, name in enumerate(names)}
    used: set[int] = set()
    arrays: list[pa.Array[Any]] = []
    for field in schema:
        path = prefix + field.name
        index = by_name.get(field.name, by_lower_case.get(field.name.lower()))
        if index is None:
            arrays.append(_missing(table, field, path, len(struct)))
            continue
        used.add(index)
        array = _conform(table, field.data_type, struct.field(index), path)
        if not field.nullable:
            _refuse_nulls(table, array, struct, path)
        arrays.append(array)
    unknown = [name for i, name in enumerate(names) if i not in used]
    duplicate = next(
        (n for n in unknown if any(n.lower() == f.lower() for f in schema.names)), None
    )
    if duplicate is not None:
        raise SchemaError(
            f"{table}: the data has column {prefix + duplicate!r} twice; names are "
            "case-insensitive (DELTA_DUPLICATE_COLUMNS_FOUND). Rename or drop one of the columns.",
            table=table,
            column=prefix + duplicate,
        )
    if unknown:
        raise SchemaError(
            f"{table}: the table has no column {', '.join(repr(prefix + n) for n in unknown)}; it "
            f"has {', '.join(prefix + n for n in schema.names)} (DELTA_METADATA_MISMATCH). Drop "
            "the column from the data, or add it to the table.",
            table=table,
            column=prefix + unknown[0],
        )
    return arrays


def _missing(table: str, field: StructField, path: str, length: int) -> pa.Array[Any]:
    if not field.nullable:
        raise ConstraintViolationError(
            f"{table}: column {path!r} is NOT NULL, but the data doesn't have it "
            "(DELTA_MISSING_NOT_NULL_COLUMN_VALUE). Add the column to the data.",
            table=table,
            constraint=f"NOT NULL {path}",
        )
    arrow_type: Any = to_arrow_type(field.data_type)
    nulls: pa.Array[Any] = pa.nulls(length, arrow_type)
    return nulls


def _conform(table: str, data_type: DataType, array: pa.Array[Any], path: str) -> pa.Array[Any]:
    target = to_arrow_type(data_type)
    array = _to_plain_encoding(array)
    if isinstance(data_type, StructType) and isinstance(array, pa.StructArray):
        children = _conform_fields(table, data_type, array, f"{path}.")
        return pa.StructArray.from_arrays(
            children,
            fields=[
                pa.field(f.name, c.type, f.nullable)
                for f, c in zip(data_type, children, strict=True)
            ],
            mask=_null_mask(array),
        )
    if data_type == VARIANT and isinstance(array, pa.StructArray):
        return conform_variants(table, array, path)
    if isinstance(data_type, GeometryType | GeographyType) and isinstance(array, pa.StructArray):
        return conform_geospatial(table, array, path, data_type)
    if array.type == target:
        return array
    if isinstance(data_type, ArrayType) and isinstance(array, pa.ListArray):
        return _conform_list(table, data_type, array, path)
    if isinstance(data_type, MapType) and isinstance(array, pa.MapArray):
        return _conform_map(table, data_type, array, path)
    if not _is_same_type(array.type, data_type):
        raise _wrong_type(table, path, data_type, array.type)
    try:
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"{table}: a value doesn't fit column {path!r} of type {data_type}: {error}. Cast the "
            "data first.",
            table=table,
            column=path,
        ) from error


def _to_plain_encoding(array: pa.Array[Any]) -> pa.Array[Any]:
    """Decode extension, dictionary and run-end-encoded arrays; convert any list type to `list`."""
    kind: Any = array.type
    types: Any = pa.types
    if isinstance(array, pa.ExtensionArray):
        return _to_plain_encoding(array.storage)
    if types.is_dictionary(kind):
        return _decoded(array)
    if types.is_run_end_encoded(kind):
        decoded: pa.Array[Any] = pc.run_end_decode(array)
        return decoded
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        # pyarrow's cast drops the last offset.
        views: Any = array
        return pa.ListArray.from_arrays(
            _offsets(views),
            views.flatten(),
            type=pa.list_(kind.value_field),
            mask=_null_mask(views),
        )
    if types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return array.cast(pa.list_(kind.value_field))
    return array


def _decoded(array: pa.Array[Any]) -> pa.Array[Any]:
    # Neither `cast` nor `take` supports dictionaries of string views, which polars exports.
    encoded: Any = array
    values = encoded.dictionary
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    elif pa.types.is_binary_view(values.type):
        values = values.cast(pa.large_binary())
    taken: pa.Array[Any] = values.take(encoded.indices)
    return taken


def _conform_list(
    table: str, data_type: ArrayType, array: pa.ListArray[Any], path: str
) -> pa.Array[Any]:
    elements = _conform(table, data_type.element_type, array.flatten(), f"{path}.element")
    if not data_type.contains_null:
        _refuse_nulls(table, elements, None, f"{path}.element")
    field: Any = pa.field("element", elements.type, data_type.contains_null)
    return pa.ListArray.from_arrays(
        _offsets(array), elements, type=pa.list_(field), mask=_null_mask(array)
    )


def _conform_map(
    table: str, data_type: MapType, array: pa.MapArray[Any, Any], path: str
) -> pa.Array[Any]:
    # A map has the layout of a list of entries; `flatten` of a list drops the unused entries.
    entries: Any = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    as_list: Any = pa.Array.from_buffers(
        pa.list_(entries.type),
        len(array),
        array.buffers()[:2],
        offset=array.offset,
        children=[entries],
    )
    flat = as_list.flatten()
    keys = _conform(table, data_type.key_type, flat.field(0), f"{path}.key")
    values = _conform(table, data_type.value_type, flat.field(1), f"{path}.value")
    if not data_type.value_contains_null:
        _refuse_nulls(table, values, None, f"{path}.value")
    item: Any = pa.field("value", values.type, data_type.value_contains_null)
    offsets: Any = _offsets(as_list)
    map_type: Any = pa.map_(keys.type, item)
    from_arrays: Any = pa.MapArray.from_arrays
    rebuilt: pa.Array[Any] = from_arrays(offsets, keys, values, map_type, mask=_null_mask(array))
    return rebuilt


def _offsets(array: pa.ListArray[Any]) -> pa.Int32Array:
    """Return the start offset of each list in `array.flatten()`, followed by the end offset.

    These offsets can differ from the offsets of `array`, because `flatten` omits the elements of
    null lists.
    """
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    ends: pa.Int32Array = pc.cumulative_sum(lengths)
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


def _null_mask(array: pa.Array[Any]) -> Any:
    return pc.is_null(array) if array.null_count else None


def _is_same_type(arrow_type: pa.DataType, data_type: DataType) -> bool:
    if pa.types.is_null(arrow_type):
        return True
    stored = BINARY if isinstance(data_type, GeometryType | GeographyType) else data_type
    try:
        given = from_arrow_type(arrow_type)
    except SchemaError:
        return False
    if given in INT32_TYPES and stored in INT32_TYPES:
        return INT32_TYPES.index(given) <= INT32_TYPES.index(stored)
    return str(given) == str(stored)


def _refuse_nulls(
    table: str, array: pa.Array[Any], parent: pa.StructArray | None, path: str
) -> None:
    if array.null_count == 0:
        return
    # A field of a null struct doesn't violate its constraint.
    null = pc.is_null(array)
    if parent is not None and parent.null_count:
        null = pc.and_(null, pc.is_valid(parent))
    nulls: int = null.true_count
    if nulls:
        row = _describe_row(parent, null.index(True).as_py())
        raise ConstraintViolationError(
            f"{table}: NOT NULL constraint violated: column {path!r} is NOT NULL, but {nulls} of "
            f"{len(array)} values are null{row} (DELTA_NOT_NULL_CONSTRAINT_VIOLATED). Nothing was "
            "committed to the table; correct or drop these rows.",
            table=table,
            constraint=f"NOT NULL {path}",
        )


def _describe_row(parent: pa.StructArray | None, index: int) -> str:
    """Return up to three non-null values of row `index` of `parent`, as text for an error message.

    If `parent` is None, or the row has only nulls, the text is empty.
    """
    if parent is None:
        return ""
    values = {
        field.name: parent.field(i)[index].as_py()
        for i, field in enumerate(parent.type)
        if not pa.types.is_nested(field.type)
    }
    assignments = [f"{name} = {value!r}" for name, value in values.items() if value is not None]
    description = ", ".join(assignments[:3])
    return f", the first with {description[:120]}" if description else ""


def _wrong_type(table: str, path: str, data_type: DataType, actual: pa.DataType) -> SchemaError:
    return SchemaError(
        f"{table}: column {path!r} has type {data_type}, but the data has {actual}; the types "
        "can't be merged (DELTA_FAILED_TO_MERGE_FIELDS). Cast the data first.",
        table=table,
        column=path,
    )
