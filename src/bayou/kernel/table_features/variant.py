"""Validates variants before they are written, and converts them to the form that Parquet needs.

See PROTOCOL.md, Variant Data Type.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.errors import SchemaError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.protocol.schema import VARIANT, ArrayType, DataType, MapType, StructType

_NAMES = ("metadata", "value")


def conform_variants(table: str, array: Any, path: str) -> pa.StructArray:
    """Convert structs of binary `metadata` and `value` to the kernel's Arrow type of variants."""
    variant_type: Any = to_arrow_type(VARIANT)
    if {f.name for f in array.type} != set(_NAMES):
        raise _invalid(table, path, f"has type {array.type}")
    valid = pc.is_valid(array)
    children = []
    for name in _NAMES:
        try:
            child = array.field(name).cast(pa.binary())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _invalid(table, path, f"has type {array.type}") from error
        if child.null_count and pc.and_(pc.is_null(child), valid).true_count:
            raise _invalid(table, path, f"has a row in which only {name} is null")
        children.append(child)
    _check_bytes(table, path, children[0].filter(valid), children[1].filter(valid))
    mask = pc.invert(valid) if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(variant_type), mask=mask)


def fill_null_variants(batch: pa.RecordBatch, schema: StructType) -> pa.RecordBatch:
    """Replace the fields of null variants, including nested variants, by empty bytes.

    Both fields of a variant are required in Parquet, but in Arrow a null struct has null fields.
    """
    for field in schema:
        if _has_variant(field.data_type):
            index = batch.schema.get_field_index(field.name)
            filled = _filled(batch.column(index), field.data_type)
            batch = batch.set_column(index, batch.schema.field(index), filled)
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
    arrow_type = array.type
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
            fields = [arrow_type.key_field, arrow_type.item_field]
            return _with_child(
                array, pa.StructArray.from_arrays([array.keys, items], fields=fields)
            )
        case _:
            children = [pc.fill_null(array.field(i), b"") for i in range(arrow_type.num_fields)]
    mask = pc.is_null(array) if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(arrow_type), mask=mask)


def _with_child(array: Any, child: Any) -> Any:
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(
        array.type, len(array), buffers, offset=array.offset, children=[child]
    )


def _check_bytes(table: str, path: str, metadata: Any, values: Any) -> None:
    """Check that all metadata has a valid header and that no value is empty."""
    headers = pc.unique(pc.binary_slice(metadata, 0, 1)).to_pylist()
    invalid = [header for header in headers if not header or header[0] & 0x0F != 1]
    if invalid:
        raise _invalid(
            table, path, f"has metadata with the header {invalid[0]!r}, which isn't version 1"
        )
    if len(values) and not pc.min(pc.binary_length(values)).as_py():
        raise _invalid(table, path, "has a row with an empty value")


def _invalid(table: str, path: str, problem: str) -> SchemaError:
    return SchemaError(
        f"{table}: column {path!r} has type variant, a struct of binary `metadata` and `value` "
        f"in Parquet's encoding, but the data {problem}. Use bayou.variants_from_json to create "
        "variants from JSON.",
        table=table,
        column=path,
    )
