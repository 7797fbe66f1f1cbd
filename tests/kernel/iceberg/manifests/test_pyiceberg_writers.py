from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyiceberg import manifest as pyiceberg_manifest
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionSpec as PyIcebergSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from bayou.errors import PrerequisiteError
from bayou.kernel.iceberg.manifests.avro_file import read_avro_file
from bayou.kernel.iceberg.manifests.encoded_entry import encoded_file
from bayou.kernel.iceberg.manifests.encoded_manifest import EncodedManifest, encoded_manifest
from bayou.kernel.iceberg.manifests.entries import (
    ADDED,
    DATA_MANIFEST,
    DELETED,
    EXISTING,
    DataFile,
    FieldSummary,
    ManifestEntry,
    ManifestFile,
    NewSnapshot,
    PartitionSpec,
)
from bayou.kernel.iceberg.manifests.manifest_writer import MetadataWriter
from bayou.kernel.iceberg.manifests.pyiceberg_writers import MemoryOutputFile

TYPES = {
    "a day": "date",
    "über": "string",
    "d": "decimal(9, 2)",
    "x": "double",
    "f": "float",
    "n": "long",
    "at": "timestamptz",
    "b": "boolean",
    "raw": "binary",
}
SCHEMA = {
    "type": "struct",
    "schema-id": 4,
    "fields": [
        {"id": i, "name": name, "required": False, "type": each}
        for i, (name, each) in enumerate([*TYPES.items(), ("id", "int")], 1)
    ],
    "identifier-field-ids": [],
}
SPEC = PartitionSpec(
    spec_id=2,
    fields=[
        {"source-id": i, "field-id": 999 + i, "name": name, "transform": "identity"}
        for i, name in enumerate(TYPES, 1)
    ],
    types=list(TYPES.values()),
    schema=SCHEMA,
)
PARTITIONS: list[tuple[Any, ...]] = [
    (19_000, "b", Decimal("1.50"), 1.5, 0.5, 1 << 40, 5, True, b"\x01"),
    (-1, "ü", Decimal("-1.28"), math.nan, math.inf, -1, -5, True, b""),
    (None, None, None, None, None, None, None, None, None),
    (7, "a", Decimal("0.00"), -math.inf, math.nan, 0, 0, True, b"\xff"),
]
OLD = NewSnapshot(snapshot_id=2**61, parent_snapshot_id=None, sequence_number=3)
NEW = NewSnapshot(snapshot_id=2**61 + 9, parent_snapshot_id=2**61, sequence_number=8)


def entry(number: int, status: int = ADDED, partition: tuple[Any, ...] = ()) -> ManifestEntry:
    return ManifestEntry(
        status=status,
        snapshot_id=NEW.snapshot_id if status != EXISTING else OLD.snapshot_id,
        sequence_number=None if status == ADDED else 3,
        file_sequence_number=None if status == ADDED else 3,
        data_file=DataFile(
            file_path=f"file:///lake/part-{number}.parquet",
            partition=partition,
            record_count=number + 1,
            file_size_in_bytes=1000 + number,
            value_counts={1: number, 10: number},
            null_value_counts={1: 0},
            lower_bounds={10: b"\x00"},
            upper_bounds={10: b"\xff" * 100},
        ),
    )


def with_partitions(partitions: Sequence[tuple[Any, ...]], status: int) -> list[ManifestEntry]:
    return [entry(number, status, partition) for number, partition in enumerate(partitions)]


def manifest(
    entries: Sequence[ManifestEntry], spec: PartitionSpec = SPEC, snapshot: NewSnapshot = NEW
) -> tuple[bytes, ManifestFile]:
    writer = MetadataWriter(2)
    parts = [writer.encoded(spec, entries)]
    return writer.manifest("m", spec, parts, snapshot, DATA_MANIFEST)


