"""Writing manifests, manifest lists and table metadata as bytes.

pyiceberg writes manifests and manifest lists (see `pyiceberg_writers`). It also writes the table
metadata of format version 2. This module writes the table metadata of format version 3.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bayou.errors import PrerequisiteError
from bayou.kernel.iceberg.iceberg_schema import Json
from bayou.kernel.iceberg.manifests.encoded_manifest import (
    EncodedEntries,
    EncodedManifest,
    MovedEntries,
    index_metadata,
)
from bayou.kernel.iceberg.manifests.entries import (
    DATA_MANIFEST,
    ManifestEntry,
    ManifestFile,
    NewSnapshot,
    PartitionSpec,
)

if TYPE_CHECKING:
    from bayou.kernel.iceberg.manifests.entry_encoder import EntryEncoder


class MetadataWriter:
    """Writes manifests, manifest lists and table metadata of one version of Iceberg's format.

    Raises:
        PrerequisiteError: the extra `iceberg` isn't installed, or pyiceberg has a version that
            Bayou doesn't support.
    """

    def __init__(self, format_version: int) -> None:
        check_installed()
        self.format_version = format_version
        self._encoders: dict[str, EntryEncoder] = {}

    def manifest(
        self,
        location: str,
        spec: PartitionSpec,
        parts: Sequence[EncodedEntries | MovedEntries],
        snapshot: NewSnapshot,
        content: int,
    ) -> tuple[bytes, ManifestFile]:
        """Return the bytes of a manifest and its entry for manifest lists.

        Args:
            parts: the entries of the manifest: first the live entries, which all have the same
                status, then the deleted entries.
        """
        from bayou.kernel.iceberg.manifests.pyiceberg_writers import (
            EncodedManifestWriter,
            ManifestWriterV3,
        )

        schema, index = self._encoder(spec).schema, index_metadata(parts)
        version_3 = self.format_version >= 3
        writer = (
            ManifestWriterV3(location, spec, schema, snapshot, index=index, content=content)
            if version_3
            else EncodedManifestWriter(location, spec, schema, snapshot, index=index)
        )
        with writer:
            for part in parts:
                if isinstance(part, MovedEntries):
                    writer.add_moved(part)
                else:
                    writer.add_encoded(part)
        manifest = writer.manifest_file()
        if version_3 and content == DATA_MANIFEST:
            manifest = replace(manifest, first_row_id=snapshot.first_row_id)
        return writer.file.data, manifest

    def encoded(self, spec: PartitionSpec, entries: Sequence[ManifestEntry]) -> EncodedEntries:
        """Encode entries for a manifest of the spec."""
        encoder = self._encoder(spec)
        records = [encoder.encode(entry) for entry in entries]
        return EncodedEntries(entries=entries, records=records)

    def can_move(
        self, spec: PartitionSpec, manifest: ManifestFile, encoded: EncodedManifest
    ) -> bool:
        """Whether encoded entries of `manifest` can be copied to a new manifest of `spec`.

        The result is False if a partition column was renamed or widened after `manifest` was
        written.
        """
        same_schema = encoded.schema == self._encoder(spec).schema.avro.encode()
        return same_schema and len(manifest.partitions) == len(spec.types)

    def manifest_list(self, manifests: Sequence[ManifestFile], snapshot: NewSnapshot) -> bytes:
        """Return the bytes of a manifest list."""
        from bayou.kernel.iceberg.manifests.pyiceberg_writers import manifest_list

        return manifest_list(self.format_version, manifests, snapshot)

    def table_metadata(self, metadata: Json) -> bytes:
        """Return the bytes of a metadata file."""
        if self.format_version >= 3:
            return json.dumps(metadata, separators=(",", ":")).encode()
        from pyiceberg.table.metadata import TableMetadataUtil

        written: str = TableMetadataUtil.parse_raw(json.dumps(metadata)).model_dump_json()
        return written.encode()

    def _encoder(self, spec: PartitionSpec) -> EntryEncoder:
        from bayou.kernel.iceberg.manifests.entry_encoder import EntryEncoder

        key = json.dumps([spec.spec_id, spec.schema["schema-id"], list(spec.fields)])
        encoder = self._encoders.get(key)
        if encoder is None:
            encoder = self._encoders[key] = EntryEncoder(self.format_version, spec)
        return encoder


def check_installed() -> None:
    """Raise a `PrerequisiteError` if a package of the extra `iceberg` is missing or unsupported."""
    for package in ("fastavro", "pyiceberg"):
        if importlib.util.find_spec(package) is None:
            raise PrerequisiteError(
                f"{package}, which Iceberg metadata requires, isn't installed. Run pip install "
                "'bayou[iceberg]'.",
                what=package,
            )
    from bayou.kernel.iceberg.manifests.pyiceberg_writers import check_pyiceberg

    check_pyiceberg()
