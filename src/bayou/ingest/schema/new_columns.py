"""Adds new fields of records to the columns of their table.

A field can't become a column if its name differs from the name of a column only in case, or
contains a character that column names can't have. If a nested field can't be added, only this
field is refused; the other fields of its object are added. If the names of new fields differ only
in case, the lowercase name becomes the column, regardless of the order of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from bayou.ingest.decode import additions, leaf_count, merge_fields
from bayou.protocol.schema import ArrayType, DataType, StructField, StructType


def with_new_columns(
    columns: StructType,
    new_fields: Iterable[StructField],
    with_column: Callable[[StructType, StructField], StructType | None],
) -> tuple[StructType, frozenset[str]]:
    """Return the columns with the new fields added.

    Args:
        new_fields: the new fields as partial columns. The partial column of a nested field is a
            copy of its top-level column without the other fields.
        with_column: function that takes columns and a field. It returns the columns with the field
            added, or None if the table can't have the field.

    Returns:
        The columns, and the lowercase paths of the refused fields.
    """
    refused: set[str] = set()
    for path, field in _in_order(additions(columns, new_fields)):
        wider = with_column(columns, field)
        if wider is not None:
            columns = wider
            continue
        candidates = (with_column(columns, part) for part in _parts(field))
        first = next((valid for valid in candidates if valid is not None), None)
        if first is None:
            refused.add(path.lower())
        else:  # check each nested field on its own
            columns, more = with_new_columns(first, (field,), with_column)
            refused |= more
    return columns, frozenset(refused)


def within_limit(
    columns: StructType, new_fields: Iterable[StructField], room: int
) -> tuple[StructType, frozenset[str]]:
    """Return the new fields that fit within a maximum number of fields.

    If a field doesn't fit, a later field with fewer nested fields can still fit.

    Args:
        new_fields: the new fields as partial columns. The partial column of a nested field is a
            copy of its top-level column without the other fields.
        room: maximum number of fields. Nested fields count one by one, and the objects that contain
            them don't count.

    Returns:
        The fields that fit, and the lowercase paths of the other fields.
    """
    accepted = StructType()
    refused: set[str] = set()
    for path, field in additions(columns, new_fields):
        size = leaf_count(field.data_type)
        if size > room:
            refused.add(path.lower())
            continue
        room -= size
        accepted = merge_fields(accepted, (field,))
    return accepted, frozenset(refused)


def _in_order(fields: Iterable[tuple[str, StructField]]) -> list[tuple[str, StructField]]:
    """Group fields whose paths differ only in case; in each group, the lowercase path is first.

    The groups are in the order in which their first paths occur in `fields`.
    """
    items = list(fields)
    positions: dict[str, int] = {}
    for path, _ in items:
        positions.setdefault(path.lower(), len(positions))
    return sorted(items, key=lambda item: (positions[item[0].lower()], item[0].swapcase()))


def _parts(field: StructField) -> Iterator[StructField]:
    """Split a column into copies that contain only one leaf field each.

    The fields of a struct are sorted by name, with lowercase letters before uppercase letters.
    """
    for kind in _narrowed(field.data_type):
        yield field.with_data_type(kind)


def _narrowed(kind: DataType) -> Iterator[DataType]:
    match kind:
        case StructType():
            for field in sorted(kind, key=lambda f: f.name.swapcase()):
                for inner in _narrowed(field.data_type):
                    yield StructType((field.with_data_type(inner),))
        case ArrayType():
            for inner in _narrowed(kind.element_type):
                yield replace(kind, element_type=inner)
        case _:
            yield kind
