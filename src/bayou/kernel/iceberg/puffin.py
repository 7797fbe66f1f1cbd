"""Deletion vectors as blobs of Puffin files (Iceberg's Puffin spec, `deletion-vector-v1`).

A blob has the same bytes as a deletion vector in a Delta deletion vector file: size, vector and
checksum.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from bayou.protocol.deletion_vectors import encode_bitmap, frame

_MAGIC = b"PFA1"
_NO_FLAGS = bytes(4)
_ROW_POSITION_FIELD_ID = 2147483645


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A deletion vector to write to a Puffin file.

    Attributes:
        referenced_data_file: location of the data file whose rows are deleted.
        deleted: row indexes of the deleted rows.
    """

    referenced_data_file: str
    deleted: BitMap64


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobPosition:
    """Offset and length of a blob in its Puffin file."""

    offset: int
    length: int


def write_puffin(blobs: Sequence[Blob]) -> tuple[bytes, list[BlobPosition]]:
    """Return the bytes of a Puffin file, and the offset and length of each blob."""
    data = bytearray(_MAGIC)
    positions = []
    described = []
    for blob in blobs:
        body = frame(encode_bitmap(blob.deleted.serialize()))
        positions.append(BlobPosition(offset=len(data), length=len(body)))
        described.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_ROW_POSITION_FIELD_ID],
                "snapshot-id": -1,  # inherited from the manifest entry
                "sequence-number": -1,
                "offset": len(data),
                "length": len(body),
                "properties": {
                    "referenced-data-file": blob.referenced_data_file,
                    "cardinality": str(len(blob.deleted)),
                },
            }
        )
        data += body
    footer = json.dumps({"blobs": described, "properties": {"created-by": "bayou"}}).encode()
    data += _MAGIC + footer + len(footer).to_bytes(4, "little") + _NO_FLAGS + _MAGIC
    return bytes(data), positions
