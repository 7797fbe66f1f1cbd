"""The table's schema behind a merge with schema evolution.

Columns, and fields of structs, come in that a clause puts a value of the source into. Columns that
the table has keep their type: what is put into them is cast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bayou.errors import SchemaError
from bayou.protocol.schema import (
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

__all__ = ["grown_schema"]


def grown_schema(
    table: str,
    target: StructType,
    source: StructType,
    assigned: Sequence[tuple[str, ...]],
    *,
    all_columns: bool,
) -> StructType:
    """The schema of the target with what clauses bring of the source.

    Args:
        assigned: paths that clauses assign to by name.
        all_columns: a clause takes all of the source's columns.

    Raises:
        SchemaError: a new column of nothing but nulls, without a type.
    """
    paths = [tuple(name.lower() for name in path) for path in assigned]
    brought = _brought(source, (), paths, all_columns=all_columns)
    return _merged(table, target, brought, "")


def _brought(
    fields: StructType,
    prefix: tuple[str, ...],
    assigned: Sequence[tuple[str, ...]],
    *,
    all_columns: bool,
) -> StructType:
    kept: list[StructField] = []
    for field in fields:
        path = (*prefix, field.name.lower())
        below = any(other[: len(path)] == path for other in assigned)
        if path in assigned:
            kept.append(field)
        elif isinstance(field.data_type, StructType) and (below or all_columns):
            inner = _brought(field.data_type, path, assigned, all_columns=all_columns)
            kept.append(field.with_data_type(inner))
        elif all_columns:
            kept.append(field)
    return StructType(tuple(kept))


def _merged(table: str, current: StructType, incoming: StructType, prefix: str) -> StructType:
    fields: list[StructField] = []
    for field in current:
        other = incoming.get(field.name)
        if other is None:
            fields.append(field)
        else:
            merged = _merged_type(table, field.data_type, other.data_type, prefix + field.name)
            fields.append(field.with_data_type(merged))
    for field in incoming:
        if current.get(field.name) is not None:
            continue
        path = prefix + field.name
        if field.data_type == VOID:
            raise SchemaError(
                f"Column {path!r} can't be added to {table}: the source has nothing but nulls "
                "without a type for it (DELTA_MERGE_ADD_VOID_COLUMN). Cast it.",
                table=table,
                column=path,
            )
        fields.append(replace(field, nullable=True))
    return StructType(tuple(fields))


def _merged_type(table: str, current: DataType, incoming: DataType, path: str) -> DataType:
    match current, incoming:
        case StructType(), StructType():
            return _merged(table, current, incoming, f"{path}.")
        case ArrayType(), ArrayType():
            inner = _merged_type(
                table, current.element_type, incoming.element_type, f"{path}.element"
            )
            return replace(current, element_type=inner)
        case MapType(), MapType():
            key = _merged_type(table, current.key_type, incoming.key_type, f"{path}.key")
            value = _merged_type(table, current.value_type, incoming.value_type, f"{path}.value")
            return replace(current, key_type=key, value_type=value)
        case _:
            return current
