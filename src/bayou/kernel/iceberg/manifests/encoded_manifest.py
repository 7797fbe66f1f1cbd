"""Manifests with an index, to find and remove files without decoding all entries.

Bayou writes this index to the metadata of the manifest's Avro file. Other readers ignore it. For
each entry, the index has the length of the encoded entry in bytes and a hash of the file's
location. The live entries come first, and the deleted entries follow. All live entries have the
same status.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bayou.kernel.iceberg.manifests.avro_file import (
    DEFLATE,
    SCHEMA_KEY,
    AvroFile,
    Block,
    read_avro_file,
    read_metadata,
)
from bayou.kernel.iceberg.manifests.encoded_entry import EncodedFile, EntryMover
from bayou.kernel.iceberg.manifests.entries import DELETED, EXISTING, ManifestEntry, ManifestFile

_HASHES_KEY = "bayou.location-hashes"
_LENGTHS_KEY = "bayou.entry-lengths"
_MIN_COPIED_ENTRIES = 50  # smaller blocks are merged
_BYTES_BEFORE_INDEX = 512
_BYTES_PER_ENTRY = 16 / 3  # four bytes in Base64


def location_hash(location: str) -> int:
    """Return the hash of a file's location that the index of a manifest contains."""
    return zlib.crc32(location.encode())


def index_length(entries: int) -> int:
    """Return how many bytes from the start of a manifest must be read to get all location hashes.

    Args:
        entries: number of entries in the manifest, including deleted entries.
    """
    return _BYTES_BEFORE_INDEX + int(entries * _BYTES_PER_ENTRY) + 4


def location_hashes(head: bytes) -> tuple[int, ...] | None:
    """Read the location hashes of all entries from the first bytes of a manifest.

    Returns:
        The hashes; None if the manifest has no index.

    Raises:
        ValueError, IndexError: `head` isn't from an Avro file, or ends before the end of the
            hashes, or the index is damaged.
    """
    return _hashes(read_metadata(head, _HASHES_KEY))


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedEntries:
    """Decoded entries for a new manifest, and the encoded record of each entry."""

    entries: Sequence[ManifestEntry]
    records: Sequence[bytes]

    @property
    def hashes(self) -> list[int]:
        """Hash of each entry's file location, for the index of the manifest."""
        files = (entry.data_file for entry in self.entries)
        return [location_hash(file.referenced_data_file or file.file_path) for file in files]

    @property
    def lengths(self) -> list[int]:
        """Length of each encoded record in bytes, for the index of the manifest."""
        return [len(record) for record in self.records]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedEntries:
    """Entries that are copied from an older manifest to a new manifest without decoding them.

    Attributes:
        source: the older manifest, as described by its manifest list.
        existing: EXISTING entries, in order. Each item is a compressed block of entries that are
            copied unchanged, or a sequence of encoded records.
        deleted: encoded records of DELETED entries.
        deleted_files: the files of the DELETED entries.
        hashes: hashes of the file locations, for the index of the new manifest. The hashes of
            existing files come first, and the hashes of deleted files follow.
        lengths: lengths of the records in bytes, in the same order as the hashes.
    """

    source: ManifestFile
    existing: Sequence[Block | Sequence[bytes]]
    deleted: Sequence[bytes]
    deleted_files: Collection[EncodedFile]
    hashes: Sequence[int]
    lengths: Sequence[int]


