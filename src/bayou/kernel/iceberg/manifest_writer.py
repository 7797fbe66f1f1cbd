"""Writing manifests, manifest lists and table metadata as bytes.

`Version2Writer` uses pyiceberg's own writers. pyiceberg writes no version 3 of the format:
`version_3.Version3Writer` does.
"""

from __future__ import annotations

import importlib.util
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from bayou.errors import PrerequisiteError
from bayou.kernel.iceberg.entries import (
    ADDED,
    DATA_MANIFEST,
    DELETED,
    EXISTING,
    FieldSummary,
    ManifestEntry,
    ManifestFile,
)
from bayou.kernel.iceberg.iceberg_schema import Json
from bayou.kernel.iceberg.values import IcebergValue, value_bytes

_COMPRESSION: Any = "gzip"
_BLOCK_ENTRIES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """A partition spec, and the schema that it is bound to.

    Attributes:
        spec_id: `spec-id` of the spec.
        fields: JSON of the partition fields.
        types: Iceberg types of the partition fields' values.
        schema: JSON of the schema, with `schema-id`.
    """

    spec_id: int
    fields: Sequence[Json]
    types: Sequence[str]
    schema: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """Identifiers of the snapshot that is being written."""

    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    first_row_id: int | None = None


class MetadataWriter(Protocol):
    """Writes the files of one format version."""

    format_version: int

    def manifest(
        self,
        location: str,
        spec: PartitionSpec,
        entries: Sequence[ManifestEntry],
        snapshot: NewSnapshot,
        content: int,
    ) -> tuple[bytes, ManifestFile]:
        """Return the bytes of a manifest and its entry for manifest lists."""
        ...

    def manifest_list(
        self, location: str, manifests: Sequence[ManifestFile], snapshot: NewSnapshot
    ) -> bytes:
        """Return the bytes of a manifest list."""
        ...

    def table_metadata(self, metadata: Json) -> bytes:
        """Return the bytes of a metadata file."""
        ...


def metadata_writer(format_version: int) -> MetadataWriter:
    """Return the writer of a format version.

    Raises:
        PrerequisiteError: the extra `iceberg` isn't installed.
    """
    check_installed()
    if format_version == 2:
        return Version2Writer()
    from bayou.kernel.iceberg.version_3 import Version3Writer

    return Version3Writer()


def check_installed() -> None:
    """Raise a `PrerequisiteError` if the extra `iceberg` isn't installed."""
    for package in ("fastavro", "pyiceberg"):
        if importlib.util.find_spec(package) is None:
            raise PrerequisiteError(
                f"{package}, which Iceberg metadata requires, isn't installed. Run pip install "
                "'bayou[iceberg]'.",
                what=package,
            )


class Version2Writer:
    """Writes format version 2 with pyiceberg."""

    format_version = 2

    def manifest(
        self,
        location: str,
        spec: PartitionSpec,
        entries: Sequence[ManifestEntry],
        snapshot: NewSnapshot,
        content: int,
    ) -> tuple[bytes, ManifestFile]:
        from pyiceberg import manifest as iceberg
        from pyiceberg.partitioning import PartitionSpec as IcebergSpec
        from pyiceberg.schema import Schema
        from pyiceberg.typedef import Record

        assert content == DATA_MANIFEST  # deletion vectors need version 3
        output = _memory_output(location)
        schema = Schema.model_validate(spec.schema)
        iceberg_spec = IcebergSpec.model_validate({"spec-id": spec.spec_id, "fields": spec.fields})
        statuses = {
            EXISTING: iceberg.ManifestEntryStatus.EXISTING,
            ADDED: iceberg.ManifestEntryStatus.ADDED,
            DELETED: iceberg.ManifestEntryStatus.DELETED,
        }
        parquet, data = iceberg.FileFormat.PARQUET, iceberg.DataFileContent.DATA
        writer = iceberg.write_manifest(
            format_version=2,
            spec=iceberg_spec,
            schema=schema,
            output_file=output,
            snapshot_id=snapshot.snapshot_id,
            avro_compression=_COMPRESSION,
        )

        def converted(entry: ManifestEntry) -> Any:
            file = entry.data_file
            new = entry.status == ADDED and entry.snapshot_id == snapshot.snapshot_id
            return writer.prepare_entry(
                iceberg.ManifestEntry.from_args(
                    status=statuses[entry.status],
                    snapshot_id=entry.snapshot_id,
                    sequence_number=None if new else entry.sequence_number,
                    file_sequence_number=None if new else entry.file_sequence_number,
                    data_file=iceberg.DataFile.from_args(
                        content=data,
                        file_path=file.file_path,
                        file_format=parquet,
                        partition=Record(*file.partition),
                        record_count=file.record_count,
                        file_size_in_bytes=file.file_size_in_bytes,
                        value_counts=file.value_counts or None,
                        null_value_counts=file.null_value_counts or None,
                        lower_bounds=file.lower_bounds or None,
                        upper_bounds=file.upper_bounds or None,
                    ),
                )
            )

        # `writer.add_entry` would write each entry as a block of its own, which hardly compresses.
        with writer.new_writer() as blocks:
            for start in range(0, len(entries), _BLOCK_ENTRIES):
                chunk = entries[start : start + _BLOCK_ENTRIES]
                blocks.write_block([converted(entry) for entry in chunk])
        written = output.getvalue()
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
        from pyiceberg import manifest as iceberg

        output = _memory_output(location)
        writer = iceberg.write_manifest_list(
            format_version=2,
            output_file=output,
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            avro_compression=_COMPRESSION,
        )
        with writer:
            writer.add_manifests([_pyiceberg_manifest(manifest) for manifest in manifests])
        written: bytes = output.getvalue()
        return written

    def table_metadata(self, metadata: Json) -> bytes:
        from pyiceberg.serializers import ToOutputFile
        from pyiceberg.table.metadata import TableMetadataUtil

        output = _memory_output("v0.metadata.json")
        parsed = TableMetadataUtil.parse_raw(json.dumps(metadata))
        ToOutputFile.table_metadata(parsed, output, overwrite=True)
        written: bytes = output.getvalue()
        return written


