"""How long texts may be: char and varchar, in columns and inside of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import ConstraintViolationError, UnsupportedFeatureError
from bayou.protocol.schema import SchemaJsonError, StructType
from bayou.protocol.type_string import LengthLimit, length_limits

__all__ = ["LengthLimits"]

pc: Any = pyarrow.compute


class LengthLimits:
    """A table's limits, ready for its batches.

    Raises:
        UnsupportedFeatureError: metadata that can't be read.
    """

    def __init__(self, table: str, schema: StructType) -> None:
        self._table = table
        self._limits: list[tuple[str, LengthLimit]] = []
        for path, limits in _limits(table, schema, ()):
            for limit in limits:
                whole = LengthLimit(path=(*path[1:], *limit.path), kind=limit.kind, most=limit.most)
                self._limits.append((path[0], whole))

    def check(self, rows: pa.RecordBatch) -> None:
        """Check rows of the table's columns.

        Raises:
            ConstraintViolationError: a text is too long; shows it.
        """
        for column, limit in self._limits:
            texts = _texts(rows.column(column), limit.path)
            if texts is None or not _holds_text(texts.type):
                continue
            if limit.kind == "char":
                texts = pc.utf8_rtrim(texts, " ")
            too_long = pc.fill_null(pc.greater(pc.utf8_length(texts), limit.most), False)
            index: int = too_long.index(True).as_py()
            if index >= 0:
                name = ".".join((column, *limit.path))
                text = repr(texts[index].as_py())
                raise ConstraintViolationError(
                    f"Rows break {name} {limit} of {self._table}: column {name!r} holds at most "
                    f"{limit.most} characters, and "
                    f"{text if len(text) <= 60 else f'{text[:60]}...'} has more "
                    "(DELTA_EXCEED_CHAR_VARCHAR_LIMIT). Nothing was "
                    "written; correct the rows, or leave them out.",
                    table=self._table,
                    constraint=f"{name} {limit}",
                )


def _limits(
    table: str, schema: StructType, prefix: tuple[str, ...]
) -> list[tuple[tuple[str, ...], tuple[LengthLimit, ...]]]:
    """Limits by the path of the field that carries them: columns, and fields added to structs."""
    found: list[tuple[tuple[str, ...], tuple[LengthLimit, ...]]] = []
    for field in schema:
        path = (*prefix, field.name)
        try:
            limits = length_limits(field)
        except SchemaJsonError as error:
            name = ".".join(path)
            raise UnsupportedFeatureError(
                f"{table} can't be written: the length limit of column {name!r} can't be read: "
                f"{error}.",
                table=table,
                features=[f"char/varchar in {name}"],
            ) from error
        if limits:
            found.append((path, limits))
        for inner, struct in _structs(field.data_type, path):
            found += _limits(table, struct, inner)
    return found


def _structs(data_type: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], StructType]]:
    if isinstance(data_type, StructType):
        return [(path, data_type)]
    steps = {"element": "element_type", "key": "key_type", "value": "value_type"}
    return [
        found
        for step, attribute in steps.items()
        if hasattr(data_type, attribute)
        for found in _structs(getattr(data_type, attribute), (*path, step))
    ]


def _texts(array: Any, path: tuple[str, ...]) -> Any:
    """The texts at a path, whatever row they are of; None where the rows lack it."""
    for step in path:
        if pa.types.is_struct(array.type):
            index = array.type.get_field_index(step)
            if index < 0:
                return None
            # `flatten` gives nulls where the struct itself is null.
            array = array.flatten()[index]
        elif pa.types.is_map(array.type):
            valid = array.filter(array.is_valid())
            array = _within(valid, valid.keys if step == "key" else valid.items)
        else:
            array = array.flatten()
    return array


def _within(array: Any, children: Any) -> Any:
    """Of a map array's children those of its own rows: a slice shares its parent's."""
    if len(array) == 0:
        return children.slice(0, 0)
    offsets = array.offsets
    return children.slice(offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py())


def _holds_text(kind: pa.DataType) -> bool:
    """Whether a limit can hold at all: another writer may have set one for another type."""
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
