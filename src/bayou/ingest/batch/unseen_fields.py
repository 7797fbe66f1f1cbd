"""Types of the fields that an expression reads but that no record has contained yet.

These fields are NULL, but the expression can have a value: `tags IS NULL OR size(tags) = 0` is
TRUE. To resolve the expression, each field gets a type with which the parts of the expression that
read it can be resolved. A part that can't be resolved with any of these types is NULL.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from bayou.errors import PredicateError
from bayou.kernel.expressions.model import (
    Column,
    Expression,
    Literal,
    operands_of,
    referenced_columns,
)
from bayou.kernel.expressions.resolution import map_operands, replace_columns, resolve_expression
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

Path: TypeAlias = tuple[str, ...]

POSSIBLE_TYPES: tuple[DataType, ...] = (
    STRING,
    LONG,
    DOUBLE,
    BOOLEAN,
    TIMESTAMP,
    DATE,
    BINARY,
    ArrayType(element_type=STRING),
    ArrayType(element_type=LONG),
    MapType(key_type=STRING, value_type=STRING),
    MapType(key_type=STRING, value_type=LONG),
)
"""The types that are tried for a field."""

UNSEEN = "\0unseen "
"""Name prefix of the NULL columns that replace fields that no record has contained yet."""


def with_types(
    expression: Expression, schema: StructType, types: Mapping[Path, DataType]
) -> tuple[Expression, StructType]:
    """Replace fields by new columns; return the expression, and the schema with these columns.

    Args:
        types: the type of each field, by the field's path.
    """
    by_path = {
        path: StructField(name=f"{UNSEEN}{number}", data_type=kind)
        for number, (path, kind) in enumerate(types.items())
    }

    def stand_in(column: Column) -> Expression:
        field = by_path.get(column.path)
        return column if field is None else Column((field.name,))

    return replace_columns(expression, stand_in), StructType((*schema, *by_path.values()))


def without_unresolvable(
    expression: Expression, schema: StructType, paths: Collection[Path]
) -> Expression:
    """Replace each part that reads a field and can't be resolved with any type by NULL.

    Args:
        paths: the paths of the fields. They aren't in `schema`.
    """
    if isinstance(expression, Column) or not _read_by(expression, paths):
        return expression
    expression = map_operands(expression, lambda o: without_unresolvable(o, schema, paths))
    read = _read_by(expression, paths)
    if len(read) > 1:
        return expression
    attempts = [{path: kind} for path in read for kind in POSSIBLE_TYPES] or [{}]
    resolvable = any(_can_be_resolved(expression, schema, types) for types in attempts)
    return expression if resolvable else Literal(None)


def possible_types(
    expression: Expression, schema: StructType, paths: Collection[Path]
) -> dict[Path, tuple[DataType, ...]]:
    """For each field that the expression reads, return the types that it can have.

    With each of these types, all parts of the expression that read no other field of `paths` can be
    resolved.

    Args:
        paths: the paths of the fields. They aren't in `schema`.
    """
    types = dict.fromkeys(_read_by(expression, paths), POSSIBLE_TYPES)
    parts = [expression]
    while parts:
        part = parts.pop()
        read = _read_by(part, paths)
        if len(read) > 1:
            parts += operands_of(part)
        for path in read if len(read) == 1 else ():
            types[path] = tuple(
                kind for kind in types[path] if _can_be_resolved(part, schema, {path: kind})
            )
    return types


def _read_by(expression: Expression, paths: Collection[Path]) -> Sequence[Path]:
    return [path for path in dict.fromkeys(referenced_columns(expression)) if path in paths]


def _can_be_resolved(
    expression: Expression, schema: StructType, types: Mapping[Path, DataType]
) -> bool:
    try:
        resolve_expression(*with_types(expression, schema, types))
    except PredicateError:
        return False
    return True
