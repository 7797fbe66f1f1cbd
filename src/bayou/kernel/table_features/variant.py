"""Variants on their way into a table (PROTOCOL.md, Variant Data Type)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import SchemaError
from bayou.kernel.arrow.types import to_arrow_type
from bayou.protocol.schema import VARIANT, ArrayType, DataType, MapType, StructType

__all__ = ["conform_variants", "with_bytes_in_nulls"]

pc: Any = pyarrow.compute

_NAMES = ("metadata", "value")


def conform_variants(table: str, array: Any, path: str) -> pa.StructArray:
    """Variants as the kernel has them, of any struct of two byte strings by these names.

    Raises:
        SchemaError: not such a struct, or one with bytes that aren't a variant's.
    """
    kind: Any = to_arrow_type(VARIANT)
    if {f.name for f in array.type} != set(_NAMES):
        raise _wrong(table, path, f"has {array.type}")
    valid = pc.is_valid(array)
    fields = []
    for name in _NAMES:
        try:
            found = array.field(name).cast(pa.binary())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _wrong(table, path, f"has {array.type}") from error
        if found.null_count and pc.and_(pc.is_null(found), valid).true_count:
            raise _wrong(table, path, f"has a row whose {name} alone is null")
        fields.append(found)
    _check_bytes(table, path, fields[0].filter(valid), fields[1].filter(valid))
    mask = pc.invert(valid) if array.null_count else None
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask)


def with_bytes_in_nulls(batch: pa.RecordBatch, schema: StructType) -> pa.RecordBatch:
    """The same rows with empty bytes in variants that are null, wherever they stand.

    Neither of their fields is optional in Parquet. Arrow's own nulls have nulls inside.

    Args:
        schema: types of the columns by name; others are passed over.
    """
    for field in schema:
        if _has_variant(field.data_type):
            at = batch.schema.get_field_index(field.name)
            filled = _filled(batch.column(at), field.data_type)
            batch = batch.set_column(at, batch.schema.field(at), filled)
    return batch


def _has_variant(data_type: DataType) -> bool:
    match data_type:
        case StructType():
            return any(_has_variant(field.data_type) for field in data_type)
        case ArrayType():
            return _has_variant(data_type.element_type)
        case MapType():
            return _has_variant(data_type.value_type)
        case _:
            return data_type == VARIANT


def _filled(array: Any, data_type: DataType) -> Any:
    kind = array.type
    match data_type:
        case StructType():
            children = [
                _filled(array.field(i), field.data_type)
                if _has_variant(field.data_type)
                else array.field(i)
                for i, field in enumerate(data_type)
            ]
        case ArrayType():
            inner = _filled(array.values, data_type.element_type)
            return _with_child(array, inner)
        case MapType():
            items = _filled(array.items, data_type.value_type)
            fields = [kind.key_field, kind.item_field]
            return _with_child(
                array, pa.StructArray.from_arrays([array.keys, items], fields=fields)
            )
        case _:
            children = [pc.fill_null(array.field(i), b"") for i in range(kind.num_fields)]
    mask = pc.is_null(array) if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _with_child(array: Any, child: Any) -> Any:
    """The same lists or maps over another child."""
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(
        array.type, len(array), buffers, offset=array.offset, children=[child]
    )


def _check_bytes(table: str, path: str, metadata: Any, values: Any) -> None:
    """Look at the two headers: that is what tells bytes of another kind apart."""
    headers = pc.unique(pc.binary_slice(metadata, 0, 1)).to_pylist()
    other = [header for header in headers if not header or header[0] & 0x0F != 1]
    if other:
        raise _wrong(table, path, f"has metadata that begins with {other[0]!r}, not of version 1")
    if len(values) and not pc.min(pc.binary_length(values)).as_py():
        raise _wrong(table, path, "has a row with no bytes for its value")


def _wrong(table: str, path: str, what: str) -> SchemaError:
    return SchemaError(
        f"Column {path!r} of {table} has type variant, a struct of the byte strings `metadata` and "
        f"`value` in Parquet's encoding; the data {what}. Make variants of JSON texts by "
        "bayou.variants_from_json.",
        table=table,
        column=path,
    )