def of_pyiceberg(
    entries: Sequence[ManifestEntry], spec: PartitionSpec, snapshot: NewSnapshot
) -> tuple[bytes, Any]:
    """Write a manifest with pyiceberg alone."""
    file = MemoryOutputFile("m")
    writer = pyiceberg_manifest.write_manifest(
        2,
        PyIcebergSpec.model_validate({"spec-id": spec.spec_id, "fields": list(spec.fields)}),
        Schema.model_validate(spec.schema),
        file,
        snapshot.snapshot_id,
        "deflate",
    )
    with writer:
        for each in entries:
            data = each.data_file
            writer.add_entry(
                pyiceberg_manifest.ManifestEntry.from_args(
                    status=pyiceberg_manifest.ManifestEntryStatus(each.status),
                    snapshot_id=each.snapshot_id,
                    sequence_number=each.sequence_number,
                    file_sequence_number=each.file_sequence_number,
                    data_file=pyiceberg_manifest.DataFile.from_args(
                        content=pyiceberg_manifest.DataFileContent.DATA,
                        file_path=data.file_path,
                        file_format=pyiceberg_manifest.FileFormat.PARQUET,
                        partition=Record(*data.partition),
                        record_count=data.record_count,
                        file_size_in_bytes=data.file_size_in_bytes,
                        value_counts=data.value_counts,
                        null_value_counts=data.null_value_counts,
                        lower_bounds=data.lower_bounds,
                        upper_bounds=data.upper_bounds,
                    ),
                )
            )
    return file.data, writer.to_manifest_file()


def described(written: Any) -> dict[str, Any]:
    """Return the values of a manifest list entry that don't depend on its blocks and index."""
    names = ("sequence_number", "partition_spec_id", "min_sequence_number", "added_snapshot_id")
    counts = [f"{status}_{unit}_count" for status in ("added", "existing", "deleted")
              for unit in ("files", "rows")]  # fmt: skip
    summaries = [
        (each.contains_null, each.contains_nan, each.lower_bound, each.upper_bound)
        for each in written.partitions
    ]
    values = {name: getattr(written, name) for name in (*names, *counts)}
    return {**values, "content": int(written.content), "partitions": summaries}


def records(data: bytes) -> str:
    return repr(list(fastavro.reader(io.BytesIO(data))))  # NaN isn't equal to itself


def header(data: bytes) -> Mapping[str, bytes]:
    metadata = read_avro_file(data).metadata
    return {key: value for key, value in metadata.items() if not key.startswith("bayou.")}


def parsed(data: bytes) -> EncodedManifest:
    encoded = encoded_manifest(data)
    assert encoded is not None
    return encoded


@pytest.mark.parametrize("status", [ADDED, EXISTING, DELETED])
@pytest.mark.parametrize("partitions", [PARTITIONS, PARTITIONS[:1], PARTITIONS[2:3]])
def test_a_manifest_equals_the_one_that_pyiceberg_writes(
    status: int, partitions: list[tuple[Any, ...]]
) -> None:
    entries = with_partitions(partitions, status)
    data, written = manifest(entries)
    expected_data, expected = of_pyiceberg(entries, SPEC, NEW)
    assert records(data) == records(expected_data)
    assert header(data) == header(expected_data)
    # pyiceberg's writer of manifest lists sets the sequence numbers.
    assigned = {"sequence_number": 8, "min_sequence_number": 3 if status == EXISTING else 8}
    assert described(written) == {**described(expected), **assigned}
    assert written.manifest_length == len(data)


def test_a_renamed_column_has_its_new_name_in_the_manifest() -> None:
    fields = [{**SPEC.fields[0], "name": "new name"}, *SPEC.fields[1:]]
    columns = [{**SCHEMA["fields"][0], "name": "new name"}, *SCHEMA["fields"][1:]]  # type: ignore[index]
    renamed = replace(SPEC, fields=fields, schema={**SCHEMA, "schema-id": 5, "fields": columns})
    entries = with_partitions(PARTITIONS, ADDED)
    data, _ = manifest(entries, renamed)
    expected, _ = of_pyiceberg(entries, renamed, NEW)
    assert (header(data), records(data)) == (header(expected), records(expected))
    assert "new_x20name" in records(data)
    # Entries with the old name are decoded.
    older, described_older = manifest(entries)
    writer = MetadataWriter(2)
    assert not writer.can_move(renamed, described_older, parsed(older))
    assert writer.can_move(SPEC, described_older, parsed(older))


@pytest.mark.parametrize("removed", [[], [0], [1, 3], [0, 1, 2, 3]])
def test_moved_entries_have_the_bounds_of_all_files_of_their_manifest(removed: list[int]) -> None:
    added = [replace(each, snapshot_id=OLD.snapshot_id) for each in with_partitions(PARTITIONS, 1)]
    data, source = manifest(added, snapshot=OLD)
    files = {number: encoded_file(added[number].data_file) for number in removed}
    moved = parsed(data).moved(source, NEW.snapshot_id, files)
    after, written = MetadataWriter(2).manifest("m", SPEC, [moved], NEW, DATA_MANIFEST)
    existing = [each for n, each in enumerate(with_partitions(PARTITIONS, 0)) if n not in removed]
    deleted = [each for n, each in enumerate(with_partitions(PARTITIONS, 2)) if n in removed]
    expected_data, expected = of_pyiceberg([*existing, *deleted], SPEC, NEW)
    assert records(after) == records(expected_data)
    assigned = {"sequence_number": 8, "min_sequence_number": 3}
    assert described(written) == {**described(expected), **assigned}
    # The summaries are still equal when the entries are moved again.
    again = parsed(after).moved(written, NEW.snapshot_id + 1, {})
    if len(removed) < len(PARTITIONS):
        _, second = MetadataWriter(2).manifest("m", SPEC, [again], NEW, DATA_MANIFEST)
        assert second.partitions == written.partitions


