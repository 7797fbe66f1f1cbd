from __future__ import annotations

import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from bayou.kernel.iceberg.manifests.encoded_entry import EncodedFile, EntryMover, entry_decoder
from bayou.kernel.iceberg.manifests.entries import (
    ADDED,
    DATA_MANIFEST,
    DELETE_MANIFEST,
    DELETED,
    EXISTING,
    POSITION_DELETES,
    DataFile,
    FieldSummary,
    ManifestEntry,
    ManifestFile,
    NewSnapshot,
    PartitionSpec,
)
from bayou.kernel.iceberg.manifests.entry_encoder import EntryEncoder
from bayou.kernel.iceberg.manifests.manifest_writer import MetadataWriter

TYPES = ["int", "long", "string", "date", "timestamptz", "decimal(9, 2)", "boolean", "binary"]
SPEC = PartitionSpec(
    spec_id=3,
    fields=[
        {"source-id": i, "field-id": 1000 + i, "name": f"p {i}", "transform": "identity"}
        for i in range(1, len(TYPES) + 1)
    ],
    types=TYPES,
    schema={
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": i, "name": f"p {i}", "required": False, "type": each}
            for i, each in enumerate(TYPES, 1)
        ],
    },
)
UNPARTITIONED = PartitionSpec(spec_id=0, fields=[], types=[], schema=SPEC.schema)
SNAPSHOT = NewSnapshot(
    snapshot_id=2**61 + 7, parent_snapshot_id=None, sequence_number=300, first_row_id=12
)
VALUES = (-1, 1 << 40, "ü", 19_000, -1_000_000, Decimal("-1.50"), True, b"\x00")


def entry(partition: tuple[Any, ...] = (), **changes: Any) -> ManifestEntry:
    file = DataFile(
        file_path="file:///lake/orders/part-ü.parquet",
        partition=partition,
        record_count=1 << 33,
        file_size_in_bytes=129,
        value_counts={1: 10, 2_000_000_000: 1 << 40},
        null_value_counts={1: 0},
        lower_bounds={1: b"", 300: b"x" * 200},
        upper_bounds=None,
        **changes,
    )
    return ManifestEntry(
        status=ADDED,
        snapshot_id=SNAPSHOT.snapshot_id,
        sequence_number=None,
        file_sequence_number=None,
        data_file=file,
    )


def decoded(written: bytes) -> list[dict[str, Any]]:
    return [dict(record) for record in fastavro.reader(io.BytesIO(written))]  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("values", [VALUES, (None,) * len(VALUES)], ids=["values", "nulls"])
def test_an_avro_library_reads_each_field_of_an_entry(
    version: int, values: tuple[Any, ...]
) -> None:
    writer = MetadataWriter(version)
    changes = {"first_row_id": 5} if version == 3 else {}
    parts = [writer.encoded(SPEC, [entry(values, **changes)])]
    written, _ = writer.manifest("m", SPEC, parts, SNAPSHOT, DATA_MANIFEST)
    (record,) = decoded(written)
    file = record.pop("data_file")
    assert record == {
        "status": ADDED,
        "snapshot_id": SNAPSHOT.snapshot_id,
        "sequence_number": None,
        "file_sequence_number": None,
    }
    partition = list(file.pop("partition").values())
    assert [value is None for value in partition] == [value is None for value in values]
    if values[0] is not None:
        assert partition[:3] == list(values[:3])
        assert partition[3].toordinal() - 719_163 == values[3]
        assert partition[5:] == list(values[5:])
    expected = {
        "content": 0,
        "file_path": "file:///lake/orders/part-ü.parquet",
        "file_format": "PARQUET",
        "record_count": 1 << 33,
        "file_size_in_bytes": 129,
        "column_sizes": None,
        "value_counts": [{"key": 1, "value": 10}, {"key": 2_000_000_000, "value": 1 << 40}],
        "null_value_counts": [{"key": 1, "value": 0}],
        "nan_value_counts": None,
        "lower_bounds": [{"key": 1, "value": b""}, {"key": 300, "value": b"x" * 200}],
        "upper_bounds": None,
        "key_metadata": None,
        "split_offsets": None,
        "equality_ids": None,
        "sort_order_id": None,
    }
    if version == 3:
        expected["first_row_id"] = 5
        names = ("referenced_data_file", "content_offset", "content_size_in_bytes")
        expected.update(dict.fromkeys(names))
    assert file == expected


