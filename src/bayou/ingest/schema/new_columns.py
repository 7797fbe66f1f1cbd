"""New fields of records as columns of their table: as many of them as it can have.

Names of columns differ by more than case, nested ones too, and some characters they can't have.
A field that can't be a column is refused by itself: the object that it lies in is a column without
it, as it would be if it had been known before. Of names that differ only in case the one with small
letters stays, whichever record came first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from bayou.ingest.decode import additions, leaf_count, merge_fields
from bayou.protocol.schema import ArrayType, DataType, StructField, StructType

__all__ = ["with_new_columns", "within_limit"]


def with_new_columns(
    columns: StructType,
    new_fields: Iterable[StructField],
    with_column: Callable[[StructType, StructField], StructType | None],
) -> tuple[StructType, frozenset[str]]:
    """Columns with new fields.

    Args:
        new_fields: partial columns, see `unknown_fields`.
        with_column: columns with one more, or with a partial one; None where that can't be.

    Returns:
        The columns, and in lower case the paths of fields that can't be one.
    """
    refused: set[str] = set()
    for path, field in _in_order(additions(columns, new_fields)):
        wider = with_column(columns, field)
        if wider is not None:
            columns = wider
            continue
        begun = (with_column(columns, part) for part in _parts(field))
        first = next((found for found in begun if found is not None), None)
        if first is None:
            refused.add(path.lower())
        else:  # what lies beside that part is looked at field by field
            columns, more = with_new_columns(first, (field,), with_column)
            refused |= more
    return columns, frozenset(refused)


def within_limit(
    columns: StructType, new_fields: Iterable[StructField], room: int
) -> tuple[StructType, frozenset[str]]:
    """The first new fields that a limit has room for; every way to add columns passes here.

    Args:
        new_fields: partial columns, see `unknown_fields`.
        room: fields that may be added, nested ones counted one by one.

    Returns:
        The new fields, and in lower case the paths of those beyond the limit.
    """
    found = StructType()
    refused: set[str] = set()
    for path, field in additions(columns, new_fields):
        size = leaf_count(field.data_type)
        if size > room:
            refused.add(path.lower())
            continue
        room -= size
        found = merge_fields(found, (field,))
    return found, frozenset(refused)


def _in_order(found: Iterable[tuple[str, StructField]]) -> list[tuple[str, StructField]]:
    """As they come, but for those that differ only in case."""
    given = list(found)
    places: dict[str, int] = {}
    for path, _ in given:
        places.setdefault(path.lower(), len(places))
    return sorted(given, key=lambda item: (places[item[0].lower()], item[0].swapcase()))


def _parts(field: StructField) -> Iterator[StructField]:
    """Partial columns with one field inside each, small letters first."""
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
