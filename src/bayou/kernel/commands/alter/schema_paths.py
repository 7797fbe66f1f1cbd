"""Fields of a schema by their paths: found, added, replaced, dropped, moved.

A path's steps are names of fields, and `element`, `key` and `value` through arrays and maps. Names
match exactly, else without regard to case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from bayou.errors import SchemaError
from bayou.kernel.table_features.column_dependencies import ColumnPath, path_text
from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType

__all__ = [
    "ColumnPath",
    "Position",
    "field_at",
    "path_text",
    "spelled",
    "with_changed_field",
    "with_field",
    "without_field",
]

Position: TypeAlias = str | None
"""Name of the field to stand behind; empty: first; None: last, or where it is."""


def spelled(table: str, schema: StructType, path: ColumnPath) -> ColumnPath:
    """A path with the names as they stand in the schema.

    Raises:
        SchemaError: there is no such field.
    """
    names: list[str] = []
    level: DataType = schema
    for step in path:
        name, level = _step(table, level, step, path)
        names.append(name)
    return tuple(names)


def field_at(table: str, schema: StructType, path: ColumnPath) -> StructField:
    """The field at a path, or what a step through an array or map leads to, as a field.

    Raises:
        SchemaError: there is no such field.
    """
    level: DataType = schema
    for step in path[:-1]:
        _, level = _step(table, level, step, path)
    name, data_type = _step(table, level, path[-1], path)
    match level:
        case StructType():
            found = level.get(name)
            assert found is not None  # or _step raises
            return found
        case ArrayType():
            return StructField(name=name, data_type=data_type, nullable=level.contains_null)
        case MapType() if name == "value":
            return StructField(name=name, data_type=data_type, nullable=level.value_contains_null)
        case _:
            return StructField(name=name, data_type=data_type, nullable=False)


def with_field(
    table: str, schema: StructType, parent: ColumnPath, field: StructField, position: Position
) -> StructType:
    """The schema with a new field in the struct at a path.

    Raises:
        SchemaError: the parent isn't a struct, has such a field already (without regard to case),
            or lacks the one that the new field is to stand behind.
    """

    def add(level: DataType) -> DataType:
        if not isinstance(level, StructType):
            raise SchemaError(
                f"{table}: {path_text(parent)!r} is of type {level}, and only a struct can be "
                "given fields (for an array name its 'element', for a map its 'value').",
                table=table,
                column=path_text(parent),
            )
        if any(f.name.lower() == field.name.lower() for f in level):
            path = path_text((*parent, field.name))
            raise SchemaError(
                f"{table} has a column {path!r} already (names are the same in any case).",
                table=table,
                column=path,
            )
        return StructType(_placed(table, level.fields, field, position, parent))

    return _edited(table, schema, parent, add)


def without_field(table: str, schema: StructType, path: ColumnPath) -> StructType:
    """The schema without a field.

    Raises:
        SchemaError: there is no such field, or its struct would be empty.
    """
    *parent, name = spelled(table, schema, path)

    def drop(level: DataType) -> DataType:
        if not isinstance(level, StructType):
            raise SchemaError(
                f"{table}: {path_text(path)!r} is the inside of a {level} and can't be dropped.",
                table=table,
                column=path_text(path),
            )
        left = tuple(f for f in level if f.name != name)
        if not left:
            raise SchemaError(
                f"{table}: {path_text(path)!r} can't be dropped: it is the last "
                + ("field of its struct." if parent else "column."),
                table=table,
                column=path_text(path),
            )
        return StructType(left)

    return _edited(table, schema, tuple(parent), drop)


def with_changed_field(
    table: str,
    schema: StructType,
    path: ColumnPath,
    change: Callable[[StructField], StructField],
    position: Position = None,
) -> StructType:
    """The schema with the field at a path changed, and moved where a position is given.

    Raises:
        SchemaError: there is no such field, or the one to stand behind is missing.
    """
    *parent, name = spelled(table, schema, path)

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
                return StructType(_placed(table, rest, changed[index], position, tuple(parent)))
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


def _placed(
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
    there = f"; there are {', '.join(level.names)}" if isinstance(level, StructType) else ""
    return SchemaError(
        f"{table} has no column {path_text(path)!r}{there}.", table=table, column=path_text(path)
    )
