"""Adds new fields of records as columns of a table.

Some fields can't become columns: the name differs from the name of a column only in case, or it
contains a character that column names can't have. If this is true of a nested field, the other
fields of its object are still added. If the names of two new fields differ only in case, the field
with the lowercase name becomes the column, regardless of the order of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from bayou.ingest.decode import additions, leaf_count, merge_all
from bayou.protocol.schema import ArrayType, DataType, StructField, StructType


def with_new_columns(
    columns: StructType,
    new_fields: Iterable[StructField],
    with_column: Callable[[StructType, StructField], StructType | None],
) -> tuple[StructType, frozenset[str]]:
    """Add new fields to columns.

    Args:
        new_fields: the new fields as partial columns. The partial column of a nested field is its
            top-level column without all other fields.
        with_column: function that adds a field to columns and returns the new columns. It returns
            None if the table can't have the field.

    Returns:
        The new columns, and the lowercase paths of the fields that can't be added.
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
    """Return new fields up to a maximum number of leaf fields; see `leaf_count`.

    If a field has too many leaf fields for the remaining number, a later field can still be
    returned.

    Args:
        columns: the known columns. Fields in `new_fields` that are known already are skipped.
        new_fields: the new fields as partial columns. The partial column of a nested field is its
            top-level column without all other fields.
        room: maximum number of leaf fields.

    Returns:
        The fields up to the maximum, and the lowercase paths of all other fields.
    """
    accepted: list[StructField] = []
    refused: set[str] = set()
    for path, field in additions(columns, new_fields):
        size = leaf_count(field.data_type)
        if size > room:
            refused.add(path.lower())
            continue
        room -= size
        accepted.append(field)
    return merge_all(accepted), frozenset(refused)


def _in_order(fields: Iterable[tuple[str, StructField]]) -> list[tuple[str, StructField]]:
    """Group fields whose paths differ only in case. In a group, the lowercase path is first.

    The groups are in the order in which their first fields occur in `fields`.
    """
    items = list(fields)
    positions: dict[str, int] = {}
    for path, _ in items:
        positions.setdefault(path.lower(), len(positions))
    return sorted(items, key=lambda item: (positions[item[0].lower()], item[0].swapcase()))


def _parts(field: StructField) -> Iterator[StructField]:
    """Split a column into partial columns that contain one leaf field each.

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
