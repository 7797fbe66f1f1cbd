"""Reassembly of shredded variants (PROTOCOL.md, Variant Shredding; Parquet's Variant Shredding).

A shredded variant is a struct of `metadata`, `value` and `typed_value`. If `typed_value` isn't
null, it contains the variant's value. For an object, `typed_value` contains the shredded fields,
and `value` contains the other fields. Each shredded field and each array element is a struct of
`value` and `typed_value`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.protocol import variant
from bayou.protocol.variant import VariantError

_Type: TypeAlias = Any
"""A `pa.DataType`, typed as Any because mypy doesn't narrow types by `pa.types.is_struct`."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_CONTEXT = Context(prec=76)


def is_shredded(data_type: _Type) -> bool:
    """Whether a variant is shredded in a file: its struct has `typed_value`, or lacks `value`."""
    return pa.types.is_struct(data_type) and (
        data_type.get_field_index("typed_value") >= 0 or data_type.get_field_index("value") < 0
    )


def reassemble(array: Any, variant_type: _Type) -> pa.Array[Any]:
    """Reassemble shredded variants into `variant_type`, a struct of `metadata` and `value`.

    Raises:
        VariantError: a shredded variant violates the specification.
    """
    rows = [reassemble_row(row, array.type) for row in array.to_pylist()]
    result: pa.Array[Any] = pa.array(rows, variant_type)
    return result


def reassemble_row(row: Mapping[str, Any] | None, shredded: _Type) -> dict[str, bytes] | None:
    """Return `metadata` and `value` of one shredded variant.

    Args:
        row: the struct of the variant as a dictionary; None for NULL.
        shredded: the type of the struct.
    """
    if row is None:
        return None
    metadata = row.get("metadata")
    if metadata is None:
        raise VariantError("the variant has no metadata")
    value = _value(row, shredded, _ids(metadata))
    return {"metadata": metadata, "value": variant.NULL if value is None else value}


@lru_cache(maxsize=256)
def _ids(metadata: bytes) -> Mapping[str, int]:
    return variant.field_ids(metadata)


def _value(pair: Mapping[str, Any], kind: _Type, ids: Mapping[str, int]) -> bytes | None:
    value: bytes | None = pair.get("value")
    typed = pair.get("typed_value")
    if typed is None:
        return value
    typed_kind = kind.field("typed_value").type
    if pa.types.is_struct(typed_kind):
        return _object(value, typed, typed_kind, ids)
    if value is not None:
        raise VariantError("a value that isn't an object is in both `value` and `typed_value`")
    if _is_list(typed_kind):
        element = typed_kind.value_type
        return variant.array([_element(item, element, ids) for item in typed])
    return _primitive(typed, typed_kind)


def _object(
    rest: bytes | None, typed: Mapping[str, Any], kind: _Type, ids: Mapping[str, int]
) -> bytes:
    fields = {} if rest is None else variant.object_fields(rest, ids)
    for i in range(kind.num_fields):
        field = kind.field(i)
        pair = typed[field.name]
        value = None if pair is None else _value(pair, field.type, ids)
        if value is not None:
            fields[field.name] = value
    return variant.object_(fields, ids)


def _element(pair: Mapping[str, Any] | None, kind: _Type, ids: Mapping[str, int]) -> bytes:
    value = None if pair is None else _value(pair, kind, ids)
    return variant.NULL if value is None else value


def _primitive(value: Any, kind: _Type) -> bytes:
    types = pa.types
    if types.is_boolean(kind):
        return variant.boolean(value)
    if types.is_signed_integer(kind):
        return variant.integer(value)
    if types.is_floating(kind):
        return variant.number("float" if kind.bit_width == 32 else "double", value)
    if types.is_decimal(kind):
        unscaled = int(Decimal(value).scaleb(kind.scale, _CONTEXT))
        return variant.decimal(unscaled, kind.scale)
    if types.is_string(kind) or types.is_large_string(kind):
        return variant.string(value)
    if types.is_fixed_size_binary(kind) and kind.byte_width == 16:  # a UUID
        return variant.uuid(value)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return variant.binary(value)
    if types.is_date(kind):
        return variant.number("date", value.toordinal() - _EPOCH.toordinal())
    if types.is_timestamp(kind):
        name = "timestamp_ntz" if kind.tz is None else "timestamp"
        instant = value.replace(tzinfo=dt.UTC) if kind.tz is None else value
        if kind.unit == "ns":
            return variant.number(f"{name}_nanos", instant.value)
        return variant.number(name, (instant - _EPOCH) // _MICROSECOND)
    if types.is_time(kind):
        since_midnight = dt.datetime.combine(_EPOCH.date(), value, dt.UTC) - _EPOCH
        return variant.number("time", since_midnight // _MICROSECOND)
    raise VariantError(f"a shredded value can't have the type {kind}")


def _is_list(kind: _Type) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)
