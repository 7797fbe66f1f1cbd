"""Writing version 3 of Iceberg's format: manifests with fastavro, and table metadata.

pyiceberg has the schemas of version 3, but no writers. If it gets writers, this module goes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from bayou.kernel.iceberg.entries import (
    ADDED,
    DATA_MANIFEST,
    ManifestEntry,
    ManifestFile,
)
from bayou.kernel.iceberg.iceberg_schema import Json
from bayou.kernel.iceberg.manifest_writer import NewSnapshot, PartitionSpec, described


class Version3Writer:
    """Writes format version 3."""

    format_version = 3

    def manifest(
        self,
        location: str,
        spec: PartitionSpec,
        entries: Sequence[ManifestEntry],
        snapshot: NewSnapshot,
        content: int,
    ) -> tuple[bytes, ManifestFile]:
        metadata = {
            "schema": json.dumps(spec.schema),
            "partition-spec": json.dumps(list(spec.fields)),
            "partition-spec-id": str(spec.spec_id),
            "format-version": "3",
            "content": "data" if content == DATA_MANIFEST else "deletes",
        }
        records = [_entry_record(entry, snapshot, spec) for entry in entries]
        written = _avro(_entry_schema(spec), records, metadata)
        return written, described(
            location,
            entries,
            length=len(written),
            spec=spec,
            snapshot=snapshot,
            content=content,
        )

    def manifest_list(
        self, location: str, manifests: Sequence[ManifestFile], snapshot: NewSnapshot
    ) -> bytes:
        from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS
        from pyiceberg.utils.schema_conversion import AvroSchemaConversion

        schema = AvroSchemaConversion().iceberg_to_avro(
            MANIFEST_LIST_FILE_SCHEMAS[3], schema_name="manifest_file"
        )
        parent = snapshot.parent_snapshot_id
        metadata = {
            "snapshot-id": str(snapshot.snapshot_id),
            "parent-snapshot-id": "null" if parent is None else str(parent),
            "sequence-number": str(snapshot.sequence_number),
            "first-row-id": str(snapshot.first_row_id or 0),
            "format-version": "3",
        }
        return _avro(schema, [_manifest_record(manifest) for manifest in manifests], metadata)

    def table_metadata(self, metadata: Json) -> bytes:
        return json.dumps(metadata, separators=(",", ":")).encode()


def _avro(schema: Any, records: Sequence[Mapping[str, Any]], metadata: Mapping[str, str]) -> bytes:
    import fastavro

    output = io.BytesIO()
    parsed = fastavro.parse_schema(schema)
    fastavro.writer(output, parsed, records, codec="deflate", metadata=dict(metadata))
    return output.getvalue()


def _entry_schema(spec: PartitionSpec) -> Any:
    from pyiceberg.manifest import data_file_with_partition, manifest_entry_schema_with_data_file
    from pyiceberg.partitioning import PartitionSpec as IcebergSpec
    from pyiceberg.schema import Schema
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    # Without other columns, whose types pyiceberg may not know.
    sources = {field["source-id"] for field in spec.fields}
    fields = [field for field in spec.schema["fields"] if field["id"] in sources]
    schema = Schema.model_validate({**spec.schema, "fields": fields})
    iceberg_spec = IcebergSpec.model_validate({"spec-id": spec.spec_id, "fields": spec.fields})
    data_file = data_file_with_partition(iceberg_spec.partition_type(schema), 3)
    return AvroSchemaConversion().iceberg_to_avro(
        manifest_entry_schema_with_data_file(3, data_file), schema_name="manifest_entry"
    )


def _entry_record(
    entry: ManifestEntry, snapshot: NewSnapshot, spec: PartitionSpec
) -> dict[str, Any]:
    file = entry.data_file
    # A new entry inherits the snapshot's sequence number unless it has its own.
    inherits = (
        entry.status == ADDED
        and entry.snapshot_id == snapshot.snapshot_id
        and entry.sequence_number == snapshot.sequence_number
    )
    return {
        "status": entry.status,
        "snapshot_id": entry.snapshot_id,
        "sequence_number": None if inherits else entry.sequence_number,
        "file_sequence_number": None if inherits else entry.file_sequence_number,
        "data_file": {
            "content": file.content,
            "file_path": file.file_path,
            "file_format": file.file_format,
            "partition": {
                _avro_name(field["name"]): value
                for field, value in zip(spec.fields, file.partition, strict=True)
            },
            "record_count": file.record_count,
            "file_size_in_bytes": file.file_size_in_bytes,
            "column_sizes": None,
            "value_counts": _items(file.value_counts),
            "null_value_counts": _items(file.null_value_counts),
            "nan_value_counts": None,
            "lower_bounds": _items(file.lower_bounds),
            "upper_bounds": _items(file.upper_bounds),
            "key_metadata": None,
            "split_offsets": None,
            "equality_ids": None,
            "sort_order_id": None,
            "first_row_id": file.first_row_id,
            "referenced_data_file": file.referenced_data_file,
            "content_offset": file.content_offset,
            "content_size_in_bytes": file.content_size_in_bytes,
        },
    }


def _avro_name(name: str) -> str:
    from pyiceberg.schema import make_compatible_name

    compatible: str = make_compatible_name(name)
    return compatible


def _items(mapping: Mapping[int, Any]) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": value} for key, value in mapping.items()] or None


def _manifest_record(manifest: ManifestFile) -> dict[str, Any]:
    return {
        "manifest_path": manifest.manifest_path,
        "manifest_length": manifest.manifest_length,
        "partition_spec_id": manifest.partition_spec_id,
        "content": manifest.content,
        "sequence_number": manifest.sequence_number,
        "min_sequence_number": manifest.min_sequence_number,
        "added_snapshot_id": manifest.added_snapshot_id,
        "added_files_count": manifest.added_files_count,
        "existing_files_count": manifest.existing_files_count,
        "deleted_files_count": manifest.deleted_files_count,
        "added_rows_count": manifest.added_rows_count,
        "existing_rows_count": manifest.existing_rows_count,
        "deleted_rows_count": manifest.deleted_rows_count,
        "partitions": [
            {
                "contains_null": summary.contains_null,
                "contains_nan": summary.contains_nan,
                "lower_bound": summary.lower_bound,
                "upper_bound": summary.upper_bound,
            }
            for summary in manifest.partitions
        ],
        "key_metadata": None,
        "first_row_id": manifest.first_row_id,
    }
