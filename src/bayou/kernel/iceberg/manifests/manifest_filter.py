"""Finds the manifests that contain requested files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.iceberg.manifests.encoded_entry import EncodedFile, encoded_file, entry_decoder
from bayou.kernel.iceberg.manifests.encoded_manifest import (
    EncodedManifest,
    encoded_manifest,
    index_length,
    location_hash,
    location_hashes,
    matching_hashes,
)
from bayou.kernel.iceberg.manifests.entries import ManifestFile
from bayou.kernel.iceberg.manifests.manifest_reader import live_entries, read_file, reported
from bayou.kernel.iceberg.metadata_folder import engine_path


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestMatch:
    """A manifest that contains at least one of the requested files.

    Attributes:
        files: the requested files in this manifest. Each key is the index of the file's entry among
            the live entries.
        encoded: the parsed manifest; None if the manifest has no index of file locations. Only
            Bayou writes this index.
    """

    manifest: ManifestFile
    files: Mapping[int, EncodedFile]
    encoded: EncodedManifest | None = None

    @property
    def locations(self) -> set[str]:
        """Locations of the requested files in this manifest."""
        return {file.location for file in self.files.values()}


@closeable
def matching_manifests(
    engine: Engine, table: str, manifests: Sequence[ManifestFile], locations: Collection[str]
) -> Iterator[ManifestMatch]:
    """Yield the manifests that contain a requested file, until all requested files are found.

    The index of each manifest is read first. The whole manifest is then read only if it has no
    index, or if the index has the hash of a requested file.

    Args:
        manifests: manifests of data files, or manifests of deletion vectors.
        locations: locations of data files. In a manifest of deletion vectors, a deletion vector
            matches if it belongs to one of these data files.

    Raises:
        UniversalFormatError: a manifest is missing or can't be read.
    """
    missing = set(locations)
    hashes = {location_hash(location) for location in missing}
    ranges = (_head_range(manifest) for manifest in manifests)
    with reported(table), engine.files.read_files(ranges) as heads:
        for manifest, head in zip(manifests, heads, strict=True):
            if not missing:
                return
            if not _may_contain(manifest, head, hashes):
                continue
            match = _match(engine, table, manifest, missing, hashes)
            if match.files:
                missing -= match.locations
                yield match


def _head_range(manifest: ManifestFile) -> ByteRange:
    entries = manifest.live_files_count + manifest.deleted_files_count
    length = min(index_length(entries), manifest.manifest_length)
    return ByteRange(path=engine_path(manifest.manifest_path), length=length)


def _may_contain(manifest: ManifestFile, head: bytes, hashes: Collection[int]) -> bool:
    try:
        indexed = location_hashes(head)
    except (ValueError, IndexError):  # another writer's manifest with a longer header
        return True
    return indexed is None or bool(matching_hashes(indexed[: manifest.live_files_count], hashes))


def _match(
    engine: Engine,
    table: str,
    manifest: ManifestFile,
    locations: Collection[str],
    hashes: Collection[int],
) -> ManifestMatch:
    location = manifest.manifest_path
    data = read_file(engine, table, location)
    with reported(table, location):
        encoded = encoded_manifest(data)
        if encoded is not None:
            decoder = entry_decoder(encoded.schema)
            candidates = encoded.entries(encoded.matching(hashes, manifest.live_files_count))
            decoded = {number: decoder.decode(entry) for number, entry in candidates.items()}
            files = {n: file for n, file in decoded.items() if file.location in locations}
            return ManifestMatch(manifest=manifest, files=files, encoded=encoded)
    files = {
        number: file
        for number, entry in enumerate(live_entries(engine, table, manifest))
        if (file := encoded_file(entry.data_file)).location in locations
    }
    return ManifestMatch(manifest=manifest, files=files)
