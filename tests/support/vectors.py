"""Encodes deletion vectors for tests of readers, independently of the package."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyroaring import BitMap64

from bayou.kernel.engine import Engine
from bayou.protocol.deletion_vectors import z85_encode
from bayou.protocol.file_names import data_file_path_to_uri

__all__ = ["inline_vector", "vector_bytes", "write_vectors"]


def vector_bytes(rows: Iterable[int]) -> bytes:
    """Return a serialized deletion vector: magic number and bitmap."""
    bitmap = BitMap64(rows)
    bitmap.run_optimize()
    return (1681511377).to_bytes(4, "little") + bytes(bitmap.serialize())


def inline_vector(rows: Sequence[int]) -> Mapping[str, Any]:
    """Return a descriptor of an inline deletion vector."""
    data = vector_bytes(rows)
    return {
        "storageType": "i",
        "pathOrInlineDv": z85_encode(data),
        "sizeInBytes": len(data),
        "cardinality": len(set(rows)),
    }


def write_vectors(
    engine: Engine,
    table: str,
    *vectors: Sequence[int],
    prefix: str = "",
    absolute: bool = False,
) -> list[Mapping[str, Any]]:
    """Write one file with several deletion vectors; return their descriptors.

    Args:
        engine: the engine.
        table: the table's path.
        vectors: the row indexes of each vector.
        prefix: folder of the file in the table's folder.
        absolute: whether the descriptors have the absolute path of the file.
    """
    name = uuid.uuid4()
    folder = f"{table}/{prefix}".rstrip("/")
    path = f"{folder}/deletion_vector_{name}.bin"
    content = bytearray(b"\x01")
    descriptors: list[Mapping[str, Any]] = []
    for rows in vectors:
        data = vector_bytes(rows)
        descriptors.append(
            {
                "storageType": "p" if absolute else "u",
                "pathOrInlineDv": data_file_path_to_uri(path)
                if absolute
                else prefix + z85_encode(name.bytes),
                "offset": len(content),
                "sizeInBytes": len(data),
                "cardinality": len(set(rows)),
            }
        )
        content += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    engine.files.mkdirs(folder)
    engine.files.put(path, bytes(content))
    return descriptors
