"""Encoding of manifest entries with pyiceberg's schemas and Avro writers.

Import this module only inside functions, because pyiceberg is an optional dependency.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from pyiceberg import partitioning
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.manifest import data_file_with_partition, manifest_entry_schema_with_data_file
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from bayou.errors import PrerequisiteError
from bayou.json_decoding import decode_json
from bayou.kernel.iceberg.manifests.avro_file import encode_long
from bayou.kernel.iceberg.manifests.entries import DataFile, ManifestEntry, PartitionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySchema:
    """pyiceberg's objects for the manifests of a partition spec.

    Attributes:
        spec: the `PartitionSpec`.
        table: the `Schema` of the table.
        entry: the `Schema` of the entries.
        avro: Avro schema of the entries, as JSON.
        writer: the writer of the entries.
    """

    spec: Any
    table: Any
    entry: Any
    avro: str
    writer: RecordWriter


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
        struct = self.schema.entry.as_struct()
        self._values = values_of(ManifestEntry, struct)
        self._data_file = [field.name for field in struct.fields].index("data_file")
        self._file_values = values_of(DataFile, struct.fields[self._data_file].field_type)

    def encode(self, entry: ManifestEntry) -> bytes:
        """Encode an entry."""
        values = list(self._values(entry))
        values[self._data_file] = Record(*self._file_values(entry.data_file))
        return self.schema.writer.encoded(Record(*values))


class RecordWriter:
    """Calls pyiceberg's `Writer` with `_BytesEncoder`, which is faster than pyiceberg's encoder."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def encoded(self, record: Any) -> bytes:
        """Return the encoded record."""
        encoder = _BytesEncoder()
        self._writer.write(encoder, record)
        return b"".join(encoder.parts)

    def write(self, encoder: Any, record: Any) -> None:
        """Write a record, as pyiceberg's `Writer` does."""
        encoder.write(self.encoded(record))


class _BytesEncoder(BinaryEncoder):
    """Collects the encoded values in `parts`.

    pyiceberg's encoder needs 50% more time, because it writes each byte of a number to a stream.
    """

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.write = self.parts.append

    def write_int(self, integer: int) -> None:
        """Write an `int` or `long`."""
        self.write(encode_long(integer))


def values_of(record: type, struct: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that converts an object to the tuple of values that pyiceberg writes.

    Args:
        record: class of the object, such as `DataFile`.
        struct: pyiceberg's schema, which determines the order of the values.

    Raises:
        PrerequisiteError: the schema has a field that the record doesn't have.
    """
    names = [field.name for field in struct.fields]
    for name in names:
        if not hasattr(record, name):
            raise PrerequisiteError(
                f"pyiceberg: in this version, the schema of {record.__name__} has the field "
                f"{name}, which Bayou doesn't write. Install a supported version with pip install "
                "'bayou[iceberg]'.",
                what="pyiceberg",
            )
    return attrgetter(*names)


@lru_cache(maxsize=64)
def _entry_schema(format_version: int, spec_id: int, fields: str, schema: str) -> EntrySchema:
    decoded = decode_json(fields, list[Any])
    spec = partitioning.PartitionSpec.model_validate({"spec-id": spec_id, "fields": decoded})
    table = Schema.model_validate(decode_json(schema, dict[str, Any]))
    data_file = data_file_with_partition(spec.partition_type(table), format_version)
    entry = manifest_entry_schema_with_data_file(format_version, data_file)
    avro = AvroSchemaConversion().iceberg_to_avro(entry, schema_name="manifest_entry")
    return EntrySchema(
        spec=spec,
        table=table,
        entry=entry,
        avro=json.dumps(avro),
        writer=RecordWriter(construct_writer(entry)),
    )
