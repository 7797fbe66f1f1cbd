"""Which changes of schema a range of changes can be read across: those that only add columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bayou.kernel.table_features.column_mapping import ColumnMappingMode, physical_name
from bayou.protocol.schema import (
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructType,
)

__all__ = ["TableShape", "incompatibility"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """The schema that a table has at a version, and how its columns are mapped."""

    schema: StructType
    mode: ColumnMappingMode


def incompatibility(earlier: TableShape, later: TableShape) -> str | None:
    """Why rows written under one schema can't be read with a later one; None where they can.

    As delta-spark has it: the later schema may have more columns, and columns may become nullable;
    nothing else may differ. Column mapping, whose names alone tell a rename from a new column, may
    be turned on in between and not off.
    """
    return _mapping_change(earlier, later) or _schema_change(earlier.schema, later.schema, "")


def _mapping_change(earlier: TableShape, later: TableShape) -> str | None:
    if later.mode == "none":
        return None if earlier.mode == "none" else "column mapping was turned off"
    if earlier.mode not in ("none", later.mode):
        return f"the column mapping mode changed from {earlier.mode} to {later.mode}"
    names = dict(_physical_paths(later.schema, ()))
    # Turning the mapping on keeps the names: those of the files are then the physical ones.
    for path, name in _physical_paths(earlier.schema, ()):
        if path not in names:
            return f"column {name!r} was dropped, or replaced by one of the same name"
        if names[path] != name:
            return f"column {name!r} was renamed to {names[path]!r}"
    return None


def _physical_paths(
    data_type: DataType, prefix: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """(physical path, logical name) of every field, nested ones included."""
    match data_type:
        case StructType(fields):
            for field in fields:
                path = (*prefix, physical_name(field))
                yield path, field.name
                yield from _physical_paths(field.data_type, path)
        case ArrayType():
            yield from _physical_paths(data_type.element_type, (*prefix, "element"))
        case MapType():
            yield from _physical_paths(data_type.key_type, (*prefix, "key"))
            yield from _physical_paths(data_type.value_type, (*prefix, "value"))
        case _:
            return


def _schema_change(earlier: StructType, later: StructType, prefix: str) -> str | None:
    known = {field.name.lower(): field for field in later}
    for field in earlier:
        name = prefix + field.name
        other = known.get(field.name.lower())
        if other is None:
            return f"column {name!r} was dropped"
        if other.name != field.name:
            return f"column {name!r} was renamed to {prefix + other.name!r}"
        change = _null_change(name, field.nullable, other.nullable) or _type_change(
            field.data_type, other.data_type, name
        )
        if change is not None:
            return change
    return None


def _type_change(earlier: DataType, later: DataType, name: str) -> str | None:
    match earlier, later:
        case (StructType(), StructType()):
            return _schema_change(earlier, later, f"{name}.")
        case (ArrayType(), ArrayType()):
            name = f"{name}.element"
            return _null_change(name, earlier.contains_null, later.contains_null) or _type_change(
                earlier.element_type, later.element_type, name
            )
        case (MapType(), MapType()):
            nulls = earlier.value_contains_null, later.value_contains_null
            return (
                _null_change(f"{name}.value", *nulls)
                or _type_change(earlier.key_type, later.key_type, f"{name}.key")
                or _type_change(earlier.value_type, later.value_type, f"{name}.value")
            )
        case _:
            if earlier in (VOID, later):
                return None
            return f"column {name!r} changed its type from {earlier} to {later}"


def _null_change(name: str, earlier: bool, later: bool) -> str | None:
    """Rows with nulls don't fit what forbids them."""
    return f"{name!r} can no longer be null" if earlier and not later else None
