"""Conversion of columns between Arrow types, without copies for equal types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import pyarrow as pa

from bayou.engines.legacy_calendar import legacy_time_zone, rebase_datetimes
from bayou.engines.shredded_variants import is_shredded, reassemble
from bayou.errors import SchemaError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.engine import FIELD_ID_KEY, VARIANT_KEY
from bayou.protocol.variant import VariantError

Conversion: TypeAlias = "Callable[[pa.Array[Any]], pa.Array[Any]]"

_NestedType: TypeAlias = Any
"""A `pa.DataType`, typed as Any because mypy doesn't narrow types by `pa.types.is_struct`."""

_NestedArray: TypeAlias = Any
"""A `pa.Array` of a nested type."""


class FieldFinder:
    """Finds a requested field among the fields of a file.

    A requested field with a field id is looked up by this id, any other field by its name. If no
    field has the exact name, case is ignored, because some writers change the case of names.
    """

    def __init__(self, fields: list[pa.Field[Any]]) -> None:
        self._by_name: dict[str, int] = {}
        self._by_folded_name: dict[str, int] = {}
        self._by_id: dict[bytes, int] = {}
        for position, field in enumerate(fields):
            self._by_name.setdefault(field.name, position)
            self._by_folded_name.setdefault(field.name.lower(), position)
            field_id = (field.metadata or {}).get(FIELD_ID_KEY)
            if field_id is not None:
                self._by_id.setdefault(field_id, position)

    def position(self, requested: pa.Field[Any]) -> int | None:
        """Return the index of the requested field in the file; None if the file lacks the field."""
        field_id = (requested.metadata or {}).get(FIELD_ID_KEY)
        if field_id is not None:
            return self._by_id.get(field_id)
        exact = self._by_name.get(requested.name)
        return self._by_folded_name.get(requested.name.lower()) if exact is None else exact


def children(data_type: _NestedType) -> list[pa.Field[Any]]:
    """Return a struct's fields, a list's element or a map's key and value; [] for other types."""
    if pa.types.is_map(data_type):
        return [data_type.key_field, data_type.item_field]
    if pa.types.is_nested(data_type):
        return [data_type.field(i) for i in range(data_type.num_fields)]
    return []


def count_leaves(data_type: pa.DataType) -> int:
    """Return the number of Parquet leaf columns of a type."""
    fields = children(data_type)
    return sum(count_leaves(f.type) for f in fields) if fields else 1


def is_list(data_type: pa.DataType) -> bool:
    """Whether a type is a list with offsets of 32 or 64 bits."""
    return pa.types.is_list(data_type) or pa.types.is_large_list(data_type)


def converter(
    actual: pa.Field[Any], requested: pa.Field[Any], name: str, path: str
) -> Conversion | None:
    """Return a function that converts the values of a field; None if no conversion is necessary.

    The conversion raises `pa.ArrowInvalid` if the requested type can't represent a value exactly,
    and `VariantError` if a shredded variant violates the specification.

    Args:
        actual: the field in the file.
        name, path: the name of the column and the path of the file, for errors.
    """
    source: _NestedType = actual.type
    target = requested.type
    if is_variant(requested) and is_shredded(source):
        return _variant_converter(target, name)
    time_zone = legacy_time_zone(actual)
    if time_zone is not None:
        return _legacy_converter(actual, requested, name, path, time_zone)
    if source.equals(target) and _same_fields(source, target):
        return None
    if pa.types.is_dictionary(target):
        return _dictionary_converter(actual, requested, name, path)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _struct_converter(source, target, name, path)
    if is_list(source) and is_list(target):
        return _list_converter(source, target, name, path)
    if pa.types.is_fixed_size_list(source) and is_list(target):
        # Parquet has only lists. The writer's Arrow schema in the footer says fixed-size list.
        plain: Any = pa.list_(source.value_field)
        listed = converter(actual.with_type(plain), requested, name, path) or _same
        return lambda array: listed(pc.cast(array, plain))
    if pa.types.is_map(source) and pa.types.is_map(target):
        return _map_converter(source, target, name, path)
    if isinstance(source, pa.BaseExtensionType):
        # An extension type that is registered in this process, such as GeoArrow's.
        stored = converter(actual.with_type(source.storage_type), requested, name, path) or _same

        def convert_extension(array: _NestedArray) -> pa.Array[Any]:
            return stored(array.storage)

        return convert_extension
    if pa.types.is_dictionary(source):
        inner = converter(actual.with_type(source.value_type), requested, name, path) or _same

        def convert_dictionary(array: _NestedArray) -> pa.Array[Any]:
            return inner(array.dictionary_decode())

        return convert_dictionary
    if not _castable(source, target):
        raise SchemaError(
            f"{path}: column {name!r} has type {source}, which can't be read as {target}",
            table=path,
            column=name,
        )
    if pa.types.is_integer(source) and pa.types.is_decimal(target):
        return lambda array: pc.cast(pc.cast(array, pa.decimal128(20, 0)), target)
    if pa.types.is_floating(source) and source.bit_width > target.bit_width:
        return lambda array: _narrowed(array, target)
    return lambda array: pc.cast(array, target)


