"""Entries of manifests and of manifest lists in Avro's binary encoding.

The schemas come from pyiceberg, and its writers write the encoded records to files. The encoder
takes a third of the time of pyiceberg's encoder. An encoded entry begins with the status, the
snapshot id and the sequence numbers; only these fields change when an entry is moved to another
manifest.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from bayou.errors import PrerequisiteError
from bayou.json_decoding import decode_json
from bayou.kernel.iceberg.manifests.avro_file import (
    decode_bytes,
    decode_long,
    encode_bytes,
    encode_long,
)
from bayou.kernel.iceberg.manifests.entries import (
    ADDED,
    DATA,
    DELETED,
    EXISTING,
    DataFile,
    ManifestEntry,
    ManifestFile,
    PartitionSpec,
)
from bayou.kernel.iceberg.values import IcebergValue

_NULL = b"\x00"
_NOT_NULL = b"\x02"
_BOOLEANS = (b"\x00", b"\x01")
_STATUS = {status: encode_long(status) for status in (EXISTING, ADDED, DELETED)}
_FIELDS_OF_ENTRIES = [
    *("status", "snapshot_id", "sequence_number", "file_sequence_number", "data_file"),
]
_FIELDS_OF_FILES = [
    *("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes"),
    *("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds"),
    *("upper_bounds", "key_metadata", "split_offsets", "equality_ids", "sort_order_id"),
]
_FIELDS_OF_FILES_V3 = [
    *("first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes"),
]
_FIELDS_OF_MANIFESTS = [
    *("manifest_path", "manifest_length", "partition_spec_id", "content", "sequence_number"),
    *("min_sequence_number", "added_snapshot_id", "added_files_count", "existing_files_count"),
    *("deleted_files_count", "added_rows_count", "existing_rows_count", "deleted_rows_count"),
    *("partitions", "key_metadata"),
]
_FIELDS_OF_SUMMARIES = ["contains_null", "contains_nan", "lower_bound", "upper_bound"]
_NO_IDS = _NULL * 4  # key_metadata, split_offsets, equality_ids and sort_order_id


@dataclass(frozen=True, slots=True)
class EntrySchema:
    """pyiceberg's schemas of the manifests of a partition spec.

    Attributes:
        spec: pyiceberg's `PartitionSpec`.
        table: the `Schema` of the table.
        entry: the `Schema` of the entries.
        avro: Avro schema of the entries, as JSON.
        partition: Avro schema of the partitions in the entries, parsed by fastavro.
    """

    spec: Any
    table: Any
    entry: Any
    avro: str
    partition: Any


class EntryEncoder:
    """Encodes the entries of manifests of one partition spec."""

    def __init__(self, format_version: int, spec: PartitionSpec) -> None:
        schema = spec.schema
        if format_version >= 3:  # pyiceberg doesn't know all types of version 3
            sources = {each["source-id"] for each in spec.fields}
            columns = [column for column in schema["fields"] if column["id"] in sources]
            schema = {**schema, "fields": columns}
        fields = json.dumps(list(spec.fields))
        self.schema = _entry_schema(format_version, spec.spec_id, fields, json.dumps(schema))
        self._version_3 = format_version >= 3
        self._names = [_avro_name(each["name"]) for each in spec.fields]
        self._partitions: dict[tuple[IcebergValue, ...], bytes] = {}

    def encode(self, entry: ManifestEntry) -> bytes:
        """Encode an entry."""
        head = _head(
            entry.status, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number
        )
        return head + self._data_file(entry.data_file)

    def _data_file(self, file: DataFile) -> bytes:
        partition = self._partitions.get(file.partition)
        if partition is None:
            partition = self._partitions[file.partition] = self._encoded_partition(file.partition)
        parts = [
            encode_long(file.content),
            encode_bytes(file.file_path.encode()),
            encode_bytes(file.file_format.encode()),
            partition,
            encode_long(file.record_count),
            encode_long(file.file_size_in_bytes),
            _NULL,
            _map(file.value_counts, encode_long),
            _map(file.null_value_counts, encode_long),
            _NULL,
            _map(file.lower_bounds, encode_bytes),
            _map(file.upper_bounds, encode_bytes),
            _NO_IDS,
        ]
        if self._version_3:
            referenced = file.referenced_data_file
            parts += [
                _optional_long(file.first_row_id),
                _NULL if referenced is None else _NOT_NULL + encode_bytes(referenced.encode()),
                _optional_long(file.content_offset),
                _optional_long(file.content_size_in_bytes),
            ]
        return b"".join(parts)

    def _encoded_partition(self, values: tuple[IcebergValue, ...]) -> bytes:
        import fastavro

        output = io.BytesIO()
        record = dict(zip(self._names, values, strict=True))
        fastavro.schemaless_writer(output, self.schema.partition, record)
        return output.getvalue()


def encoded_manifest_file(manifest: ManifestFile, format_version: int) -> bytes:
    """Encode the entry of a manifest in a manifest list."""
    parts = [
        encode_bytes(manifest.manifest_path.encode()),
        encode_long(manifest.manifest_length),
        encode_long(manifest.partition_spec_id),
        encode_long(manifest.content),
        encode_long(manifest.sequence_number),
        encode_long(manifest.min_sequence_number),
        encode_long(manifest.added_snapshot_id),
        encode_long(manifest.added_files_count),
        encode_long(manifest.existing_files_count),
        encode_long(manifest.deleted_files_count),
        encode_long(manifest.added_rows_count),
        encode_long(manifest.existing_rows_count),
        encode_long(manifest.deleted_rows_count),
        _NOT_NULL,
    ]
    if manifest.partitions:
        parts.append(encode_long(len(manifest.partitions)))
    for summary in manifest.partitions:
        nan = summary.contains_nan
        parts += [
            _BOOLEANS[summary.contains_null],
            _NULL if nan is None else _NOT_NULL + _BOOLEANS[nan],
            _optional_bytes(summary.lower_bound),
            _optional_bytes(summary.upper_bound),
        ]
    parts += [_NULL, _NULL]  # the end of the partitions, and key_metadata
    if format_version >= 3:
        parts.append(_optional_long(manifest.first_row_id))
    return b"".join(parts)


@cache
def manifest_list_schema(format_version: int) -> Any:
    """Return pyiceberg's `Schema` of manifest lists."""
    from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    schema = MANIFEST_LIST_FILE_SCHEMAS[format_version]
    avro: Any = AvroSchemaConversion().iceberg_to_avro(schema, schema_name="manifest_file")
    more = ["first_row_id"] if format_version >= 3 else []
    partitions = next(each["type"] for each in avro["fields"] if each["name"] == "partitions")
    _check_fields(avro, [*_FIELDS_OF_MANIFESTS, *more])
    _check_fields(partitions[1]["items"], _FIELDS_OF_SUMMARIES)
    return schema


