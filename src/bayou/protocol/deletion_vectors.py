"""Deletion vectors on disk and in the log (PROTOCOL.md, Deletion Vectors, Deletion Vector Format).

Invalid data raises a `DeletionVectorError`. Call `check_bitmap` before a library decodes a bitmap.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from dataclasses import dataclass
from itertools import pairwise

from bayou.protocol.actions import DeletionVectorDescriptor

FORMAT_VERSION = 1
"""First byte of a deletion vector file."""

_MAGIC = 1681511377
_NATIVE_MAGIC = 1681511376
"""Magic number of the older native format of deletion vectors.

In this format, the magic number is followed by the number of 32-bit bitmaps, and then by the
bitmaps with the keys 0, 1, 2, ... The size of each bitmap in bytes is stored before the bitmap.
delta-spark reads this format in little-endian order; the inline example of PROTOCOL.md is in
big-endian order.
"""

_UUID_CHARACTERS = 20
_FRAME_BYTES = 8
"""Number of bytes around a deletion vector in a file: size (4 bytes) and checksum (4 bytes)."""

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_VALUES = {character: value for value, character in enumerate(_Z85)}


class DeletionVectorError(ValueError):
    """An invalid descriptor or deletion vector; the kernel adds table and file to the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVector:
    """A byte range of a file: the size of a deletion vector, the vector and its checksum.

    Attributes:
        path: path relative to the table's root, or an absolute URI, encoded like `add.path`.
        offset: position of the range in the file. The range starts with the 4-byte size.
        length: total bytes of size, deletion vector and checksum (see `unframe`).
    """

    path: str
    is_absolute: bool
    offset: int
    length: int


def stored_vector(descriptor: DeletionVectorDescriptor) -> StoredVector:
    """Return the location of a deletion vector that is stored in a file.

    Raises:
        DeletionVectorError: the storage type isn't `u` or `p`, or the path or a size is invalid.
    """
    _check_sizes(descriptor)
    offset = descriptor.offset or FORMAT_VERSION
    if offset < 0:
        raise DeletionVectorError(f"the offset {offset} is negative")
    encoded = descriptor.path_or_inline_dv
    match descriptor.storage_type:
        case "p":
            path, is_absolute = encoded, True
        case "u":
            path, is_absolute = _relative_path(encoded), False
        case other:
            raise DeletionVectorError(f"unknown storage type {other!r}")
    return StoredVector(
        path=path,
        is_absolute=is_absolute,
        offset=offset,
        length=descriptor.size_in_bytes + _FRAME_BYTES,
    )


def vector_in_file(
    file: uuid.UUID, prefix: str, *, offset: int, size: int, cardinality: int
) -> DeletionVectorDescriptor:
    """Create the descriptor of a deletion vector in the table's folder (storage type `u`).

    Args:
        prefix: name of the file's folder; "" for the table's root.
    """
    return DeletionVectorDescriptor(
        storage_type="u",
        path_or_inline_dv=prefix + z85_encode(file.bytes),
        offset=offset,
        size_in_bytes=size,
        cardinality=cardinality,
    )


def file_path(file: uuid.UUID, prefix: str = "") -> str:
    """Return the path of a deletion vector file, relative to the table's root."""
    name = f"deletion_vector_{file}.bin"
    return f"{prefix}/{name}" if prefix else name


def inline_data(descriptor: DeletionVectorDescriptor) -> bytes:
    """Return the bytes of a deletion vector that the log contains (storage type `i`)."""
    _check_sizes(descriptor)
    data = z85_decode(descriptor.path_or_inline_dv)
    size = descriptor.size_in_bytes
    # Z85 encodes groups of four bytes: writers pad the last group.
    if not size <= len(data) < size + 4:
        raise DeletionVectorError(f"the vector has {len(data)} bytes, but the log says {size}")
    return data[:size]


