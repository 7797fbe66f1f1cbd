"""Converts a `pyarrow.compute.Expression` to a tree of calls.

pyarrow has no public functions to inspect an expression, so this module parses the serialized
expression, an Arrow IPC file. The metadata of the file's schema lists the nodes of the expression
in order. The file has one row; its columns contain the constants and the options of calls. If the
serialized expression can't be parsed, there is no tree, and the caller must not skip files.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pyarrow as pa

from bayou.api.datasets.pushdown.filter_calls import Call, Constant, FieldPath, FilterNode


def read_expression(expression: Any) -> FilterNode | None:
    """Return the tree of calls for an expression; None if the expression can't be parsed."""
    try:
        _, (buffer,) = expression.__reduce__()
        with pa.ipc.open_file(buffer) as reader:
            batch = reader.get_batch(0)
            reading = _Reading(_metadata_entries(reader.schema), batch)
        return reading.whole()
    except (
        AttributeError, IndexError, KeyError, TypeError, ValueError, UnicodeDecodeError,
        NotImplementedError, pa.ArrowException,
    ):  # fmt: skip
        return None


class _Reading:
    """Parses the list of nodes of a serialized expression; holds the position in the list."""

    def __init__(self, entries: list[tuple[bytes, bytes]], batch: pa.RecordBatch) -> None:
        self._entries = entries
        self._batch = batch
        self._position = 0

    def whole(self) -> FilterNode:
        node = self._node()
        if self._position != len(self._entries):
            raise ValueError("unexpected nodes after the end of the expression")
        return node

    def _next(self) -> tuple[bytes, bytes]:
        entry = self._entries[self._position]
        self._position += 1
        return entry

    def _node(self) -> FilterNode:
        kind, value = self._next()
        match kind:
            case b"literal":
                return Constant(scalar=self._scalar(value))
            case b"field_ref":
                return FieldPath(names=(value.decode(),))
            case b"nested_field_ref":
                return FieldPath(names=tuple(self._field_name() for _ in range(int(value))))
            case b"call":
                return self._call(value.decode())
            case _:
                raise ValueError(f"a node has the unknown kind {kind!r}")

    def _field_name(self) -> str:
        kind, value = self._next()
        if kind != b"field_ref":
            raise ValueError(f"a field has the unknown kind {kind!r}")
        return value.decode()

    def _call(self, name: str) -> Call:
        arguments: list[FilterNode] = []
        options: dict[str, Any] = {}
        while True:
            match self._entries[self._position]:
                case (b"end", _):
                    self._position += 1
                    return Call(name=name, arguments=tuple(arguments), options=options)
                case (b"options", column):
                    self._position += 1
                    options = dict(self._scalar(column).items())
                case _:
                    arguments.append(self._node())

    def _scalar(self, column: bytes) -> Any:
        return self._batch.column(int(column))[0]


class _ArrowSchema(ctypes.Structure):
    """The beginning of `struct ArrowSchema` of the Arrow C data interface."""

    _fields_ = (
        ("format", ctypes.c_void_p),
        ("name", ctypes.c_void_p),
        ("metadata", ctypes.c_void_p),
    )


def _metadata_entries(schema: pa.Schema) -> list[tuple[bytes, bytes]]:
    """Return the entries of a schema's metadata in order.

    `Schema.metadata` can't be used, because it is a dict and the metadata has duplicate keys.
    """
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = schema.__arrow_c_schema__()
    address = _ArrowSchema.from_address(pointer_of(capsule, b"arrow_schema")).metadata
    if address is None:
        return []

    def number() -> int:
        nonlocal address
        value = ctypes.c_int32.from_address(address).value
        address += ctypes.sizeof(ctypes.c_int32)
        return value

    def string() -> bytes:
        nonlocal address
        length = number()
        value = ctypes.string_at(address, length)
        address += length
        return value

    return [(string(), string()) for _ in range(number())]
