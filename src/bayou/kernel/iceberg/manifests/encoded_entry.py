"""Reads fields of encoded manifest entries, and copies encoded entries to other manifests.

An entry in Avro's binary encoding begins with the status, the snapshot id and the sequence numbers.
If an entry is copied to another manifest, only these fields change.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from bayou.json_decoding import decode_json
from bayou.kernel.iceberg.manifests.avro_file import (
    decode_bytes,
    decode_long,
    encode_long,
)
from bayou.kernel.iceberg.manifests.entries import (
    ADDED,
    DATA,
    DELETED,
    EXISTING,
    DataFile,
    ManifestFile,
)

_NULL = b"\x00"
_NOT_NULL = b"\x02"
_STATUS = {status: encode_long(status) for status in (EXISTING, ADDED, DELETED)}


@dataclass(frozen=True, slots=True)
class EncodedFile:
    """The fields of a data file that `EntryDecoder` reads from a manifest entry.

    For most entries, these fields are read without decoding the whole entry.

    Attributes:
        location: location of the data file. For a deletion vector, the location of the data file
            whose rows it deletes.
    """

    location: str
    content: int
    record_count: int
    file_size_in_bytes: int


def encoded_file(file: DataFile) -> EncodedFile:
    """Return the `EncodedFile` of a data file or a deletion vector."""
    return EncodedFile(
        file.referenced_data_file or file.file_path,
        file.content,
        file.record_count,
        file.file_size_in_bytes,
    )


class EntryDecoder:
    """Decodes encoded entries that have a given Avro schema to `EncodedFile` objects."""

    def __init__(self, schema: bytes) -> None:
        import fastavro

        self._schema = fastavro.parse_schema(decode_json(schema, dict[str, Any]))
        self._partition = _partition_schema(decode_json(schema, dict[str, Any]))
        self._has_partition = bool(self._partition["fields"])

    def decode(self, entry: bytes) -> EncodedFile:
        """Decode an entry; raise ValueError if the bytes aren't an entry."""
        import fastavro

        content, position = decode_long(entry, _head_length(entry))
        if content != DATA:
            record: Any = fastavro.schemaless_reader(io.BytesIO(entry), self._schema, None)
            file = record["data_file"]
            return EncodedFile(
                file["referenced_data_file"] or file["file_path"],
                content,
                file["record_count"],
                file["file_size_in_bytes"],
            )
        path, position = decode_bytes(entry, position)
        _, position = decode_bytes(entry, position)
        if self._has_partition:
            stream = io.BytesIO(entry)
            stream.seek(position)
            fastavro.schemaless_reader(stream, self._partition, None)
            position = stream.tell()
        records, position = decode_long(entry, position)
        size, _ = decode_long(entry, position)
        return EncodedFile(path.decode(), content, records, size)


@lru_cache(maxsize=16)
def entry_decoder(schema: bytes) -> EntryDecoder:
    """Return a decoder of manifest entries.

    Args:
        schema: Avro schema of the entries, as JSON.
    """
    return EntryDecoder(schema)


@dataclass(slots=True)
class EntryMover:
    """Changes the status of encoded entries that are copied from an old manifest to a new one.

    Attributes:
        manifest: the old manifest. If an entry has no sequence number or snapshot id, it inherits
            them from the manifest.
        snapshot_id: id of the new snapshot. Entries that become DELETED get this snapshot id.
    """

    manifest: ManifestFile
    snapshot_id: int
    _heads: dict[tuple[int, bytes], bytes] = field(default_factory=dict)

    def moved(self, entry: bytes, status: int) -> bytes:
        """Return the entry with the status `status`, which is `EXISTING` or `DELETED`."""
        length = _head_length(entry)
        key = (status, entry[:length])
        head = self._heads.get(key)
        if head is None:
            head = self._heads[key] = self._moved_head(key[1], status)
        return head + entry[length:]

    def _moved_head(self, head: bytes, status: int) -> bytes:
        snapshot_id, position = _decode_optional_long(head, 1)
        sequence_number, position = _decode_optional_long(head, position)
        file_sequence_number, _ = _decode_optional_long(head, position)
        manifest = self.manifest
        if status == DELETED:
            snapshot_id = self.snapshot_id
        elif snapshot_id is None:
            snapshot_id = manifest.added_snapshot_id
        inherited = manifest.sequence_number
        return _head(
            status,
            snapshot_id,
            inherited if sequence_number is None else sequence_number,
            inherited if file_sequence_number is None else file_sequence_number,
        )


def _head(
    status: int, snapshot_id: int, sequence_number: int | None, file_sequence_number: int | None
) -> bytes:
    return b"".join(
        (
            _STATUS[status],
            _optional_long(snapshot_id),
            _optional_long(sequence_number),
            _optional_long(file_sequence_number),
        )
    )


def _head_length(entry: bytes) -> int:
    position = 1
    for _ in range(3):
        if entry[position] != 0:
            position += 1
            while entry[position] & 0x80:
                position += 1
        position += 1
    return position


def _optional_long(value: int | None) -> bytes:
    return _NULL if value is None else _NOT_NULL + encode_long(value)


def _decode_optional_long(data: bytes, position: int) -> tuple[int | None, int]:
    return (None, position + 1) if data[position] == 0 else decode_long(data, position + 1)


def _data_file_schema(entry: Any) -> Any:
    return next(each["type"] for each in entry["fields"] if each["name"] == "data_file")


def _partition_schema(entry: Any) -> Any:
    fields = _data_file_schema(entry)["fields"]
    return next(each["type"] for each in fields if each["name"] == "partition")