def unframe(data: bytes, descriptor: DeletionVectorDescriptor) -> bytes:
    """Check the size and the checksum around a deletion vector; return only the deletion vector.

    Args:
        data: size (4 bytes), deletion vector and CRC-32 (4 bytes); both numbers are big-endian.
    """
    size = descriptor.size_in_bytes
    if len(data) < size + _FRAME_BYTES:
        raise DeletionVectorError(
            f"the file ends after {len(data)} of the {size + _FRAME_BYTES} bytes of the vector"
        )
    (stored,) = struct.unpack_from(">i", data)
    if stored != size:
        raise DeletionVectorError(
            f"the size is {stored} bytes in the file, but {size} bytes in the log"
        )
    body = data[4 : 4 + size]
    (expected,) = struct.unpack_from(">I", data, 4 + size)
    actual = zlib.crc32(body)
    if actual != expected:
        raise DeletionVectorError(
            f"the file is damaged: the checksum of the bitmap is {actual:08x}, but the file says "
            f"{expected:08x}"
        )
    return body


def frame(body: bytes) -> bytes:
    """Return the bytes to store in a file: size, deletion vector and CRC-32 (see `unframe`)."""
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def decode_bitmap(body: bytes) -> bytes:
    """Return the portable 64-bit Roaring bitmap of a deletion vector, without the magic number."""
    if len(body) >= 4:
        if int.from_bytes(body[:4], "little") == _MAGIC:
            return body[4:]
        for order in ("<", ">"):
            if struct.unpack_from(f"{order}I", body)[0] == _NATIVE_MAGIC:
                return _portable(body, order)
    magic = int.from_bytes(body[:4], "little")
    raise DeletionVectorError(f"the magic number of the deletion vector is {magic}, not {_MAGIC}")


def encode_bitmap(bitmap: bytes) -> bytes:
    """Return the deletion vector for a bitmap: the magic number, followed by the bitmap."""
    return _MAGIC.to_bytes(4, "little") + bitmap


def z85_decode(string: str) -> bytes:
    """Decode a Z85 string."""
    if len(string) % 5:
        raise DeletionVectorError(
            f"the length of the Z85 string is {len(string)}, not a multiple of 5"
        )
    result = bytearray()
    for start in range(0, len(string), 5):
        number = 0
        for character in string[start : start + 5]:
            value = _Z85_VALUES.get(character)
            if value is None:
                raise DeletionVectorError(f"{character!r} isn't a Z85 character")
            number = number * 85 + value
        if number >> 32:
            raise DeletionVectorError(f"{string[start : start + 5]!r} isn't a Z85 group")
        result += number.to_bytes(4, "big")
    return bytes(result)


def z85_encode(data: bytes) -> str:
    """Pad bytes with zeros to a multiple of four, and encode them as Z85."""
    padded = data + bytes(-len(data) % 4)
    result: list[str] = []
    for start in range(0, len(padded), 4):
        number = int.from_bytes(padded[start : start + 4], "big")
        group = []
        for _ in range(5):
            number, digit = divmod(number, 85)
            group.append(_Z85[digit])
        result += reversed(group)
    return "".join(result)


def check_bitmap(bitmap: bytes) -> None:
    """Validate a portable 64-bit Roaring bitmap: every container's header and contents.

    Libraries don't validate the counts in a bitmap. If a count is wrong, a library that decodes the
    bitmap writes to memory that it hasn't allocated.
    """
    try:
        (count,) = struct.unpack_from("<Q", bitmap)
        position, last = 8, -1
        for _ in range(count):
            (key,) = struct.unpack_from("<I", bitmap, position)
            if key <= last or key >> 31:
                raise DeletionVectorError("the keys of the buckets aren't sorted")
            last = key
            position = _check_bucket(bitmap, position + 4)
    except struct.error as error:
        raise DeletionVectorError("the bitmap is truncated") from error
    if position != len(bitmap):
        raise DeletionVectorError(f"the bitmap has {len(bitmap) - position} bytes too many")


# The 32-bit format: a cookie, a (key, cardinality - 1) pair per container, offsets, containers.
_COOKIE_WITHOUT_RUNS = 12346
_COOKIE_WITH_RUNS = 12347
_MIN_CONTAINERS_WITH_OFFSETS = 4
_MAX_ARRAY = 4096
_BITSET_BYTES = 8192


