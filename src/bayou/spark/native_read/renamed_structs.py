"""Structs under their logical names, in a form through which Spark still prunes fields.

A cast from physical to logical names is opaque to Catalyst: whoever asks for one field of the
result has the whole struct read. Fields that are put into the struct it sees through
(`SimplifyExtractValueOps`): it takes the physical field itself, and reads no other.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql.types import DataType, StructType

__all__ = ["renamed"]


def renamed(column: Column, physical: DataType, logical: DataType) -> Column:
    """A column of a physical type, of the same shape as the logical one, as the latter.

    Structs are taken apart; arrays and maps of structs, and structs whose fields aren't nullable or
    have metadata (both would be lost), are cast.
    """
    if physical.simpleString() == logical.simpleString():
        return column
    if isinstance(physical, StructType) and isinstance(logical, StructType) and _plain(logical):
        return _taken_apart(column, physical, logical)
    return column.cast(logical)


def _plain(logical: StructType) -> bool:
    return all(field.nullable and not field.metadata for field in logical)


def _taken_apart(column: Column, physical: StructType, logical: StructType) -> Column:
    values = [
        renamed(column.getField(below.name), below.dataType, above.dataType)
        for below, above in zip(physical, logical, strict=True)
    ]
    if physical.names == logical.names:  # deeper ones alone are renamed, each where it stands
        for below, above, value in zip(physical, logical, values, strict=True):
            if below.dataType.simpleString() != above.dataType.simpleString():
                column = column.withField(_quoted(above.name), value)
        return column
    taken = {name.lower() for name in physical.names}
    if taken.isdisjoint(name.lower() for name in logical.names):
        return _with_fields(column, logical.names, values).dropFields(*_all_quoted(physical.names))
    # Names that are below and above, perhaps of other fields: by way of names that are neither.
    taken |= {name.lower() for name in logical.names}
    between = _unused_names(len(values), taken)
    moved = _with_fields(column, between, values).dropFields(*_all_quoted(physical.names))
    named = [moved.getField(name) for name in between]
    return _with_fields(moved, logical.names, named).dropFields(*_all_quoted(between))


def _with_fields(column: Column, names: list[str], values: list[Column]) -> Column:
    for name, value in zip(names, values, strict=True):
        column = column.withField(_quoted(name), value)
    return column


def _unused_names(count: int, taken: set[str]) -> list[str]:
    prefix = "field"
    while any(name.startswith(prefix) for name in taken):
        prefix = f"_{prefix}"
    return [f"{prefix}{number}" for number in range(count)]


def _all_quoted(names: Any) -> list[str]:
    return [_quoted(name) for name in names]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
