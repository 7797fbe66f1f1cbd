"""Reading the blocks of Avro's object container files without decoding the records.

Bayou copies encoded records from one manifest to another. fastavro and pyiceberg can't return
encoded records, so this module parses the files (Avro spec, Object Container Files).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

CODEC_KEY = "avro.codec"
SCHEMA_KEY = "avro.schema"
DEFLATE = "deflate"
"""Avro codec of the manifests and manifest lists that Bayou writes."""
_MAGIC = b"Obj\x01"
_SYNC_SIZE = 16
_RAW_DEFLATE = -15
_SINGLE_BYTES = [bytes([byte]) for byte in range(0x80)]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of `count` records of an Avro file, compressed with the file's codec."""

    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class AvroFile:
    """The metadata and the blocks of an Avro file."""

    metadata: Mapping[str, bytes]
    blocks: Sequence[Block]

    @property
    def codec(self) -> str:
        """Codec of the blocks."""
        return self.metadata.get(CODEC_KEY, b"null").decode(errors="replace")

    def records(self, block: Block) -> bytes:
        """Return the encoded records of a block of this file.

        Raises:
            ValueError: the block is damaged, or the codec is neither `null` nor `deflate`.
        """
        if self.codec == "null":
            return block.data
        if self.codec != DEFLATE:
            raise ValueError(f"the codec {self.codec} isn't supported")
        try:
            return zlib.decompress(block.data, _RAW_DEFLATE)
        except zlib.error as error:
            raise ValueError(f"a block is damaged: {error}") from error


def read_avro_file(data: bytes) -> AvroFile:
    """Parse the metadata and the blocks of an Avro file, but don't decode the records.

    Raises:
        ValueError, IndexError: `data` isn't an Avro file, or is truncated.
    """
    metadata, position = _header(data)
    sync = data[position - _SYNC_SIZE : position]
    return AvroFile(metadata, list(_blocks(data, position, sync)))


def read_metadata(data: bytes, key: str) -> dict[str, bytes]:
    """Parse the metadata at the beginning of an Avro file, up to the metadata key `key`.

    If the metadata doesn't have this key, all metadata is parsed.

    Raises:
        ValueError, IndexError: `data` isn't from an Avro file, or ends within the metadata.
    """
    return _header(data, last_key=key)[0]


def encode_long(value: int) -> bytes:
    """Encode an `int` or `long` as a variable-length zigzag number."""
    number = (value << 1) ^ (value >> 63)
    if number < 0x80:
        return _SINGLE_BYTES[number]
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def decode_long(data: bytes, position: int) -> tuple[int, int]:
    """Decode the `int` or `long` at `position`; return the number and the position after it."""
    byte = data[position]
    number, shift = byte & 0x7F, 7
    while byte & 0x80:
        position += 1
        byte = data[position]
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), position + 1


def encode_bytes(value: bytes) -> bytes:
    """Encode `bytes`, or a `string` as UTF-8, preceded by the length."""
    return encode_long(len(value)) + value


def decode_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Decode the `bytes` or `string` at `position`; return its bytes and the position after it.

    Raises:
        ValueError: the value is truncated.
    """
    length, start = decode_long(data, position)
    end = start + length
    if length < 0 or end > len(data):
        raise ValueError("the file is truncated")
    return data[start:end], end


def _header(data: bytes, last_key: str | None = None) -> tuple[dict[str, bytes], int]:
    if data[: len(_MAGIC)] != _MAGIC:
        raise ValueError("it doesn't begin with Avro's magic bytes")
    metadata = {}
    position = len(_MAGIC)
    while True:
        count, position = decode_long(data, position)
        if count == 0:
            break
        if count < 0:  # the size of the map's block follows
            count, (_, position) = -count, decode_long(data, position)
        for _ in range(count):
            encoded, position = decode_bytes(data, position)
            key = encoded.decode()
            metadata[key], position = decode_bytes(data, position)
            if key == last_key:
                return metadata, position
    if position + _SYNC_SIZE > len(data):
        raise ValueError("the file is truncated")
    return metadata, position + _SYNC_SIZE


def _blocks(data: bytes, position: int, sync: bytes) -> Iterator[Block]:
    while position < len(data):
        count, position = decode_long(data, position)
        block, position = decode_bytes(data, position)
        end = position + _SYNC_SIZE
        if data[position:end] != sync:
            raise ValueError("a block isn't followed by the file's sync marker")
        position = end
        yield Block(count, block)
