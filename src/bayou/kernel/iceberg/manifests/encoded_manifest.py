"""Manifests with encoded entries, to find and remove files without decoding other entries.

Manifests that Bayou writes have an index in the metadata of the Avro file, which other readers
ignore. For each entry, the index has the length in bytes and a hash of the file's location. The
live entries come first and all have the same status; the deleted entries follow.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bayou.kernel.iceberg.manifests.avro_file import (
    CODEC_KEY,
    SCHEMA_KEY,
    AvroFile,
    Block,
    deflated,
    read_avro_file,
    read_metadata,
)
from bayou.kernel.iceberg.manifests.entries import DELETED, EXISTING, ManifestFile
from bayou.kernel.iceberg.manifests.entry_encoding import EntryMover

_HASHES_KEY = "bayou.location-hashes"
_LENGTHS_KEY = "bayou.entry-lengths"
_BLOCK_ENTRIES = 100
_BYTES_BEFORE_INDEX = 512
_BYTES_PER_ENTRY = 16 / 3  # four bytes in Base64


def location_hash(location: str) -> int:
    """Return the hash with which the index represents the location of a file."""
    return zlib.crc32(location.encode())


def index_length(entries: int) -> int:
    """Return the length in bytes of an index with a number of entries."""
    return _BYTES_BEFORE_INDEX + int(entries * _BYTES_PER_ENTRY) + 4


def location_hashes(head: bytes) -> tuple[int, ...] | None:
    """Read the hashes of all entries from the first bytes of a manifest; None without an index.

    Raises:
        ValueError, IndexError: it isn't an Avro file, or `head` ends within the index.
    """
    return _hashes(read_metadata(head, _HASHES_KEY))


@dataclass(frozen=True, slots=True)
class EncodedEntry:
    """An encoded entry, and the hash of its file's location."""

    location_hash: int
    data: bytes


@dataclass(frozen=True, slots=True)
class EncodedManifest:
    """A manifest with an index."""

    file: AvroFile
    hashes: Sequence[int]
    lengths: Sequence[int]

    @property
    def schema(self) -> bytes:
        """Avro schema of the entries, as JSON."""
        return self.file.metadata[SCHEMA_KEY]

    @property
    def header(self) -> dict[str, bytes]:
        """The metadata of the Avro file without the index."""
        own = (_HASHES_KEY, _LENGTHS_KEY)
        return {key: value for key, value in self.file.metadata.items() if key not in own}

    def matching(self, wanted: Collection[int], live: int) -> list[int]:
        """Return the indexes of the first `live` entries that have one of the `wanted` hashes."""
        return matching_hashes(self.hashes[:live], wanted)

    def entries(self, numbers: Collection[int]) -> dict[int, bytes]:
        """Return the encoded entries with these indexes."""
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

    def live_entries(self, live: int, mover: EntryMover) -> Iterator[EncodedEntry]:
        """Yield the first `live` entries with the status EXISTING."""
        for first, block in self._blocks():
            if first >= live:
                return
            for number, entry in enumerate(self._split(first, block)[: live - first], first):
                yield EncodedEntry(self.hashes[number], mover.moved(entry, EXISTING))

    def without(self, removed: Collection[int], manifest: ManifestFile, mover: EntryMover) -> bytes:
        """Return a manifest in which removed entries are DELETED, and other live entries EXISTING.

        Args:
            removed: indexes of the removed entries.
            manifest: the entry of this manifest in the manifest list.
        """
        live = manifest.live_files_count
        existing = manifest.added_files_count == 0
        blocks: list[Block] = []
        hashes: list[int] = []
        lengths: list[int] = []
        deleted: list[EncodedEntry] = []
        for first, block in self._blocks():
            numbers = range(first, min(first + block.count, live))
            remaining = [number for number in numbers if number not in removed]
            if existing and len(remaining) == block.count:
                blocks.append(block)
                hashes += self.hashes[first : first + block.count]
                lengths += self.lengths[first : first + block.count]
                continue
            encoded = self._split(first, block) if numbers else []
            retained = [mover.moved(encoded[number - first], EXISTING) for number in remaining]
            if retained:
                blocks.append(deflated(retained))
                hashes += [self.hashes[number] for number in remaining]
                lengths += map(len, retained)
            deleted += [
                EncodedEntry(self.hashes[n], mover.moved(encoded[n - first], DELETED))
                for n in numbers
                if n in removed
            ]
        blocks += _blocks_of(deleted)
        hashes += [entry.location_hash for entry in deleted]
        lengths += [len(entry.data) for entry in deleted]
        return _to_bytes(self.header, blocks, hashes, lengths)

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
        ValueError, IndexError: it isn't a manifest.
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
    if sum(block.count for block in file.blocks) != len(hashes):
        raise ValueError("the manifest's index has another number of entries")
    return EncodedManifest(file, hashes, lengths)


def manifest_bytes(metadata: Mapping[str, bytes], entries: Sequence[EncodedEntry]) -> bytes:
    """Return the bytes of a manifest with an index.

    Args:
        metadata: the metadata of the Avro file, without codec and index.
        entries: entries of one status.
    """
    return _to_bytes(
        {**metadata, CODEC_KEY: b"deflate"},
        list(_blocks_of(entries)),
        [entry.location_hash for entry in entries],
        [len(entry.data) for entry in entries],
    )


def matching_hashes(hashes: Sequence[int], wanted: Collection[int]) -> list[int]:
    """Return the positions of hashes that are in a set."""
    return [number for number, each in enumerate(hashes) if each in wanted]


def _blocks_of(entries: Sequence[EncodedEntry]) -> Iterator[Block]:
    for start in range(0, len(entries), _BLOCK_ENTRIES):
        yield deflated([entry.data for entry in entries[start : start + _BLOCK_ENTRIES]])


def _to_bytes(
    metadata: Mapping[str, bytes],
    blocks: Sequence[Block],
    hashes: Sequence[int],
    lengths: Sequence[int],
) -> bytes:
    index = {
        _HASHES_KEY: base64.b64encode(struct.pack(f"<{len(hashes)}I", *hashes)),
        _LENGTHS_KEY: base64.b64encode(zlib.compress(struct.pack(f"<{len(lengths)}I", *lengths))),
    }
    # The index comes first: to read it, only the first bytes of the file are needed.
    return AvroFile({**index, **metadata}, blocks).to_bytes()


def _hashes(metadata: Mapping[str, bytes]) -> tuple[int, ...] | None:
    encoded = metadata.get(_HASHES_KEY)
    if encoded is None:
        return None
    try:
        data = base64.b64decode(encoded, validate=True)
        return struct.unpack(f"<{len(data) // 4}I", data)
    except (binascii.Error, struct.error) as error:
        raise ValueError(f"the manifest's index is damaged: {error}") from error