def _check_bucket(bitmap: bytes, start: int) -> int:
    """Validate the 32-bit bitmap that begins at byte `start`; return the offset of its end."""
    cookie: int = struct.unpack_from("<I", bitmap, start)[0]
    position = start + 4
    run_flags = 0
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        flag_bytes = (count + 7) // 8
        run_flags = int.from_bytes(bitmap[position : position + flag_bytes], "little")
        position += flag_bytes
    elif cookie == _COOKIE_WITHOUT_RUNS:
        (count,) = struct.unpack_from("<I", bitmap, position)
        position += 4
    else:
        raise DeletionVectorError(f"the bitmap has the unknown cookie {cookie}")
    if count > 1 << 16:
        raise DeletionVectorError(
            f"a bucket of the bitmap has {count} containers, but the maximum is {1 << 16}"
        )
    descriptions = struct.unpack_from(f"<{2 * count}H", bitmap, position)
    position += 4 * count
    if any(a >= b for a, b in pairwise(descriptions[::2])):
        raise DeletionVectorError("the keys of the containers aren't sorted")
    if cookie == _COOKIE_WITHOUT_RUNS or count >= _MIN_CONTAINERS_WITH_OFFSETS:
        offsets = struct.unpack_from(f"<{count}I", bitmap, position)
        position += 4 * count
    else:
        offsets = ()
    for i in range(count):
        if offsets and offsets[i] != position - start:
            raise DeletionVectorError("the offsets of the containers are wrong")
        cardinality = descriptions[2 * i + 1] + 1
        if run_flags >> i & 1:
            position = _check_runs(bitmap, position, cardinality)
        elif cardinality > _MAX_ARRAY:
            position = _check_bitset(bitmap, position, cardinality)
        else:
            position = _check_array(bitmap, position, cardinality)
    return position


def _check_runs(bitmap: bytes, position: int, cardinality: int) -> int:
    count: int = struct.unpack_from("<H", bitmap, position)[0]
    numbers = struct.unpack_from(f"<{2 * count}H", bitmap, position + 2)
    end = -1
    for first, length in zip(numbers[::2], numbers[1::2], strict=True):
        if first <= end:
            raise DeletionVectorError("the runs of a container in the bitmap aren't sorted")
        end = first + length
    if end >= 1 << 16 or sum(numbers[1::2]) + count != cardinality:
        raise DeletionVectorError(
            "the runs of a container in the bitmap don't match the container's cardinality"
        )
    return position + 2 + 4 * count


def _check_bitset(bitmap: bytes, position: int, cardinality: int) -> int:
    words = bitmap[position : position + _BITSET_BYTES]
    if len(words) < _BITSET_BYTES:
        raise DeletionVectorError("the bitmap is truncated")
    if int.from_bytes(words, "little").bit_count() != cardinality:
        raise DeletionVectorError(
            "the rows of a container in the bitmap don't match the container's cardinality"
        )
    return position + _BITSET_BYTES


def _check_array(bitmap: bytes, position: int, cardinality: int) -> int:
    numbers = struct.unpack_from(f"<{cardinality}H", bitmap, position)
    if any(a >= b for a, b in pairwise(numbers)):
        raise DeletionVectorError("the rows of a container in the bitmap aren't sorted")
    return position + 2 * cardinality


def _portable(body: bytes, order: str) -> bytes:
    """Convert a bitmap from the older native format to the portable format."""
    try:
        (count,) = struct.unpack_from(f"{order}I", body, 4)
        position = 8
        buckets: list[bytes] = []
        for key in range(count):
            (size,) = struct.unpack_from(f"{order}I", body, position)
            position += 4 + size
            if position > len(body):
                raise DeletionVectorError("the bitmap is truncated")
            buckets.append(struct.pack("<I", key) + body[position - size : position])
    except struct.error as error:
        raise DeletionVectorError("the bitmap is truncated") from error
    if position != len(body):
        raise DeletionVectorError(f"the bitmap has {len(body) - position} bytes too many")
    return struct.pack("<Q", count) + b"".join(buckets)


def _relative_path(encoded: str) -> str:
    if len(encoded) < _UUID_CHARACTERS:
        raise DeletionVectorError(
            f"{encoded!r} has fewer than {_UUID_CHARACTERS} characters, so it has no UUID"
        )
    prefix, file = encoded[:-_UUID_CHARACTERS], encoded[-_UUID_CHARACTERS:]
    return file_path(uuid.UUID(bytes=z85_decode(file)), prefix)


def _check_sizes(descriptor: DeletionVectorDescriptor) -> None:
    if descriptor.size_in_bytes < 0 or descriptor.cardinality < 0:
        raise DeletionVectorError(
            f"the size or cardinality in the log is negative ({descriptor.size_in_bytes} bytes, "
            f"{descriptor.cardinality} rows)"
        )