def test_a_manifest_merges_moved_and_encoded_entries() -> None:
    unpartitioned = replace(SPEC, spec_id=0, fields=[], types=[])
    first, described_first = manifest([entry(number) for number in range(70)], unpartitioned)
    existing = [entry(number, EXISTING) for number in range(70, 140)]
    writer = MetadataWriter(2)
    moved = parsed(first).moved(described_first, 1, {})
    parts = [moved, writer.encoded(unpartitioned, existing)]
    merged, described_merged = writer.manifest("m", unpartitioned, parts, NEW, DATA_MANIFEST)
    paths = [record["data_file"]["file_path"] for record in fastavro.reader(io.BytesIO(merged))]  # type: ignore[call-overload,index]
    assert paths == [entry(number).data_file.file_path for number in range(140)]
    assert [block.count for block in read_avro_file(merged).blocks] == [100, 40]
    assert described_merged.existing_files_count == 140
    assert described_merged.existing_rows_count == sum(range(1, 141))
    assert described_merged.min_sequence_number == 3
    assert parsed(merged).entries([0, 139]).keys() == {0, 139}


def test_pyiceberg_checks_the_sequence_numbers_of_entries() -> None:
    inheriting = replace(entry(0, EXISTING), sequence_number=None)
    with pytest.raises(ValueError, match="unassigned sequence number"):
        manifest([inheriting], replace(SPEC, fields=[], types=[]))


def test_pyiceberg_reads_manifests_and_manifest_lists(tmp_path: Path) -> None:
    location = str(tmp_path / "m.avro")
    writer = MetadataWriter(2)
    entries = with_partitions(PARTITIONS, ADDED)
    parts = [writer.encoded(SPEC, entries)]
    data, written = writer.manifest(location, SPEC, parts, NEW, DATA_MANIFEST)
    Path(location).write_bytes(data)
    nan = FieldSummary(contains_null=False, contains_nan=None, lower_bound=None, upper_bound=b"z")
    other = replace(written, manifest_path="other", sequence_number=1, partitions=(nan,))
    path = tmp_path / "list.avro"
    path.write_bytes(writer.manifest_list([written, other], NEW))
    io_of_files = PyArrowFileIO()
    read = list(pyiceberg_manifest.read_manifest_list(io_of_files.new_input(str(path))))
    assert [described(each) for each in read] == [described(written), described(other)]
    assert [each.manifest_length for each in read] == [len(data)] * 2
    found = read[0].fetch_manifest_entry(io_of_files)
    assert [each.data_file.file_path for each in found] == [e.data_file.file_path for e in entries]
    assert {each.sequence_number for each in found} == {8}
    assert header(path.read_bytes())["sequence-number"] == b"8"


@pytest.mark.parametrize("version", [2, 3])
def test_a_manifest_list_can_be_empty(version: int) -> None:
    data = MetadataWriter(version).manifest_list([], NEW)
    assert records(data) == "[]"
    assert read_avro_file(data).blocks == []
    assert header(data)["format-version"] == str(version).encode()


def test_a_version_of_pyiceberg_with_another_field_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(DataFile, "sort_order_id")
    with pytest.raises(
        PrerequisiteError, match="DataFile has the field sort_order_id,.*pip install"
    ):
        manifest([entry(0)], replace(SPEC, fields=[], types=[]))


def test_a_version_of_pyiceberg_without_an_attribute_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(pyiceberg_manifest.ManifestWriter.__annotations__, "_existing_files")
    with pytest.raises(
        PrerequisiteError, match="ManifestWriter .* no _existing_files.*pip install"
    ):
        MetadataWriter(2)
    monkeypatch.undo()
    monkeypatch.delattr(AvroOutputFile, "write_block")
    with pytest.raises(PrerequisiteError, match="AvroOutputFile .* no write_block"):
        MetadataWriter(2)
