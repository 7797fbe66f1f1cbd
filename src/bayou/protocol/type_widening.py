"""Supported type changes of columns, and their metadata (PROTOCOL.md, Type Widening)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from bayou.protocol.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    SchemaJsonError,
    StructField,
    StructType,
    data_type_from_json,
    nested_types,
)

TYPE_CHANGES_KEY = "delta.typeChanges"


class AutomaticWidening(StrEnum):
    """The type changes that schema evolution may make in a table with type widening.

    ALWAYS permits every type change that type widening supports. SAME_FAMILY_TYPE permits all
    except changes from an integer type to decimal or double. With NEVER, types don't change.
    ALTER TABLE always permits every type change that type widening supports.
    """

    ALWAYS = "always"
    SAME_FAMILY_TYPE = "same_family_type"
    NEVER = "never"


INT32_TYPES: tuple[DataType, ...] = (BYTE, SHORT, INTEGER)
"""Types that Parquet stores as 32-bit integers, from the narrowest to the widest."""

_INTEGERS = (BYTE, SHORT, INTEGER, LONG)
_INTEGER_DIGITS = {BYTE: 10, SHORT: 10, INTEGER: 10, LONG: 20}
_MIN_DIGITS = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 19}


def is_widening(before: DataType, after: DataType) -> bool:
    """Whether type widening permits a column's type to change from `before` to `after`."""
    if before in _INTEGERS and after in _INTEGERS:
        return _INTEGERS.index(before) < _INTEGERS.index(after)
    if after == DOUBLE:
        return before in (FLOAT, BYTE, SHORT, INTEGER)
    if after == TIMESTAMP_NTZ:
        return before == DATE
    if isinstance(after, DecimalType):
        if isinstance(before, DecimalType):
            more_digits = after.precision - before.precision
            return before != after and more_digits >= after.scale - before.scale >= 0
        if before in _INTEGER_DIGITS:
            return after.precision - after.scale >= _INTEGER_DIGITS[before]
    return False


def is_readable_change(before: DataType, after: DataType) -> bool:
    """Whether values of the type `before` in files can be read as the type `after`.

    This includes all changes that `is_widening` allows. It also includes changes from an integer
    type to a decimal type that can hold all values of the integer type. Other writers make such
    changes.
    """
    if isinstance(after, DecimalType) and before in _MIN_DIGITS:
        return after.precision - after.scale >= _MIN_DIGITS[before]
    return is_widening(before, after)


def is_automatic_widening(before: DataType, after: DataType) -> bool:
    """Whether `AutomaticWidening.SAME_FAMILY_TYPE` permits a change from `before` to `after`."""
    integer_to_other = before in _INTEGERS and after not in _INTEGERS
    return is_widening(before, after) and not integer_to_other


@dataclass(frozen=True, slots=True, kw_only=True)
class WideningRule:
    """Decides whether schema evolution may widen a table's column to the type of written values.

    Attributes:
        mode: the permitted type changes.
        iceberg_only: whether Iceberg must still be able to read the column's older files after the
            change.
    """

    mode: AutomaticWidening = AutomaticWidening.SAME_FAMILY_TYPE
    iceberg_only: bool = False

    def allows(self, before: DataType, after: DataType) -> bool:
        if self.mode is AutomaticWidening.NEVER:
            return False
        if self.iceberg_only and not is_iceberg_promotion(before, after):
            return False
        if self.mode is AutomaticWidening.ALWAYS:
            return is_widening(before, after)
        return is_automatic_widening(before, after)


def is_iceberg_promotion(before: DataType, after: DataType) -> bool:
    """Whether Iceberg can read values of the type `before` as the type `after` (type promotion)."""
    if before in _INTEGERS and after in _INTEGERS:
        return _INTEGERS.index(before) < _INTEGERS.index(after)
    if isinstance(before, DecimalType) and isinstance(after, DecimalType):
        return before.scale == after.scale and before.precision < after.precision
    return (before, after) == (FLOAT, DOUBLE)


def type_changes(schema: StructType) -> Iterator[tuple[str, DataType, DataType]]:
    """Yield the type changes in a schema's metadata: dotted path, old type, new type.

    Malformed entries are skipped; `unsupported_type_changes` returns them.
    """
    for path, change in _recorded_changes(schema):
        types = _parsed(change)
        if types is not None:
            inner = change.get("fieldPath")
            yield (f"{path}.{inner}" if inner else path, *types)