@dataclass(frozen=True, slots=True)
class EncodedManifest:
    """A parsed manifest that has an index of file locations (see the module's docstring)."""

    file: AvroFile
    hashes: Sequence[int]
    lengths: Sequence[int]

    @property
    def schema(self) -> bytes:
        """Avro schema of the entries, as JSON."""
        return self.file.metadata[SCHEMA_KEY]

    def matching(self, wanted: Collection[int], live: int) -> list[int]:
        """Return the indexes of the live entries whose location hash is in `wanted`.

        Args:
            live: number of live entries. They are the first entries of the manifest.
        """
        return matching_hashes(self.hashes[:live], wanted)

    def entries(self, numbers: Collection[int]) -> dict[int, bytes]:
        """Return the encoded entries at the indexes `numbers`, by index."""
        result: dict[int, bytes] = {}
        ordered = sorted(numbers)
        position = 0
        for first, block in self._blocks():
            selected = []
            while position < len(ordered) and ordered[position] < first + block.count:
                selected.append(ordered[position])
                position += 1
            if selected:
                encoded = self._split(first, block)
                result.update((number, encoded[number - first]) for number in selected)
        return result

    def moved(
        self, manifest: ManifestFile, snapshot_id: int, removed: Mapping[int, EncodedFile]
    ) -> MovedEntries:
        """Return the entries of a new manifest that replaces this manifest.

        These are the live entries of this manifest. Entries of removed files get the status
        DELETED. All other entries get EXISTING.

        Args:
            manifest: this manifest, as described by its manifest list.
            snapshot_id: the snapshot that removes the files.
            removed: the removed files by the indexes of their entries.
        """
        live = manifest.live_files_count
        mover = EntryMover(manifest, snapshot_id)
        blocks_can_be_copied = manifest.added_files_count == 0 and self.file.codec == DEFLATE
        existing: list[Block | Sequence[bytes]] = []
        existing_numbers: list[int] = []
        existing_lengths: list[int] = []
        deleted: list[bytes] = []
        deleted_numbers: list[int] = []
        for first, block in self._blocks():
            numbers = range(first, min(first + block.count, live))
            if not numbers:
                break
            remaining = [number for number in numbers if number not in removed]
            existing_numbers += remaining
            if (
                blocks_can_be_copied
                and len(remaining) == block.count
                and block.count >= _MIN_COPIED_ENTRIES
            ):
                existing.append(block)
                existing_lengths += self.lengths[first : first + block.count]
                continue
            encoded = self._split(first, block)
            records = [mover.moved(encoded[number - first], EXISTING) for number in remaining]
            existing.append(records)
            existing_lengths += map(len, records)
            for number in numbers:
                if number in removed:
                    deleted.append(mover.moved(encoded[number - first], DELETED))
                    deleted_numbers.append(number)
        return MovedEntries(
            source=manifest,
            existing=existing,
            deleted=deleted,
            deleted_files=removed.values(),
            hashes=[self.hashes[number] for number in [*existing_numbers, *deleted_numbers]],
            lengths=[*existing_lengths, *map(len, deleted)],
        )

    def _blocks(self) -> Iterator[tuple[int, Block]]:
        first = 0
        for block in self.file.blocks:
            yield first, block
            first += block.count

    def _split(self, first: int, block: Block) -> list[bytes]:
        data = self.file.records(block)
        entries = []
        position = 0
        for length in self.lengths[first : first + block.count]:
            entries.append(data[position : position + length])
            position += length
        if position != len(data):
            raise ValueError(
                "the lengths of the manifest's entries don't add up to the length of the block"
            )
        return entries


def encoded_manifest(data: bytes) -> EncodedManifest | None:
    """Parse a manifest; return None if it has no index.

    Raises:
        ValueError, IndexError: `data` isn't a manifest, or the manifest or its index is damaged.
    """
    file = read_avro_file(data)
    hashes = _hashes(file.metadata)
    if hashes is None:
        return None
    try:
        encoded = zlib.decompress(base64.b64decode(file.metadata[_LENGTHS_KEY]))
        lengths = struct.unpack(f"<{len(hashes)}I", encoded)
    except (KeyError, struct.error, zlib.error) as error:
        raise ValueError(f"the manifest's index is damaged: {error}") from error
    entries = sum(block.count for block in file.blocks)
    if entries != len(hashes):
        raise ValueError(f"the manifest has {entries} entries, but its index has {len(hashes)}")
    return EncodedManifest(file, hashes, lengths)


def index_metadata(parts: Iterable[EncodedEntries | MovedEntries]) -> dict[str, str]:
    """Return the index of a new manifest, as metadata for the manifest's Avro file.

    Args:
        parts: the entries of the manifest, in order.
    """
    hashes: list[int] = []
    lengths: list[int] = []
    for part in parts:
        hashes += part.hashes
        lengths += part.lengths
    packed = struct.pack(f"<{len(hashes)}I", *hashes)
    compressed = zlib.compress(struct.pack(f"<{len(lengths)}I", *lengths))
    return {
        _HASHES_KEY: base64.b64encode(packed).decode(),
        _LENGTHS_KEY: base64.b64encode(compressed).decode(),
    }


def matching_hashes(hashes: Sequence[int], wanted: Collection[int]) -> list[int]:
    """Return the indexes of the `hashes` that are in `wanted`."""
    return [number for number, each in enumerate(hashes) if each in wanted]


def _hashes(metadata: Mapping[str, bytes]) -> tuple[int, ...] | None:
    encoded = metadata.get(_HASHES_KEY)
    if encoded is None:
        return None
    try:
        data = base64.b64decode(encoded, validate=True)
        return struct.unpack(f"<{len(data) // 4}I", data)
    except (binascii.Error, struct.error) as error:
        raise ValueError(f"the manifest's index is damaged: {error}") from error
