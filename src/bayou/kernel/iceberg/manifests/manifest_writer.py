"""Writing manifests, manifest lists and table metadata as bytes.

The schemas come from pyiceberg, which also validates table metadata of format version 2. Its
manifest writers aren't used, because they don't support version 3 and take ten times as long as
`entry_encoding`.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bayou.errors import PrerequisiteError
from bayou.kernel.iceberg.iceberg_schema import Json
from bayou.kernel.iceberg.manifests.avro_file import CODEC_KEY, SCHEMA_KEY, AvroFile, deflated
from bayou.kernel.iceberg.manifests.encoded_manifest import (
    EncodedEntry,
    location_hash,
    manifest_bytes,
)
from bayou.kernel.iceberg.manifests.entries import (
    ADDED,
    DATA_MANIFEST,
    DELETED,
    EXISTING,
    FieldSummary,
    ManifestEntry,
    ManifestFile,
)
from bayou.kernel.iceberg.manifests.entry_encoding import (
    EncodedFile,
    EntryEncoder,
    encoded_manifest_file,
    manifest_list_schema,
)
from bayou.kernel.iceberg.values import IcebergValue, value_bytes, value_from_bytes

_BLOCK_ENTRIES = 100


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


def check_installed() -> None:
    """Raise a `PrerequisiteError` if the extra `iceberg` isn't installed."""
    for package in ("fastavro", "pyiceberg"):
        if importlib.util.find_spec(package) is None:
            raise PrerequisiteError(
                f"{package}, which Iceberg metadata requires, isn't installed. Run pip install "
                "'bayou[iceberg]'.",
                what=package,
            )


class MetadataWriter:
    """Writes the files of one format version.

    Raises:
        PrerequisiteError: the extra `iceberg` isn't installed.
    """

    def __init__(self, format_version: int) -> None:
        check_installed()
        self.format_version = format_version
        self._encoders: dict[str, EntryEncoder] = {}

    def manifest(
        self,
        location: str,
        spec: PartitionSpec,
        entries: Sequence[ManifestEntry],
        snapshot: NewSnapshot,
        content: int,
    ) -> tuple[bytes, ManifestFile]:
        """Return the bytes of a manifest and its entry for manifest lists.

        Args:
            entries: first the live entries, which all have the same status, then the deleted
                entries.
        """
        written = manifest_bytes(
            self._metadata(spec, content), list(self.encoded(spec, entries, snapshot))
        )
        described = _described(location, entries, spec, snapshot, content)
        return written, replace(described, manifest_length=len(written))

    def encoded(
        self, spec: PartitionSpec, entries: Iterable[ManifestEntry], snapshot: NewSnapshot
    ) -> Iterator[EncodedEntry]:
        """Encode entries for a manifest of the spec."""
        encoder = self._encoder(spec)
        for entry in entries:
            # A new entry inherits the snapshot's sequence number unless it has its own.
            inherits = (
                entry.status == ADDED
                and entry.snapshot_id == snapshot.snapshot_id
                and entry.sequence_number == snapshot.sequence_number
            )
            file = entry.data_file
            yield EncodedEntry(
                location_hash(file.referenced_data_file or file.file_path),
                encoder.encode(entry, inherits=inherits),
            )

    def merged_manifest(
        self,
        location: str,
        spec: PartitionSpec,
        entries: Sequence[EncodedEntry],
        sources: Sequence[ManifestFile],
        snapshot: NewSnapshot,
    ) -> tuple[bytes, ManifestFile]:
        """Return the bytes and the manifest list entry of a manifest that replaces `sources`.

        Args:
            entries: the live entries of `sources` with status EXISTING, encoded with
                `entry_schema`.
        """
        content = sources[0].content
        written = manifest_bytes(self._metadata(spec, content), entries)
        described = ManifestFile(
            manifest_path=location,
            manifest_length=len(written),
            partition_spec_id=spec.spec_id,
            content=content,
            sequence_number=snapshot.sequence_number,
            min_sequence_number=min(source.min_sequence_number for source in sources),
            added_snapshot_id=snapshot.snapshot_id,
            added_files_count=0,
            existing_files_count=sum(source.live_files_count for source in sources),
            deleted_files_count=0,
            added_rows_count=0,
            existing_rows_count=sum(source.live_rows_count for source in sources),
            deleted_rows_count=0,
            partitions=_merged_summaries(spec, sources),
            first_row_id=snapshot.first_row_id if content == DATA_MANIFEST else None,
        )
        return written, described

    def entry_schema(self, spec: PartitionSpec) -> bytes:
        """Return the Avro schema of entries of a spec, as JSON."""
        return self._encoder(spec).schema.encode()

    def manifest_list(self, manifests: Sequence[ManifestFile], snapshot: NewSnapshot) -> bytes:
        """Return the bytes of a manifest list."""
        parent = snapshot.parent_snapshot_id
        metadata = {
            "snapshot-id": str(snapshot.snapshot_id),
            "parent-snapshot-id": "null" if parent is None else str(parent),
            "sequence-number": str(snapshot.sequence_number),
            "format-version": str(self.format_version),
            SCHEMA_KEY: manifest_list_schema(self.format_version),
            CODEC_KEY: "deflate",
        }
        if self.format_version >= 3:
            metadata["first-row-id"] = str(snapshot.first_row_id or 0)
        encoded = [encoded_manifest_file(each, self.format_version) for each in manifests]
        starts = range(0, len(encoded), _BLOCK_ENTRIES)
        blocks = [deflated(encoded[start : start + _BLOCK_ENTRIES]) for start in starts]
        return AvroFile(_encoded_values(metadata), blocks).to_bytes()

    def table_metadata(self, metadata: Json) -> bytes:
        """Return the bytes of a metadata file."""
        if self.format_version >= 3:
            return json.dumps(metadata, separators=(",", ":")).encode()
        from pyiceberg.table.metadata import TableMetadataUtil

        written: str = TableMetadataUtil.parse_raw(json.dumps(metadata)).model_dump_json()
        return written.encode()

    def _encoder(self, spec: PartitionSpec) -> EntryEncoder:
        key = json.dumps([list(spec.fields), list(spec.types)])
        encoder = self._encoders.get(key)
        if encoder is None:
            encoder = EntryEncoder(self.format_version, spec.fields, spec.schema)
            self._encoders[key] = encoder
        return encoder

    def _metadata(self, spec: PartitionSpec, content: int) -> dict[str, bytes]:
        return _encoded_values(
            {
                "schema": json.dumps(spec.schema),
                "partition-spec": json.dumps(list(spec.fields)),
                "partition-spec-id": str(spec.spec_id),
                "format-version": str(self.format_version),
                "content": "data" if content == DATA_MANIFEST else "deletes",
                SCHEMA_KEY: self._encoder(spec).schema,
            }
        )


