"""Operations on schema fields by path: find, add, change, drop, move.

A path is a sequence of names: a column name, then field names of structs, or `element`, `key` and
`value` inside arrays and maps. Names are case-insensitive, but an exact match takes precedence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from bayou.errors import SchemaError
from bayou.kernel.table_features.column_dependencies import ColumnPath, quote_path
from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType

Position: TypeAlias = str | None
"""Position of a field in its struct: the name of the preceding field, an empty string or None.

An empty string is the first position. None is the last position for a new field, and the current
position for an existing field.
"""


def resolve_path(table: str, schema: StructType, path: ColumnPath) -> ColumnPath:
    """Return a path with its names spelled as in the schema."""
    names: list[str] = []
    level: DataType = schema
    for step in path:
        name, level = _step(table, level, step, path)
        names.append(name)
    return tuple(names)


def field_at(table: str, schema: StructType, path: ColumnPath) -> StructField:
    """Return the field at a path; an array element, map key or map value is returned as a field."""
    level: DataType = schema
    for step in path[:-1]:
        _, level = _step(table, level, step, path)
    name, data_type = _step(table, level, path[-1], path)
    match level:
        case StructType():
            field = level.get(name)
            assert field is not None  # `_step` raises for unknown names
            return field
        case ArrayType():
            return StructField(name=name, data_type=data_type, nullable=level.contains_null)
        case MapType() if name == "value":
            return StructField(name=name, data_type=data_type, nullable=level.value_contains_null)
        case _:
            return StructField(name=name, data_type=data_type, nullable=False)


def with_field(
    table: str, schema: StructType, parent: ColumnPath, field: StructField, position: Position
) -> StructType:
    """Return the schema with a new field in the struct at the path `parent`."""

    def add(level: DataType) -> DataType:
        if not isinstance(level, StructType):
            raise SchemaError(
                f"{table}: {quote_path(parent)!r} has type {level}, but fields can only be added "
                "to a struct. For a struct in an array or map, end the path with .element, .key or "
                ".value.",
                table=table,
                column=quote_path(parent),
            )
        if any(f.name.lower() == field.name.lower() for f in level):
            path = quote_path((*parent, field.name))
            raise SchemaError(
                f"{table}: column {path!r} already exists (FIELD_ALREADY_EXISTS). Names are "
                "case-insensitive; choose another name.",
                table=table,
                column=path,
            )
        return StructType(_insert_at(table, level.fields, field, position, parent))

    return _edited(table, schema, parent, add)


def without_field(table: str, schema: StructType, path: ColumnPath) -> StructType:
    """Return the schema without a field."""
    *parent, name = resolve_path(table, schema, path)

    def drop(level: DataType) -> DataType:
        if not isinstance(level, StructType):
            raise SchemaError(
                f"{table}: {quote_path(path)!r} is part of a {level} and can't be dropped. Drop "
                "the whole column or a struct field.",
                table=table,
                column=quote_path(path),
            )
        remaining = tuple(f for f in level if f.name != name)
        if not remaining:
            raise SchemaError(
                f"{table}: {quote_path(path)!r} can't be dropped, because it is the last "
                + (
                    "field of its struct. Drop the struct."
                    if parent
                    else "column. Add another column first."
                ),
                table=table,
                column=quote_path(path),
            )
        return StructType(remaining)

    return _edited(table, schema, tuple(parent), drop)


def with_changed_field(
    table: str,
    schema: StructType,
    path: ColumnPath,
    change: Callable[[StructField], StructField],
    position: Position = None,
) -> StructType:
    """Return the schema with a field replaced by `change(field)` and moved to `position`."""
    *parent, name = resolve_path(table, schema, path)

    def edit(level: DataType) -> DataType:
        match level:
            case StructType():
                changed = tuple(change(f) if f.name == name else f for f in level)
                if position is None:
                    return StructType(changed)
                index = level.names.index(name)
                rest = (*changed[:index], *changed[index + 1 :])
                if position.lower() == name.lower():
                    return StructType(changed)
                return StructType(_insert_at(table, rest, changed[index], position, tuple(parent)))
            case ArrayType():
                field = StructField(
                    name=name, data_type=level.element_type, nullable=level.contains_null
                )
                return replace(level, element_type=change(field).data_type)
            case MapType() if name == "key":
                field = StructField(name=name, data_type=level.key_type, nullable=False)
                return replace(level, key_type=change(field).data_type)
            case MapType():
                field = StructField(
                    name=name, data_type=level.value_type, nullable=level.value_contains_null
                )
                return replace(level, value_type=change(field).data_type)
            case _:
                raise _no_field(table, path, level)

    return _edited(table, schema, tuple(parent), edit)


def _edited(
    table: str, schema: StructType, path: ColumnPath, edit: Callable[[DataType], DataType]
) -> StructType:
    result = _edit(table, schema, path, path, edit)
    assert isinstance(result, StructType)
    return result


def _edit(
    table: str,
    level: DataType,
    steps: ColumnPath,
    path: ColumnPath,
    edit: Callable[[DataType], DataType],
) -> DataType:
    if not steps:
        return edit(level)
    name, inner = _step(table, level, steps[0], path)
    changed = _edit(table, inner, steps[1:], path, edit)
    match level:
        case StructType():
            return StructType(
                tuple(f.with_data_type(changed) if f.name == name else f for f in level)
            )
        case ArrayType():
            return replace(level, element_type=changed)
        case MapType() if name == "key":
            return replace(level, key_type=changed)
        case MapType():
            return replace(level, value_type=changed)
        case _:
            raise _no_field(table, path, level)


def _step(table: str, level: DataType, step: str, path: ColumnPath) -> tuple[str, DataType]:
    match level:
        case StructType():
            field = level.get(step)
            if field is not None:
                return field.name, field.data_type
        case ArrayType() if step.lower() == "element":
            return "element", level.element_type
        case MapType() if step.lower() == "key":
            return "key", level.key_type
        case MapType() if step.lower() == "value":
            return "value", level.value_type
        case _:
            pass
    raise _no_field(table, path, level)


def _insert_at(
    table: str,
    fields: tuple[StructField, ...],
    field: StructField,
    position: Position,
    parent: ColumnPath,
) -> tuple[StructField, ...]:
    if position is None:
        return (*fields, field)
    if not position:
        return (field, *fields)
    for index, other in enumerate(fields):
        if other.name.lower() == position.lower():
            return (*fields[: index + 1], field, *fields[index + 1 :])
    raise _no_field(table, (*parent, position), StructType(fields))


def _no_field(table: str, path: ColumnPath, level: DataType) -> SchemaError:
    existing = f" Use one of: {', '.join(level.names)}." if isinstance(level, StructType) else ""
    return SchemaError(
        f"{table}: the table has no column {quote_path(path)!r}.{existing}",
        table=table,
        column=quote_path(path),
    )