def _narrowed(array: pa.Array[Any], target: pa.DataType) -> pa.Array[Any]:
    """Cast floats to a narrower type; raise `pa.ArrowInvalid` if this changes a value.

    The cast of pyarrow raises no error: it rounds values, or returns infinity.
    """
    narrowed: pa.Array[Any] = pc.cast(array, target)
    is_exact = pc.or_(pc.equal(pc.cast(narrowed, array.type), array), pc.is_nan(array))
    if pc.all(is_exact).as_py() is False:  # nulls are ignored
        raise pa.ArrowInvalid(f"a value can't be stored as {target} without rounding")
    return narrowed


def is_variant(field: pa.Field[Any]) -> bool:
    """Whether a requested field has the type variant."""
    return VARIANT_KEY in (field.metadata or {})


def _legacy_converter(
    actual: pa.Field[Any], requested: pa.Field[Any], name: str, path: str, time_zone: str
) -> Conversion:
    inner = converter(actual.remove_metadata(), requested, name, path) or _same
    return lambda array: inner(rebase_datetimes(array, time_zone))


def _dictionary_converter(
    actual: pa.Field[Any], requested: pa.Field[Any], name: str, path: str
) -> Conversion:
    target: _NestedType = requested.type
    inner = converter(actual, requested.with_type(target.value_type), name, path) or _same
    return lambda array: inner(array).dictionary_encode()


def _variant_converter(target: pa.DataType, name: str) -> Conversion:
    def convert_variant(array: _NestedArray) -> pa.Array[Any]:
        try:
            return reassemble(array, target)
        except VariantError as error:
            raise VariantError(f"column {name!r} has a damaged variant: {error}") from error

    return convert_variant


def _same(array: pa.Array[Any]) -> pa.Array[Any]:
    return array


