"""Avro files with chosen metadata and blocks, such as damaged ones."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from bayou.kernel.iceberg.manifests.avro_file import (
    AvroFile,
    Block,
    encode_bytes,
    encode_long,
    read_avro_file,
)

_SYNC = b"synchronization."


def avro_bytes(file: AvroFile) -> bytes:
    """Return the bytes of a file."""
    parts = [b"Obj\x01", encode_long(len(file.metadata))]
    for key, value in file.metadata.items():
        parts += [encode_bytes(key.encode()), encode_bytes(value)]
    parts += [b"\0", _SYNC]
    for block in file.blocks:
        parts += [encode_long(block.count), encode_bytes(block.data), _SYNC]
    return b"".join(parts)


def deflated(records: Sequence[bytes]) -> Block:
    """Return a block for a file with the codec `deflate`."""
    compressor = zlib.compressobj(wbits=-15)
    return Block(len(records), compressor.compress(b"".join(records)) + compressor.flush())


def without_index(manifest: bytes) -> bytes:
    """Return a manifest as another writer would have written it, without Bayou's index."""
    file = read_avro_file(manifest)
    others = {key: value for key, value in file.metadata.items() if not key.startswith("bayou.")}
    return avro_bytes(AvroFile(others, file.blocks))
