"""How values of the kernel travel to other processes: name, format number, CRC-32, body.

The number is looked at before the body, so that what a newer version of the package wrote is
refused for what it is.

Record batches as bytes, in Arrow's IPC stream format.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow as pa

from bayou.errors import SchemaError, SerializationError

__all__ = ["WireFormat", "array_from_bytes", "array_to_bytes", "batch_from_bytes", "batch_to_bytes"]


_BodyT = TypeVar("_BodyT")
_T = TypeVar("_T")


class _Envelope(msgspec.Struct, frozen=True, array_like=True):
    name: str
    number: int
    checksum: int
    body: bytes


class WireFormat(Generic[_BodyT]):
    """The bytes of one kind of value.

    Args:
        name: what it is, in words: for messages, and to tell one kind from another.
        number: of the format that is written; formats up to it are read.
        body: type that the body decodes to. Fields added at the end of a struct with
            `array_like` and a default need no new number.
    """

    __slots__ = ("_body", "_envelope", "_name", "_number")

    def __init__(self, name: str, number: int, body: type[_BodyT]) -> None:
        self._name = name
        self._number = number
        self._body = msgspec.msgpack.Decoder(body)
        self._envelope = msgspec.msgpack.Decoder(_Envelope)

    def encode(self, body: _BodyT) -> bytes:
        """The bytes of a value."""
        data = msgspec.msgpack.encode(body)
        return msgspec.msgpack.encode((self._name, self._number, zlib.crc32(data), data))

    def decode(self, data: bytes, build: Callable[[_BodyT], _T]) -> _T:
        """The value out of its bytes.

        Args:
            build: makes the value of the body; the ValueErrors of a body that can't be one are
                taken for what they are.

        Raises:
            SerializationError: not such bytes, or of a newer version of the package.
        """
        try:
            envelope = self._envelope.decode(data)
            if envelope.name != self._name:
                raise SerializationError(
                    f"These bytes are a {envelope.name[:40]}, not a {self._name}."
                )
            if envelope.number > self._number:
                raise SerializationError(
                    f"This {self._name} has format {envelope.number}; this version of Bayou reads "
                    f"up to {self._number}. Run the same version in every process."
                )
            if envelope.checksum != zlib.crc32(envelope.body):
                raise SerializationError(
                    f"These bytes aren't a {self._name}: they were damaged on the way."
                )
            return build(self._body.decode(envelope.body))
        except _UNREADABLE as error:
            raise SerializationError(f"These bytes aren't a {self._name}: {error}.") from error


_UNREADABLE = (
    msgspec.DecodeError,
    pa.ArrowException,
    SchemaError,
    ArithmeticError,
    EOFError,
    KeyError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What decoders of bodies raise at bytes that aren't one."""


def batch_to_bytes(batch: pa.RecordBatch) -> bytes:
    """A batch with its schema; only the rows that the batch shows, were it a slice."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def batch_from_bytes(data: bytes) -> pa.RecordBatch:
    """The inverse of `batch_to_bytes`.

    Raises:
        pyarrow.ArrowInvalid: not such bytes.
    """
    with pa.ipc.open_stream(data) as reader:
        batch = reader.read_next_batch()
    batch.validate(full=True)  # whoever reads values of a batch trusts its offsets
    return batch


def array_to_bytes(array: pa.Array[Any]) -> bytes:
    """One column, with its type; only the rows that the array shows, were it a slice."""
    return batch_to_bytes(pa.RecordBatch.from_arrays([array], names=[""]))


def array_from_bytes(data: bytes) -> Any:
    """The inverse of `array_to_bytes`.

    Raises:
        pyarrow.ArrowInvalid: not such bytes.
    """
    return batch_from_bytes(data).column(0)