def with_type_changes(
    before: StructType, after: StructType, table_version: int | None = None
) -> StructType:
    """Return the schema `after` with `delta.typeChanges` for the type changes since `before`.

    Args:
        table_version: version of the commit that changes the types. The table feature
            `typeWidening-preview` records this version in `delta.typeChanges`. None for tables
            without this feature.
    """
    fields: list[StructField] = []
    for field in after:
        old = before.get(field.name)
        if old is None or old.data_type == field.data_type:
            fields.append(field)
            continue
        entries = list(_type_changes(old.data_type, field.data_type, (), table_version))
        inner = _with_inner_changes(old.data_type, field.data_type, table_version)
        metadata = dict(field.metadata)
        if entries:
            metadata[TYPE_CHANGES_KEY] = [*_changes(metadata.get(TYPE_CHANGES_KEY)), *entries]
        fields.append(replace(field, data_type=inner, metadata=metadata))
    return StructType(tuple(fields))


def _type_changes(
    before: DataType, after: DataType, path: tuple[str, ...], version: int | None
) -> Iterator[dict[str, Any]]:
    """Yield the entries to add to a field's `delta.typeChanges`.

    Changes within a struct are left out: the metadata of the struct's fields records them.

    Args:
        before: the old type of the field, or of the array element, map key or map value at `path`.
        after: the new type.
        path: steps (`element`, `key` or `value`) from the field's type to the type `before`.
        version: the argument `table_version` of `with_type_changes`.
    """
    match before, after:
        case StructType(), StructType():
            return
        case ArrayType(), ArrayType():
            inner = (*path, "element")
            yield from _type_changes(before.element_type, after.element_type, inner, version)
        case MapType(), MapType():
            key, value = (*path, "key"), (*path, "value")
            yield from _type_changes(before.key_type, after.key_type, key, version)
            yield from _type_changes(before.value_type, after.value_type, value, version)
        case _ if is_widening(before, after):
            entry: dict[str, Any] = {"toType": str(after), "fromType": str(before)}
            if path:
                entry["fieldPath"] = ".".join(path)
            if version is not None:
                entry["tableVersion"] = version
            yield entry


def _with_inner_changes(before: DataType, after: DataType, version: int | None) -> DataType:
    match before, after:
        case StructType(), StructType():
            return with_type_changes(before, after, version)
        case ArrayType(), ArrayType():
            element = _with_inner_changes(before.element_type, after.element_type, version)
            return replace(after, element_type=element)
        case MapType(), MapType():
            return replace(
                after,
                key_type=_with_inner_changes(before.key_type, after.key_type, version),
                value_type=_with_inner_changes(before.value_type, after.value_type, version),
            )
        case _:
            return after


def unsupported_type_changes(schema: StructType) -> list[str]:
    """Return the unreadable type changes in a schema's metadata, as `column: from -> to`."""
    return [
        _describe(change, path)
        for path, change in _recorded_changes(schema)
        if not _is_known(change)
    ]


def is_widened_from_float(field: StructField) -> bool:
    """Whether a column's own type, not a type nested in it, was widened from float."""
    return field.data_type == DOUBLE and any(
        isinstance(change, dict)
        and change.get("fromType") == "float"
        and not change.get("fieldPath")
        for change in _changes(field.metadata.get(TYPE_CHANGES_KEY))
    )


def columns_widened_from_float(schema: StructType) -> frozenset[tuple[str, ...]]:
    """Return the paths of the columns and struct fields that were widened from float."""
    return frozenset(_widened_from_float(schema, ()))


def _widened_from_float(schema: StructType, prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in schema:
        path = (*prefix, field.name)
        if is_widened_from_float(field):
            yield path
        if isinstance(field.data_type, StructType):
            yield from _widened_from_float(field.data_type, path)


def _recorded_changes(schema: StructType) -> Iterator[tuple[str, Any]]:
    """Yield each entry of `delta.typeChanges` with the path of its field."""
    for path, _, field in nested_types(schema):
        for change in () if field is None else _changes(field.metadata.get(TYPE_CHANGES_KEY)):
            yield ".".join(path), change


def _changes(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _is_known(change: Any) -> bool:
    types = _parsed(change)
    return types is not None and is_readable_change(*types)


def _parsed(change: Any) -> tuple[DataType, DataType] | None:
    """Return the old and new type in an entry of `delta.typeChanges`.

    Returns None if the entry is malformed.
    """
    if not isinstance(change, dict):
        return None
    try:
        before = data_type_from_json(change.get("fromType"))
        return before, data_type_from_json(change.get("toType"))
    except SchemaJsonError:
        return None


def _describe(change: Any, path: str) -> str:
    if not isinstance(change, dict):
        return f"{path}: {change!r}"
    inner = change.get("fieldPath")
    column = f"{path}.{inner}" if inner else path
    return f"{column}: {change.get('fromType')} -> {change.get('toType')}"
