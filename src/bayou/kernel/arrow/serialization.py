"""Serialization of kernel values for other processes.

The bytes contain the name of the format, the version of the format, the value and a CRC-32 of the
value. Bytes of a format version that is too new raise `SerializationError`. Record batches are
serialized in Arrow's IPC stream format.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

import msgspec
import pyarrow as pa

from bayou.errors import SchemaError, SerializationError

_BodyT = TypeVar("_BodyT")
_T = TypeVar("_T")


class _Envelope(msgspec.Struct, frozen=True, array_like=True):
    name: str
    number: int
    checksum: int
    body: bytes


class WireFormat(Generic[_BodyT]):
    """The serialization format of one kind of value.

    Args:
        name: name of the kind of value, such as "scan".
        number: version of the format. Bytes of this version or an earlier one can be read.
        body: msgspec type of the value. Increase `number` when this type changes, unless the only
            change is a new last field with a default in an `array_like` struct.
    """

    __slots__ = ("_body", "_envelope", "_name", "_number")

    def __init__(self, name: str, number: int, body: type[_BodyT]) -> None:
        self._name = name
        self._number = number
        self._body = msgspec.msgpack.Decoder(body)
        self._envelope = msgspec.msgpack.Decoder(_Envelope)

    def encode(self, body: _BodyT) -> bytes:
        data = msgspec.msgpack.encode(body)
        return msgspec.msgpack.encode((self._name, self._number, zlib.crc32(data), data))

    def decode(self, data: bytes, build: Callable[[_BodyT], _T]) -> _T:
        """Deserialize a value.

        Args:
            build: function that creates the value from an instance of `body`, or raises ValueError
                if the instance is invalid.

        Raises:
            SerializationError: the bytes are malformed, or a newer version of Bayou wrote them.
        """
        try:
            envelope = self._envelope.decode(data)
            if envelope.name != self._name:
                raise SerializationError(
                    f"These bytes contain a {envelope.name[:40]}, not a {self._name}. Deserialize "
                    "them with the class that serialized them."
                )
            if envelope.number > self._number:
                raise SerializationError(
                    f"This {self._name} has format {envelope.number}, but this version of Bayou "
                    f"reads formats up to {self._number}. Use the same version of Bayou in every "
                    "process."
                )
            if envelope.checksum != zlib.crc32(envelope.body):
                raise SerializationError(
                    f"These bytes aren't a {self._name}: the checksum doesn't match. Pass the "
                    "unchanged bytes that to_bytes returned."
                )
            return build(self._body.decode(envelope.body))
        except _DECODING_ERRORS as error:
            raise SerializationError(
                f"These bytes aren't a {self._name}: {error}. Pass the unchanged bytes that "
                "to_bytes returned."
            ) from error


class PickledTask:
    """Base class of tasks and results that Bayou's own processes exchange as pickles.

    Both processes run the same version of Bayou. Objects that connectors serialize (scan, scan
    state, log slice, scan file, transaction state, expression) use a `WireFormat` instead.
    """

    __slots__ = ()

    def to_bytes(self) -> bytes:
        """Return the object as bytes for another process of the same application."""
        return pickle.dumps(self, protocol=pickle.HIGHEST_PROTOCOL)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Deserialize an object. Pass only bytes that come from a trusted process.

        Raises:
            SerializationError: the bytes are malformed, or hold an object of another class.
        """
        try:
            value = pickle.loads(data)  # noqa: S301  # written by the driver or a task of its job
        except (pickle.UnpicklingError, EOFError) as error:
            raise SerializationError(
                f"These bytes aren't a {cls.__name__}: {error}. Pass the unchanged bytes that "
                "to_bytes returned."
            ) from error
        if not isinstance(value, cls):
            raise SerializationError(
                f"These bytes are a {type(value).__name__}, not a {cls.__name__}. Deserialize them "
                "with the class that serialized them."
            )
        return value


_DECODING_ERRORS = (
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
"""Errors that decoding a malformed body raises."""


def batch_to_bytes(batch: pa.RecordBatch) -> bytes:
    """Serialize a batch with its schema.

    If the batch is a slice of a larger batch, only the rows of the slice are serialized.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def batch_from_bytes(data: bytes) -> pa.RecordBatch:
    """Deserialize a batch from the bytes that `batch_to_bytes` returned."""
    with pa.ipc.open_stream(data) as reader:
        batch = reader.read_next_batch()
    batch.validate(full=True)  # reading values with invalid offsets is unsafe
    return batch


def array_to_bytes(array: pa.Array[Any]) -> bytes:
    """Serialize an array with its type.

    If the array is a slice of a larger array, only the values of the slice are serialized.
    """
    return batch_to_bytes(pa.RecordBatch.from_arrays([array], names=[""]))


def array_from_bytes(data: bytes) -> Any:
    """Deserialize an array from the bytes that `array_to_bytes` returned."""
    return batch_from_bytes(data).column(0)
