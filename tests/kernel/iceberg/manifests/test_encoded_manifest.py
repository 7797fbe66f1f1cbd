from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from bayou.kernel.iceberg.manifests.avro_file import (
    AvroFile,
    decode_long,
    encode_bytes,
    encode_long,
    read_avro_file,
)
from bayou.kernel.iceberg.manifests.encoded_entry import EncodedFile
from bayou.kernel.iceberg.manifests.encoded_manifest import (
    EncodedManifest,
    encoded_manifest,
    index_length,
    location_hash,
    location_hashes,
)
from bayou.kernel.iceberg.manifests.entries import (
    ADDED,
    DATA_MANIFEST,
    DELETED,
    EXISTING,
    DataFile,
    ManifestEntry,
    ManifestFile,
    NewSnapshot,
    PartitionSpec,
)
from bayou.kernel.iceberg.manifests.manifest_writer import MetadataWriter
from support.avro_files import avro_bytes, deflated, without_index

SPEC = PartitionSpec(
    spec_id=0, fields=[], types=[], schema={"type": "struct", "schema-id": 0, "fields": []}
)
SNAPSHOTS = [
    NewSnapshot(snapshot_id=number, parent_snapshot_id=None, sequence_number=number)
    for number in range(1, 5)
]


def path_of(number: int) -> str:
    return f"file:///lake/orders/part-{number:05}.parquet"


def written(count: int) -> tuple[bytes, ManifestFile]:
    entries = [
        ManifestEntry(
            status=ADDED,
            snapshot_id=1,
            sequence_number=None,
            file_sequence_number=None,
            data_file=DataFile(
                file_path=path_of(number),
                partition=(),
                record_count=number,
                file_size_in_bytes=1000,
            ),
        )
        for number in range(count)
    ]
    writer = MetadataWriter(2)
    parts = [writer.encoded(SPEC, entries)]
    return writer.manifest("m", SPEC, parts, SNAPSHOTS[0], DATA_MANIFEST)


def parsed(data: bytes) -> EncodedManifest:
    encoded = encoded_manifest(data)
    assert encoded is not None
    return encoded


def numbers(encoded: EncodedManifest, manifest: ManifestFile, paths: list[str]) -> list[int]:
    hashes = {location_hash(path) for path in paths}
    return encoded.matching(hashes, manifest.live_files_count)


def without(
    data: bytes, manifest: ManifestFile, paths: list[str], snapshot: NewSnapshot
) -> tuple[bytes, ManifestFile]:
    encoded = parsed(data)
    files = [EncodedFile(path, 0, int(path[-13:-8]), 1000) for path in paths]
    found = dict(zip(numbers(encoded, manifest, paths), files, strict=True))
    moved = encoded.moved(manifest, snapshot.snapshot_id, found)
    return MetadataWriter(2).manifest("n", SPEC, [moved], snapshot, DATA_MANIFEST)


def states(data: bytes) -> list[tuple[str, int, int]]:
    records: Any = fastavro.reader(io.BytesIO(data))
    return [(r["data_file"]["file_path"], r["status"], r["snapshot_id"]) for r in records]


def test_removed_files_are_deleted_entries_of_the_new_manifest() -> None:
    data, manifest = written(250)
    removed = [path_of(0), path_of(120), path_of(249)]
    after, described = without(data, manifest, removed, SNAPSHOTS[1])
    existing = [(path_of(n), EXISTING, 1) for n in range(250) if path_of(n) not in removed]
    assert states(after) == [*existing, *((path, DELETED, 2) for path in removed)]
    assert described.existing_files_count == 247
    assert described.deleted_files_count == 3
    assert described.added_files_count == 0
    assert described.deleted_rows_count == 120 + 249
    assert described.existing_rows_count + described.deleted_rows_count == sum(range(250))
    assert (described.sequence_number, described.min_sequence_number) == (2, 1)


