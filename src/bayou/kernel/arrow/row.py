"""Single rows, and batches with a selection of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.errors import ArgumentError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.serialization import WireFormat, batch_from_bytes, batch_to_bytes

_AnyArray: TypeAlias = Any
"""A `pa.Array` whose type is known only at run time."""


class Row:
    """An immutable row: a schema and a value for each of its fields.

    `row["name"]` returns a Python value: a `Row` for a struct, a list for a list, a dictionary for
    a map, and None for null. A map whose keys are structs, lists or maps becomes a list of pairs.
    Two rows are equal if their schemas and values are equal.

    Args:
        batch: a batch with exactly one row.

    Examples:
        >>> row = Row.of(pa.schema([("id", pa.int64())]), {"id": 1})
        >>> print(row["id"], Row.from_bytes(row.to_bytes()).to_dict())
    """

    __slots__ = ("_batch",)

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    @classmethod
    def of(cls, schema: pa.Schema, values: Mapping[str, Any]) -> Row:
        """Create a row from Python values that pyarrow can convert to the fields' types.

        Raises:
            ArgumentError: a value can't be converted to its field's type.
        """
        try:
            return Row(pa.RecordBatch.from_pylist([dict(values)], schema=schema))
        except (pa.ArrowException, OverflowError, TypeError) as error:
            raise ArgumentError(
                f"values: the values don't match the row's schema: {error}.", argument="values"
            ) from error

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the fields, with their metadata."""
        return self.to_batch().schema

    def __getitem__(self, name: str) -> Any:
        """Return the value of a field.

        Raises:
            ArgumentError: the row has no field with this name, or has several of them.
        """
        batch = self.to_batch()
        if len(batch.schema.get_all_field_indices(name)) != 1:
            raise ArgumentError(
                f"Row: field {name!r} is missing or ambiguous. The row's fields are "
                f"{', '.join(batch.schema.names)}.",
                argument="name",
            )
        return _value(batch.column(name), 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the values by name, with nested structs as dictionaries."""
        return {name: _plain(self[name]) for name in self.schema.names}

    def to_batch(self) -> pa.RecordBatch:
        """Return the row as a batch. Use the batch for values that have no Python equivalent."""
        return self._batch

    def to_bytes(self) -> bytes:
        """Serialize the schema and the values. A connector may use its own format instead."""
        return _WIRE.encode(batch_to_bytes(self.to_batch()))

    @classmethod
    def from_bytes(cls, data: bytes) -> Row:
        """Deserialize a row from the bytes that `to_bytes` returned.

        Raises:
            SerializationError: the bytes are malformed, or a newer version of Bayou wrote them.
        """
        return _WIRE.decode(data, lambda body: Row(batch_from_bytes(body)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return self.to_batch().equals(other.to_batch(), check_metadata=True)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()!r})"


@dataclass(frozen=True, slots=True)
class FilteredColumnarBatch:
    """A batch and its selected rows; all rows are selected if `selection` is None.

    Examples:
        >>> batch = pa.record_batch({"id": [1, 2]})
        >>> filtered = FilteredColumnarBatch(batch, pa.array([True, False]))
        >>> print(filtered.num_selected, filtered.selected())
    """

    data: pa.RecordBatch
    selection: pa.BooleanArray | None = None

    @property
    def num_selected(self) -> int:
        """The number of selected rows."""
        if self.selection is None:
            return self.data.num_rows
        return self.selection.true_count

    def selected(self) -> pa.RecordBatch:
        """Return the selected rows as a batch."""
        if self.selection is None or self.selection.true_count == len(self.selection):
            return self.data
        return self.data.filter(self.selection)

    @closeable
    def rows(self) -> Iterator[Row]:
        """Yield the selected rows one by one. For many rows, work on the columns of `selected`."""
        batch = self.selected()
        for index in range(batch.num_rows):
            yield Row(batch.slice(index, 1))


_WIRE = WireFormat("row", 1, bytes)


def _value(array: _AnyArray, index: int) -> Any:
    data_type = array.type
    if isinstance(array, pa.ExtensionArray):
        return _value(array.storage, index)
    if not array[index].is_valid:
        return None
    if pa.types.is_struct(data_type):
        return Row(pa.RecordBatch.from_struct_array(array.slice(index, 1)))
    if pa.types.is_map(data_type):
        entries = array[index].values
        keys, items = entries.field(0), entries.field(1)
        pairs = [(_value(keys, i), _value(items, i)) for i in range(len(entries))]
        return pairs if pa.types.is_nested(data_type.key_type) else dict(pairs)
    if _is_list(data_type):
        elements = array[index].values
        return [_value(elements, i) for i in range(len(elements))]
    return array[index].as_py()


def _is_list(data_type: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_list(data_type)
        or types.is_large_list(data_type)
        or types.is_fixed_size_list(data_type)
    )


def _plain(value: Any) -> Any:
    match value:
        case Row():
            return value.to_dict()
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case tuple():
            return tuple(_plain(item) for item in value)
        case _:
            return value
