"""Length limits of char and varchar, for columns and for nested fields."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.errors import ConstraintViolationError, UnsupportedFeatureError
from bayou.kernel.arrow.compute import pc
from bayou.protocol.schema import SchemaJsonError, StructType
from bayou.protocol.sql import LengthLimit, length_limits


class LengthLimits:
    """Checks the char and varchar limits of a table's columns."""

    def __init__(self, table: str, schema: StructType) -> None:
        self._table = table
        self._limits: list[tuple[str, LengthLimit]] = []
        for path, limits in _limits(table, schema, ()):
            for limit in limits:
                path_in_column = (*path[1:], *limit.path)
                column_limit = LengthLimit(
                    path=path_in_column, kind=limit.kind, max_length=limit.max_length
                )
                self._limits.append((path[0], column_limit))

    def check(self, rows: pa.RecordBatch) -> None:
        """Raise an error if a string in `rows` is too long; `rows` has the table's columns."""
        for column, limit in self._limits:
            strings = _strings(rows.column(column), limit.path)
            if strings is None or not _is_string_type(strings.type):
                continue
            if limit.kind == "char":
                strings = pc.utf8_rtrim(strings, " ")
            too_long = pc.fill_null(pc.greater(pc.utf8_length(strings), limit.max_length), False)
            index: int = too_long.index(True).as_py()
            if index >= 0:
                name = ".".join((column, *limit.path))
                value = repr(strings[index].as_py())
                raise ConstraintViolationError(
                    f"{self._table}: column {name!r} has the type {limit}. Its values have at most "
                    f"{limit.max_length} characters, but "
                    f"{value if len(value) <= 60 else f'{value[:60]}...'} is longer "
                    "(DELTA_EXCEED_CHAR_VARCHAR_LIMIT). No rows were written. Correct or remove "
                    "the rows.",
                    table=self._table,
                    constraint=f"{name} {limit}",
                )


def _limits(
    table: str, schema: StructType, prefix: tuple[str, ...]
) -> list[tuple[tuple[str, ...], tuple[LengthLimit, ...]]]:
    all_limits: list[tuple[tuple[str, ...], tuple[LengthLimit, ...]]] = []
    for field in schema:
        path = (*prefix, field.name)
        try:
            limits = length_limits(field)
        except SchemaJsonError as error:
            name = ".".join(path)
            raise UnsupportedFeatureError(
                f"{table} can't be written: the length limit of column {name!r} can't be parsed: "
                f"{error}. Correct the column's metadata in the schema.",
                table=table,
                features=[f"char/varchar in {name}"],
            ) from error
        if limits:
            all_limits.append((path, limits))
        for inner, struct in _structs(field.data_type, path):
            all_limits += _limits(table, struct, inner)
    return all_limits


def _structs(data_type: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], StructType]]:
    if isinstance(data_type, StructType):
        return [(path, data_type)]
    steps = {"element": "element_type", "key": "key_type", "value": "value_type"}
    return [
        struct
        for step, attribute in steps.items()
        if hasattr(data_type, attribute)
        for struct in _structs(getattr(data_type, attribute), (*path, step))
    ]


def _strings(array: Any, path: tuple[str, ...]) -> Any:
    """Return all strings at a path in a column as a flat array; None if the path doesn't exist."""
    for step in path:
        if pa.types.is_struct(array.type):
            index = array.type.get_field_index(step)
            if index < 0:
                return None
            # `flatten` returns nulls for null structs.
            array = array.flatten()[index]
        elif pa.types.is_map(array.type):
            valid = array.filter(array.is_valid())
            array = _sliced_children(valid, valid.keys if step == "key" else valid.items)
        else:
            array = array.flatten()
    return array


def _sliced_children(array: Any, children: Any) -> Any:
    """Return the keys or values of a map array.

    The map array may be a slice of a larger array. pyarrow's attributes `keys` and `items` then
    have the entries of the larger array.

    Args:
        children: `array.keys` or `array.items`.
    """
    if len(array) == 0:
        return children.slice(0, 0)
    offsets = array.offsets
    return children.slice(offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py())


def _is_string_type(data_type: pa.DataType) -> bool:
    """Whether a type can have a length limit. A limit on another type is ignored."""
    return (
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_string_view(data_type)
    )