def test_an_avro_library_reads_the_entry_of_a_deletion_vector() -> None:
    vector = entry(
        content=POSITION_DELETES,
        file_format="PUFFIN",
        referenced_data_file="file:///a.parquet",
        content_offset=4,
        content_size_in_bytes=1 << 20,
    )
    writer = MetadataWriter(3)
    parts = [writer.encoded(UNPARTITIONED, [vector])]
    written, manifest = writer.manifest("m", UNPARTITIONED, parts, SNAPSHOT, DELETE_MANIFEST)
    (record,) = decoded(written)
    file = record["data_file"]
    assert (file["content"], file["file_format"]) == (1, "PUFFIN")
    assert file["referenced_data_file"] == "file:///a.parquet"
    assert (file["content_offset"], file["content_size_in_bytes"]) == (4, 1 << 20)
    assert manifest.content == DELETE_MANIFEST
    assert manifest.first_row_id is None


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [UNPARTITIONED, SPEC], ids=["unpartitioned", "partitioned"])
def test_path_and_sizes_are_read_from_the_bytes_of_an_entry(
    version: int, spec: PartitionSpec
) -> None:
    encoder = EntryEncoder(version, spec)
    each = entry(VALUES if spec is SPEC else ())
    assert entry_decoder(encoder.schema.avro.encode()).decode(encoder.encode(each)) == EncodedFile(
        each.data_file.file_path, 0, 1 << 33, 129
    )


@pytest.mark.parametrize("sequence_number", [None, 7], ids=["inherited", "own"])
def test_a_moved_entry_has_the_numbers_that_it_inherited(sequence_number: int | None) -> None:
    writer = MetadataWriter(3)
    own = replace(
        entry(),
        sequence_number=sequence_number,
        file_sequence_number=None if sequence_number is None else 300,
    )
    parts = [writer.encoded(UNPARTITIONED, [own])]
    _, manifest = writer.manifest("m", UNPARTITIONED, parts, SNAPSHOT, DATA_MANIFEST)
    (encoded,) = parts[0].records
    avro = EntryEncoder(3, UNPARTITIONED).schema.avro
    schema = fastavro.schema.parse_schema(json.loads(avro))
    mover = EntryMover(manifest, snapshot_id=99)
    for status, snapshot_id in ((EXISTING, SNAPSHOT.snapshot_id), (DELETED, 99)):
        moved = mover.moved(encoded, status)
        record: Any = fastavro.schemaless_reader(io.BytesIO(moved), schema, None)
        assert record["status"] == status
        assert record["snapshot_id"] == snapshot_id
        assert record["sequence_number"] == (sequence_number or 300)
        assert record["file_sequence_number"] == 300
        assert record["data_file"]["file_path"] == own.data_file.file_path


@pytest.mark.parametrize("version", [2, 3])
def test_an_avro_library_reads_a_manifest_list(version: int) -> None:
    summaries = (
        FieldSummary(contains_null=True, contains_nan=None, lower_bound=None, upper_bound=None),
        FieldSummary(contains_null=False, contains_nan=True, lower_bound=b"a", upper_bound=b"z"),
    )
    manifests = [
        ManifestFile(
            manifest_path=f"file:///m{i}.avro",
            manifest_length=70 + i,
            partition_spec_id=1,
            content=0,
            sequence_number=7,
            min_sequence_number=0,
            added_snapshot_id=2**62,
            added_files_count=1,
            existing_files_count=2,
            deleted_files_count=3,
            added_rows_count=1 << 40,
            existing_rows_count=5,
            deleted_rows_count=6,
            partitions=summaries if i % 2 else (),
            first_row_id=i if version == 3 else None,
        )
        for i in range(250)
    ]
    records = decoded(MetadataWriter(version).manifest_list(manifests, SNAPSHOT))
    assert len(records) == 250
    for manifest, record in zip(manifests, records, strict=True):
        assert record.pop("key_metadata") is None
        assert record.pop("first_row_id", None) == manifest.first_row_id
        partitions = record.pop("partitions")
        assert partitions == [
            {
                "contains_null": each.contains_null,
                "contains_nan": each.contains_nan,
                "lower_bound": each.lower_bound,
                "upper_bound": each.upper_bound,
            }
            for each in manifest.partitions
        ]
        assert record == {name: getattr(manifest, name) for name in record}
        assert len(record) == 13