def described(
    location: str,
    entries: Sequence[ManifestEntry],
    *,
    length: int,
    spec: PartitionSpec,
    snapshot: NewSnapshot,
    content: int,
) -> ManifestFile:
    """Return the entry of a new manifest for the manifest list."""
    files = {EXISTING: 0, ADDED: 0, DELETED: 0}
    rows = {EXISTING: 0, ADDED: 0, DELETED: 0}
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += entry.data_file.record_count
    return ManifestFile(
        manifest_path=location,
        manifest_length=length,
        partition_spec_id=spec.spec_id,
        content=content,
        sequence_number=snapshot.sequence_number,
        min_sequence_number=min(
            (e.sequence_number for e in entries if e.status != DELETED),
            default=snapshot.sequence_number,
        ),
        added_snapshot_id=snapshot.snapshot_id,
        added_files_count=files[ADDED],
        existing_files_count=files[EXISTING],
        deleted_files_count=files[DELETED],
        added_rows_count=rows[ADDED],
        existing_rows_count=rows[EXISTING],
        deleted_rows_count=rows[DELETED],
        partitions=_summaries(spec, entries),
        first_row_id=snapshot.first_row_id if content == DATA_MANIFEST else None,
    )


def renewed(entry: ManifestEntry, status: int, snapshot: NewSnapshot) -> ManifestEntry:
    """Return an entry of an older manifest for a manifest that replaces it."""
    if status == DELETED:
        return replace(entry, status=DELETED, snapshot_id=snapshot.snapshot_id)
    return replace(entry, status=EXISTING)


def _summaries(spec: PartitionSpec, entries: Iterable[ManifestEntry]) -> tuple[FieldSummary, ...]:
    partitions = {entry.data_file.partition for entry in entries}
    return tuple(
        _summary([partition[number] for partition in partitions], iceberg_type)
        for number, iceberg_type in enumerate(spec.types)
    )


def _summary(values: Sequence[IcebergValue], iceberg_type: str) -> FieldSummary:
    nan = [isinstance(value, float) and math.isnan(value) for value in values]
    usable: list[Any] = [
        value for value, is_nan in zip(values, nan, strict=True) if value is not None and not is_nan
    ]
    return FieldSummary(
        contains_null=any(value is None for value in values),
        contains_nan=any(nan),
        lower_bound=value_bytes(min(usable), iceberg_type) if usable else None,
        upper_bound=value_bytes(max(usable), iceberg_type) if usable else None,
    )


def _pyiceberg_manifest(manifest: ManifestFile) -> Any:
    from pyiceberg import manifest as iceberg

    return iceberg.ManifestFile.from_args(
        manifest_path=manifest.manifest_path,
        manifest_length=manifest.manifest_length,
        partition_spec_id=manifest.partition_spec_id,
        content=iceberg.ManifestContent(manifest.content),
        sequence_number=manifest.sequence_number,
        min_sequence_number=manifest.min_sequence_number,
        added_snapshot_id=manifest.added_snapshot_id,
        added_files_count=manifest.added_files_count,
        existing_files_count=manifest.existing_files_count,
        deleted_files_count=manifest.deleted_files_count,
        added_rows_count=manifest.added_rows_count,
        existing_rows_count=manifest.existing_rows_count,
        deleted_rows_count=manifest.deleted_rows_count,
        partitions=[
            iceberg.PartitionFieldSummary(
                summary.contains_null,
                summary.contains_nan,
                summary.lower_bound,
                summary.upper_bound,
            )
            for summary in manifest.partitions
        ],
        key_metadata=None,
    )


def _memory_output(location: str) -> Any:
    """Return a pyiceberg `OutputFile` whose bytes stay in memory (`getvalue`)."""
    from pyiceberg.io import OutputFile

    stream = _OpenBytes()
    members = {
        "__len__": lambda _: len(stream.getvalue()),
        "exists": lambda _: False,
        "to_input_file": lambda _: None,
        "create": lambda _, overwrite=False: stream,  # noqa: ARG005 - pyiceberg passes it by name
        "getvalue": lambda _: stream.getvalue(),
    }
    return type("MemoryOutput", (OutputFile,), members)(location)


class _OpenBytes(io.BytesIO):
    """Bytes that can still be read after the stream was closed."""

    def close(self) -> None:
        pass
