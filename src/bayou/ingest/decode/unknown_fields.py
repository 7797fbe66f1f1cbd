"""Finds fields of records, at any depth, that have no column yet.

A field is described by its path and by its *partial column*. In a path such as `lines[].sku`, `[]`
stands for the elements of an array. The partial column is the field's top-level column without all
other fields: for `place.state`, a struct `place` with the only field `state`. `merge_fields` merges
the partial columns of many records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from bayou.ingest.decode.inference import infer_field
from bayou.ingest.decode.json_schema import is_json_text
from bayou.protocol.schema import ArrayType, DataType, StructField, StructType
from bayou.protocol.type_widening import is_automatic_widening


def unknown_fields(
    record: Mapping[str, Any], columns: StructType
) -> Iterator[tuple[str, StructField]]:
    """Yield the path and the partial column of each field of a record that isn't in `columns`.

    Fields whose value has no type (null, `[]`, `{}`) are skipped.
    """
    for path, kind in _unknown(record, columns, "", 0):
        assert isinstance(kind, StructType)
        yield path, kind.fields[0]


def nested_paths(column: StructField) -> Iterator[tuple[str, DataType]]:
    """Yield the lowercase path and the type of a column, and of each field in its structs."""
    yield column.name.lower(), column.data_type
    if isinstance(column.data_type, StructType):
        for field in column.data_type:
            for path, kind in nested_paths(field):
                yield f"{column.name.lower()}.{path}", kind


def additions(
    columns: StructType, new_fields: Iterable[StructField]
) -> Iterator[tuple[str, StructField]]:
    """Yield the path and the partial column of each field in `new_fields` that isn't in `columns`.

    Args:
        new_fields: the fields, as partial columns. Some of them can be in `columns` already.
    """
    for path, kind in _added(columns, StructType(tuple(new_fields)), ""):
        assert isinstance(kind, StructType)
        yield path, kind.fields[0]


def leaf_count(kind: DataType) -> int:
    """Return the number of leaf fields of a type: fields at any depth that have no nested fields.

    A map counts as one field. An array counts as many fields as its element type.
    """
    match kind:
        case StructType():
            return sum(leaf_count(field.data_type) for field in kind)
        case ArrayType():
            return leaf_count(kind.element_type)
        case _:
            return 1


def widened(columns: StructType, fields: Iterable[StructField]) -> StructType:
    """Return `columns`, where each column has its type in `fields` if that type is wider.

    All other differences between `columns` and `fields` are ignored.
    """
    types = {f.name: f.data_type for f in fields}
    return StructType(
        tuple(
            f.with_data_type(_wider(f.data_type, types[f.name])) if f.name in types else f
            for f in columns
        )
    )


def _wider(known: DataType, other: DataType) -> DataType:
    match known, other:
        case (StructType(), StructType()):
            return widened(known, other)
        case (ArrayType(), ArrayType()):
            return replace(known, element_type=_wider(known.element_type, other.element_type))
        case _:
            return other if is_automatic_widening(known, other) else known


def _unknown(value: Any, kind: DataType, path: str, level: int) -> Iterator[tuple[str, DataType]]:
    match kind, value:
        case (StructType(), dict()):
            columns = {f.name: f for f in kind}
            for name, inner in value.items():
                at = _join_path(path, name)
                known = columns.get(name)
                if known is None:
                    field = infer_field(name, inner, level)
                    if field is not None:
                        yield at, StructType((field,))
                elif not is_json_text(known):
                    for below, partial in _unknown(inner, known.data_type, at, level + 1):
                        yield below, _in_struct(known, partial)
        case (ArrayType(), list()):
            for inner in value:
                for below, partial in _unknown(inner, kind.element_type, f"{path}[]", level + 1):
                    yield below, ArrayType(element_type=partial)


def _added(kind: DataType, new: DataType, path: str) -> Iterator[tuple[str, DataType]]:
    match kind, new:
        case (StructType(), StructType()):
            columns = {f.name: f for f in kind}
            for field in new:
                at = _join_path(path, field.name)
                known = columns.get(field.name)
                if known is None:
                    yield at, StructType((field,))
                else:
                    for below, partial in _added(known.data_type, field.data_type, at):
                        yield below, _in_struct(known, partial)
        case (ArrayType(), ArrayType()):
            for below, partial in _added(kind.element_type, new.element_type, f"{path}[]"):
                yield below, ArrayType(element_type=partial)


def _in_struct(field: StructField, partial: DataType) -> StructType:
    return StructType((StructField(name=field.name, data_type=partial),))


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