def without_files(
    manifest: ManifestFile,
    removed: Collection[EncodedFile],
    *,
    location: str,
    length: int,
    snapshot: NewSnapshot,
) -> ManifestFile:
    """Return the manifest list entry of a copy of a manifest with some of its files deleted.

    The copy was written to `location`; it has the same entries, but those in `removed` have the
    status deleted. The smallest sequence number and the partition bounds of `manifest` are still
    valid bounds.
    """
    rows = sum(file.record_count for file in removed)
    return replace(
        manifest,
        manifest_path=location,
        manifest_length=length,
        sequence_number=snapshot.sequence_number,
        added_snapshot_id=snapshot.snapshot_id,
        added_files_count=0,
        existing_files_count=manifest.live_files_count - len(removed),
        deleted_files_count=len(removed),
        added_rows_count=0,
        existing_rows_count=manifest.live_rows_count - rows,
        deleted_rows_count=rows,
        first_row_id=snapshot.first_row_id if manifest.content == DATA_MANIFEST else None,
    )


def renewed(entry: ManifestEntry, status: int, snapshot: NewSnapshot) -> ManifestEntry:
    """Return an older manifest's entry with another status, for the manifest that replaces it."""
    if status == DELETED:
        return replace(entry, status=DELETED, snapshot_id=snapshot.snapshot_id)
    return replace(entry, status=EXISTING)


def _described(
    location: str,
    entries: Sequence[ManifestEntry],
    spec: PartitionSpec,
    snapshot: NewSnapshot,
    content: int,
) -> ManifestFile:
    files = {EXISTING: 0, ADDED: 0, DELETED: 0}
    rows = {EXISTING: 0, ADDED: 0, DELETED: 0}
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += entry.data_file.record_count
    return ManifestFile(
        manifest_path=location,
        manifest_length=0,
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


def _summaries(spec: PartitionSpec, entries: Iterable[ManifestEntry]) -> tuple[FieldSummary, ...]:
    partitions = {entry.data_file.partition for entry in entries}
    return tuple(
        _summary([partition[number] for partition in partitions], iceberg_type)
        for number, iceberg_type in enumerate(spec.types)
    )


def _summary(values: Sequence[IcebergValue], iceberg_type: str) -> FieldSummary:
    nan = [isinstance(value, float) and math.isnan(value) for value in values]
    usable = [
        value for value, is_nan in zip(values, nan, strict=True) if value is not None and not is_nan
    ]
    return FieldSummary(
        contains_null=any(value is None for value in values),
        contains_nan=any(nan),
        **_bounds(usable, usable, iceberg_type),
    )


def _merged_summaries(
    spec: PartitionSpec, manifests: Sequence[ManifestFile]
) -> tuple[FieldSummary, ...]:
    if any(len(manifest.partitions) != len(spec.types) for manifest in manifests):
        return ()  # another writer left them out
    merged = []
    for number, iceberg_type in enumerate(spec.types):
        summaries = [manifest.partitions[number] for manifest in manifests]
        nan = [summary.contains_nan for summary in summaries]
        lower = [value_from_bytes(each.lower_bound, iceberg_type) for each in summaries]
        upper = [value_from_bytes(each.upper_bound, iceberg_type) for each in summaries]
        merged.append(
            FieldSummary(
                contains_null=any(summary.contains_null for summary in summaries),
                contains_nan=True if True in nan else None if None in nan else False,
                **_bounds(
                    [value for value in lower if value is not None],
                    [value for value in upper if value is not None],
                    iceberg_type,
                ),
            )
        )
    return tuple(merged)


def _bounds(
    lower: Sequence[IcebergValue], upper: Sequence[IcebergValue], iceberg_type: str
) -> dict[str, bytes | None]:
    return {
        "lower_bound": value_bytes(min(lower), iceberg_type) if lower else None,  # type: ignore[type-var]
        "upper_bound": value_bytes(max(upper), iceberg_type) if upper else None,  # type: ignore[type-var]
    }


def _encoded_values(metadata: Mapping[str, str]) -> dict[str, bytes]:
    return {key: value.encode() for key, value in metadata.items()}