def test_deleted_entries_are_left_out_of_the_next_manifest() -> None:
    data, manifest = written(250)
    data, manifest = without(data, manifest, [path_of(120)], SNAPSHOTS[1])
    after, described = without(data, manifest, [path_of(121)], SNAPSHOTS[2])
    existing = [(path_of(n), EXISTING, 1) for n in range(250) if n not in (120, 121)]
    assert states(after) == [*existing, (path_of(121), DELETED, 3)]
    assert described.live_files_count == 248
    # A file that was deleted isn't found.
    assert numbers(parsed(after), described, [path_of(120), path_of(121)]) == []


def test_blocks_without_removed_files_are_copied() -> None:
    data, manifest = written(1000)
    data, manifest = without(data, manifest, [path_of(120)], SNAPSHOTS[1])
    after, _ = without(data, manifest, [path_of(530)], SNAPSHOTS[2])
    before = {block.data for block in read_avro_file(data).blocks}
    copied = [block.data in before for block in read_avro_file(after).blocks]
    assert copied == [number not in (5, 10) for number in range(11)]


def test_all_files_of_a_manifest_are_removed() -> None:
    data, manifest = written(3)
    after, described = without(data, manifest, [path_of(n) for n in range(3)], SNAPSHOTS[1])
    assert states(after) == [(path_of(n), DELETED, 2) for n in range(3)]
    assert described.live_files_count == 0


@pytest.mark.parametrize("count", [1, 100, 4000])
def test_the_index_is_in_the_first_bytes(count: int) -> None:
    data, _ = written(count)
    hashes = location_hashes(data[: index_length(count)])
    assert hashes == tuple(location_hash(path_of(number)) for number in range(count))
    with pytest.raises((ValueError, IndexError)):
        location_hashes(data[:30])


def test_a_manifest_without_an_index_is_another_writers() -> None:
    data, _ = written(3)
    assert encoded_manifest(data) is not None
    assert encoded_manifest(without_index(data)) is None


@pytest.mark.parametrize("damage", ["hashes", "lengths", "block"])
def test_a_damaged_manifest_is_an_error(damage: str) -> None:
    data, manifest = written(3)
    file = read_avro_file(data)
    metadata, blocks = dict(file.metadata), list(file.blocks)
    match damage:
        case "hashes":
            metadata["bayou.location-hashes"] = b"%"
        case "lengths":
            metadata["bayou.entry-lengths"] = b"AAAA"
        case _:
            blocks = [deflated([b"x"] * 3)]
    broken = avro_bytes(AvroFile(metadata, blocks))
    with pytest.raises(ValueError, match="index is damaged|lengths of the manifest's entries"):
        without(broken, manifest, [path_of(1)], SNAPSHOTS[1])


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_files_of_an_avro_library_are_read(codec: Any) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}]}
    output = io.BytesIO()
    rows = [{"s": str(number) * 100} for number in range(1000)]
    fastavro.writer(output, fastavro.parse_schema(schema), rows, codec=codec)
    file = read_avro_file(output.getvalue())
    records = b"".join(file.records(block) for block in file.blocks)
    assert records == b"".join(encode_bytes(row["s"].encode()) for row in rows)
    assert list(fastavro.reader(io.BytesIO(avro_bytes(file)))) == rows
    with pytest.raises((ValueError, IndexError)):
        read_avro_file(output.getvalue()[:-20])


@pytest.mark.parametrize(
    "value", [0, -1, 1, 63, 64, -64, -65, 1 << 40, -(1 << 40), 2**63 - 1, -(2**63)]
)
def test_numbers_are_those_of_an_avro_library(value: int) -> None:
    output = io.BytesIO()
    fastavro.schemaless_writer(output, fastavro.parse_schema("long"), value)  # type: ignore[arg-type]
    assert encode_long(value) == output.getvalue()
    assert decode_long(output.getvalue(), 0) == (value, len(output.getvalue()))