def _same_fields(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of the nested type `source` can be used unchanged as the type `target`.

    The caller has checked that the types are equal for pyarrow, which ignores the metadata of
    fields. This function also checks that both types have the same field ids at the same positions,
    and that no field contains dates or timestamps in Spark's legacy calendar.
    """
    actual, requested = children(source), children(target)
    if any(legacy_time_zone(child) is not None for child in actual):
        return False
    if pa.types.is_struct(source):
        finder = FieldFinder(actual)
        if any(finder.position(child) != i for i, child in enumerate(requested)):
            return False
    return all(_same_fields(g.type, w.type) for g, w in zip(actual, requested, strict=True))


def _struct_converter(source: _NestedType, target: _NestedType, name: str, path: str) -> Conversion:
    actual, requested = children(source), children(target)
    finder = FieldFinder(actual)
    steps: list[tuple[int | None, Conversion | None, _NestedType]] = []
    for child in requested:
        position = finder.position(child)
        convert = (
            None
            if position is None
            else converter(actual[position], child, f"{name}.{child.name}", path)
        )
        steps.append((position, convert, child.type))

    def convert_struct(array: _NestedArray) -> pa.Array[Any]:
        columns: list[pa.Array[Any]] = []
        for position, convert, data_type in steps:
            if position is None:
                columns.append(pa.nulls(len(array), data_type))
            else:
                column = array.field(position)
                columns.append(column if convert is None else convert(column))
        result: pa.Array[Any] = pa.Array.from_buffers(
            target, len(array), [_validity(array)], children=columns
        )
        return result

    return convert_struct


def _list_converter(source: _NestedType, target: _NestedType, name: str, path: str) -> Conversion:
    convert = converter(source.value_field, target.value_field, f"{name}.element", path) or _same
    large = pa.types.is_large_list(target)
    same_offsets = pa.types.is_large_list(source) == large

    def convert_list(array: _NestedArray) -> pa.Array[Any]:
        values = convert(array.values)
        if same_offsets:
            return _with_child(array, target, values)
        offsets = pc.cast(array.offsets, pa.int64() if large else pa.int32())
        buffers = [_validity(array), pa.concat_arrays([offsets, offsets[:0]]).buffers()[1]]
        return pa.Array.from_buffers(target, len(array), buffers, children=[values])

    return convert_list


def _map_converter(source: _NestedType, target: _NestedType, name: str, path: str) -> Conversion:
    key = converter(source.key_field, target.key_field, f"{name}.key", path) or _same
    item = converter(source.item_field, target.item_field, f"{name}.value", path) or _same

    def convert_map(array: _NestedArray) -> pa.Array[Any]:
        entries = pa.StructArray.from_arrays(
            [key(array.keys), item(array.items)], fields=[target.key_field, target.item_field]
        )
        return _with_child(array, target, entries)

    return convert_map


def _with_child(array: pa.Array[Any], target: pa.DataType, child: pa.Array[Any]) -> pa.Array[Any]:
    """Return a copy of a list or map array in which `child` replaces the elements or entries."""
    return pa.Array.from_buffers(
        target,
        len(array),
        array.buffers()[:2],
        null_count=array.null_count,
        offset=array.offset,
        children=[child],
    )


def _validity(array: pa.Array[Any]) -> pa.Buffer | None:
    """Return the validity bitmap of an array; None if no value is null.

    Bit 0 belongs to the first value, also if the array has an offset.
    """
    if not array.null_count:
        return None
    valid: pa.BooleanArray = pc.is_valid(array)
    return (pa.concat_arrays([valid, valid[:0]]) if valid.offset else valid).buffers()[1]


def _castable(source: pa.DataType, target: _NestedType) -> bool:
    types = pa.types
    if types.is_null(source):
        return True
    if types.is_integer(source):
        return types.is_integer(target) or types.is_floating(target) or types.is_decimal(target)
    if types.is_floating(source):
        return types.is_floating(target)
    if types.is_decimal(source):
        return types.is_decimal(target)
    if types.is_timestamp(source):
        return types.is_timestamp(target)
    if types.is_date(source):
        return types.is_date(target) or (types.is_timestamp(target) and target.tz is None)
    return _is_string_or_binary(source) and _is_string_or_binary(target)


def _is_string_or_binary(data_type: pa.DataType) -> bool:
    """Whether a type is string or binary. Some writers store strings as binary."""
    types = pa.types
    return (
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_string_view(data_type)
        or types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_binary_view(data_type)
        or types.is_fixed_size_binary(data_type)
    )


def without_columns(schema: pa.Schema, num_rows: int) -> pa.RecordBatch:
    """Return a batch that has a number of rows and no columns."""
    one = pa.RecordBatch.from_arrays([pa.nulls(num_rows)], names=["x"])
    return one.select(cast("list[str]", [])).replace_schema_metadata(schema.metadata)