@dataclass(frozen=True, slots=True)
class EncodedFile:
    """The values of a manifest entry that can be read without decoding the whole entry.

    Attributes:
        location: location of the data file, or of the data file that a deletion vector refers to.
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
    """Reads the paths and sizes of encoded entries with one Avro schema."""

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
    """Return the decoder of entries with an Avro schema, given as JSON."""
    return EntryDecoder(schema)


@dataclass(slots=True)
class EntryMover:
    """Changes the status of a manifest's encoded entries, for the manifest that replaces it.

    Attributes:
        manifest: the old manifest, whose sequence number the entries inherit.
        snapshot_id: the snapshot that deletes entries.
    """

    manifest: ManifestFile
    snapshot_id: int
    _heads: dict[tuple[int, bytes], bytes] = field(default_factory=dict)

    def moved(self, entry: bytes, status: int) -> bytes:
        """Return the entry with another status, `EXISTING` or `DELETED`."""
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


def _optional_bytes(value: bytes | None) -> bytes:
    return _NULL if value is None else _NOT_NULL + encode_bytes(value)


def _decode_optional_long(data: bytes, position: int) -> tuple[int | None, int]:
    return (None, position + 1) if data[position] == 0 else decode_long(data, position + 1)


def _map(mapping: Mapping[int, Any], encode: Callable[[Any], bytes]) -> bytes:
    """Encode a map with integers as keys, which is an array of records in Avro."""
    if not mapping:
        return _NULL
    parts = [_NOT_NULL, encode_long(len(mapping))]
    for key, value in mapping.items():
        parts += [encode_long(key), encode(value)]
    parts.append(_NULL)
    return b"".join(parts)


@lru_cache(maxsize=64)
def _entry_schema(format_version: int, spec_id: int, fields: str, schema: str) -> EntrySchema:
    import fastavro
    from pyiceberg.manifest import data_file_with_partition, manifest_entry_schema_with_data_file
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    decoded = decode_json(fields, list[Any])
    spec = PartitionSpec.model_validate({"spec-id": spec_id, "fields": decoded})
    table = Schema.model_validate(decode_json(schema, dict[str, Any]))
    data_file = data_file_with_partition(spec.partition_type(table), format_version)
    entry = manifest_entry_schema_with_data_file(format_version, data_file)
    avro: Any = AvroSchemaConversion().iceberg_to_avro(entry, schema_name="manifest_entry")
    more = _FIELDS_OF_FILES_V3 if format_version >= 3 else []
    _check_fields(avro, _FIELDS_OF_ENTRIES)
    _check_fields(_data_file_schema(avro), [*_FIELDS_OF_FILES, *more])
    partition = fastavro.parse_schema(_partition_schema(avro))
    return EntrySchema(spec, table, entry, json.dumps(avro), partition)


def _check_fields(record: Any, names: Sequence[str]) -> None:
    """Raise a `PrerequisiteError` if pyiceberg's schema of a record has other fields."""
    if [each["name"] for each in record["fields"]] != list(names):
        raise PrerequisiteError(
            f"pyiceberg: the schema of {record['name']} in this version differs from the schema "
            "that Bayou writes. Install pyiceberg with pip install 'bayou[iceberg]'.",
            what="pyiceberg",
        )


def _data_file_schema(entry: Any) -> Any:
    return next(each["type"] for each in entry["fields"] if each["name"] == "data_file")


def _partition_schema(entry: Any) -> Any:
    fields = _data_file_schema(entry)["fields"]
    return next(each["type"] for each in fields if each["name"] == "partition")


def _avro_name(name: str) -> str:
    from pyiceberg.schema import make_compatible_name

    compatible: str = make_compatible_name(name)
    return compatible
