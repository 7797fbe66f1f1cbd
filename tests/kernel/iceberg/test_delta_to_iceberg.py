from __future__ import annotations

import datetime as dt
import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import PrerequisiteError, StorageError, UniversalFormatError
from bayou.kernel.iceberg import delta_to_iceberg, snapshot_writer
from bayou.kernel.iceberg.delta_to_iceberg import convert
from bayou.kernel.iceberg.manifests import manifest_writer
from bayou.kernel.iceberg.metadata_folder import MetadataFolder
from support.avro_files import without_index
from support.iceberg_tables import (
    ICEBERG,
    ICEBERG_V3,
    assert_equal_formats,
    delta_rows,
    iceberg_rows,
    iceberg_table,
    manifests,
    metadata,
    metadata_file,
    write,
)

ROWS = {"id": pa.array([1, 2, 3], pa.int64()), "day": ["a", "b", None]}


def test_each_commit_writes_metadata_of_its_version(
    path: Path, configuration: dict[str, str]
) -> None:
    for version in range(3):
        write(path, ROWS, partition_by=["day"], configuration=configuration)
        properties = metadata(path)["properties"]
        assert properties["delta-version"] == str(version)
        assert properties.get("base-delta-version") == (str(version - 1) if version else None)
        assert_equal_formats(path)


def test_all_types_are_read_back(path: Path, configuration: dict[str, str]) -> None:
    instant = dt.datetime(2024, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC)
    columns = {
        "id": pa.array([1, -1, None], pa.int64()),
        "byte": pa.array([1, -128, None], pa.int8()),
        "short": pa.array([1, -1, None], pa.int16()),
        "int": pa.array([1, -1, None], pa.int32()),
        "float": pa.array([0.1, -0.0, None], pa.float32()),
        "double": pa.array([0.1, float("nan"), None], pa.float64()),
        "bool": pa.array([True, False, None]),
        "text": pa.array(["x" * 100, "\U0001f600", None]),
        "bytes": pa.array([b"\0", b"\xff", None]),
        "price": pa.array([Decimal("1.50"), Decimal("-9.99"), None], pa.decimal128(9, 2)),
        "large": pa.array([Decimal(10**37), Decimal(-1), None], pa.decimal128(38, 0)),
        "day": pa.array([dt.date(2024, 1, 1), dt.date(1960, 1, 1), None]),
        "instant": pa.array([instant, dt.datetime(1960, 1, 1, tzinfo=dt.UTC), None]),
        "local": pa.array([instant.replace(tzinfo=None), None, None], pa.timestamp("us")),
        "point": pa.array([{"x": 1, "y": {"z": "a"}}, {"x": None, "y": None}, None]),
        "list": pa.array([[[1, 2], []], [], None], pa.list_(pa.list_(pa.int32()))),
        # pyiceberg reads structs below maps as NULL.
        "map": pa.array([[("k", [1])], [], None], pa.map_(pa.string(), pa.list_(pa.int64()))),
    }
    write(path, columns, configuration=configuration)
    assert_rows_equal(path)
    stats = iceberg_table(path).inspect.files().to_pylist()
    assert stats[0]["record_count"] == 3


def assert_rows_equal(path: Path) -> None:
    one, other = iceberg_rows(path), delta_rows(path)
    assert repr(one) == repr(other)  # NaN isn't equal to itself


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a b", "c/d", "e=f", "100%", "ü", "#?", None]),
        pa.array([1, -1, None], pa.int32()),
        pa.array([1 << 40, None], pa.int64()),
        pa.array([dt.date(2024, 2, 29), None]),
        pa.array([dt.datetime(2024, 1, 1, 1, 2, 3, 4, tzinfo=dt.UTC), None]),
        pa.array([dt.datetime(2024, 1, 1, 1, 2, 3, 4), None], pa.timestamp("us")),
        pa.array([Decimal("1.10"), Decimal("-0.05"), None], pa.decimal128(9, 2)),
        pa.array([True, False, None]),
        pa.array([0.5, -2.25, None], pa.float64()),
    ],
    ids=lambda values: str(values.type),
)
def test_partitions_of_each_type_are_read_back(
    path: Path, configuration: dict[str, str], values: pa.Array
) -> None:
    columns = {"id": pa.array(range(len(values)), pa.int64()), "p": values}
    write(path, columns, partition_by=["p"], configuration=configuration)
    bayou.table(path).delete("id = 0")
    assert_equal_formats(path)


def test_an_append_leaves_other_manifests_as_they_are(path: Path) -> None:
    for _ in range(3):
        write(path, ROWS, configuration=ICEBERG)
    before = {m.manifest_path for m in manifests(path)}
    write(path, ROWS)
    after = manifests(path)
    assert before < {m.manifest_path for m in after}
    assert len(after) == len(before) + 1


def test_a_delete_rewrites_only_the_manifest_with_the_file(path: Path) -> None:
    for number in range(4):
        write(path, {"id": pa.array([number], pa.int64())}, configuration=ICEBERG)
    before = {m.manifest_path for m in manifests(path)}
    bayou.table(path).delete("id = 1")
    after = manifests(path)
    assert len(before & {m.manifest_path for m in after}) == 3
    rewritten = [m for m in after if m.manifest_path not in before]
    assert [(m.deleted_files_count, m.live_files_count) for m in rewritten] == [(1, 0)]
    write(path, {"id": pa.array([9], pa.int64())})
    assert all(m.live_files_count for m in manifests(path))
    assert_equal_formats(path)


def test_small_manifests_are_merged_when_there_are_many(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_writer, "_SMALL_MANIFESTS_TO_MERGE", 5)
    for _ in range(8):
        write(path, ROWS, configuration=ICEBERG)
    assert len(manifests(path)) == 4  # the five first in one
    assert_equal_formats(path)


def test_merged_manifests_have_the_partitions_of_their_files(
    path: Path, monkeypatch: pytest.MonkeyPatch, configuration: dict[str, str]
) -> None:
    monkeypatch.setattr(snapshot_writer, "_SMALL_MANIFESTS_TO_MERGE", 4)
    monkeypatch.setattr(snapshot_writer, "MANIFEST_ENTRIES", 3)
    monkeypatch.setattr(snapshot_writer, "_SMALL_MANIFEST_ENTRIES", 3)
    for day in ["c", None, "a", "ü", "b", "d"]:
        columns = {"id": pa.array([1], pa.int64()), "day": pa.array([day], pa.string())}
        write(path, columns, partition_by=["day"], configuration=configuration)
    bounds = [
        (
            m.existing_files_count,
            m.partitions[0].contains_null,
            m.partitions[0].lower_bound,
            m.partitions[0].upper_bound,
        )
        for m in manifests(path)
        if m.existing_files_count
    ]
    assert bounds == [(3, True, b"a", "ü".encode())]
    for day in ("c", "d", "a"):
        bayou.table(path).delete(f"day = '{day}'")
        assert_equal_formats(path)


def test_manifests_without_an_index_are_decoded(
    path: Path, monkeypatch: pytest.MonkeyPatch, configuration: dict[str, str]
) -> None:
    days = {"id": pa.array(range(5), pa.int64()), "day": list("abcde")}
    write(path, days, partition_by=["day"], configuration=configuration)
    for file in (path / "metadata").glob("*-m0.avro"):
        file.write_bytes(without_index(file.read_bytes()))
    bayou.table(path).delete("day = 'c'")
    assert_equal_formats(path)
    (manifest,) = manifests(path)
    assert (manifest.existing_files_count, manifest.deleted_files_count) == (4, 1)
    bayou.table(path).delete("day = 'a'")
    assert_equal_formats(path)


def test_a_damaged_manifest_is_named(path: Path) -> None:
    write(path, ROWS, configuration=ICEBERG)
    (file,) = (path / "metadata").glob("*-m0.avro")
    file.write_bytes(file.read_bytes()[:-10])
    bayou.table(path).delete("id = 1")
    with pytest.raises(UniversalFormatError, match=rf"{file.name}.*sync .* --full"):
        convert(ArrowEngine(), str(path))


def test_a_large_table_gets_several_manifests(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_writer, "MANIFEST_ENTRIES", 2)
    days = {"id": pa.array(range(5), pa.int64()), "day": list("abcde")}
    write(path, days, partition_by=["day"], configuration=ICEBERG)
    assert [m.added_files_count for m in manifests(path)] == [2, 2, 1]
    bayou.table(path).delete("day = 'c'")
    assert sorted(m.live_files_count for m in manifests(path)) == [1, 1, 2]
    assert_equal_formats(path)


def test_deletion_vectors_are_written_as_puffin_files(path: Path) -> None:
    ids = {"id": pa.array(range(100), pa.int64())}
    write(path, ids, configuration=ICEBERG_V3)
    bayou.table(path).delete("id % 10 = 0")
    assert_equal_formats(path)
    bayou.table(path).delete("id = 1")
    assert_equal_formats(path)
    deletes = [m for m in manifests(path) if m.content == 1]
    assert sum(m.live_files_count for m in deletes) == 1
    bayou.table(path).optimize.purge()
    assert_equal_formats(path)
    assert sum(m.live_files_count for m in manifests(path) if m.content == 1) == 0


def test_row_ids_are_those_of_row_tracking(path: Path) -> None:
    write(path, {"id": pa.array(range(10), pa.int64())}, configuration=ICEBERG_V3)
    write(path, {"id": pa.array(range(5), pa.int64())})
    contents = metadata(path)
    assert contents["format-version"] == 3
    assert contents["next-row-id"] == 15
    assert [(s["first-row-id"], s["added-rows"]) for s in contents["snapshots"]] == [
        (0, 10),
        (10, 5),
    ]
    assert [s["sequence-number"] for s in contents["snapshots"]] == [0, 1]
    assert contents["last-sequence-number"] == 1


def test_snapshots_are_the_versions_of_the_table(path: Path, configuration: dict[str, str]) -> None:
    write(path, ROWS, configuration=configuration)
    bayou.table(path).delete("id = 2")
    write(path, ROWS, mode="overwrite")
    bayou.table(path).update({"day": "'z'"}, predicate="id = 3")
    table = iceberg_table(path)
    versions = [int(s.summary["delta-version"]) for s in table.metadata.snapshots]
    assert versions == [0, 1, 2, 3]
    for version, snapshot in zip(versions, table.metadata.snapshots, strict=True):
        rows = iceberg_rows(path, snapshot_id=snapshot.snapshot_id)
        assert rows == delta_rows(path, version=version)


def test_versions_without_the_format_are_no_snapshots(path: Path) -> None:
    write(path, ROWS, configuration=ICEBERG)
    alter = bayou.table(path).alter
    alter.set_table_properties({"delta.enableIcebergCompatV2": "false"})
    alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    bayou.table(path).delete("id = 2")
    alter.set_table_properties({"delta.enableDeletionVectors": "false"})
    bayou.table(path).optimize.purge()
    alter.set_table_properties(ICEBERG)
    assert_equal_formats(path)
    versions = [s["summary"]["delta-version"] for s in metadata(path)["snapshots"]]
    assert versions == ["0", "6"]


def test_schema_changes_are_converted(path: Path, configuration: dict[str, str]) -> None:
    write(path, ROWS, partition_by=["day"], configuration=configuration)
    table = bayou.table(path)
    table.alter.add_columns({"note": "string"})
    table.alter.rename_column("id", "number")
    write(path, {"number": pa.array([7], pa.int64()), "day": ["c"], "note": ["n"]})
    table.alter.drop_columns(["note"])
    assert_equal_formats(path)
    table.alter.add_columns({"note": "int"})
    write(
        path, {"number": pa.array([8], pa.int64()), "day": ["d"], "note": pa.array([1], pa.int32())}
    )
    assert_equal_formats(path)
    assert len(metadata(path)["schemas"]) == 5


def test_files_are_skipped_by_statistics_and_partitions(path: Path) -> None:
    for start in (0, 10, 20):
        columns = {
            "id": pa.array(range(start, start + 10), pa.int64()),
            "text": [f"{start + i:03}" for i in range(10)],
            "empty": pa.array([None] * 10 if start else [1.5] * 10, pa.float64()),
            "part": [str(start)] * 10,
        }
        write(path, columns, partition_by=["part"], configuration=ICEBERG)
    for condition, count in {
        "id > 15": 2,
        "id = 25": 1,
        "id < 0": 0,
        "text = '005'": 1,
        "text > '019'": 1,
        "part = '10'": 1,
        "empty is not null": 1,
        "empty > 2": 0,
    }.items():
        planned = list(iceberg_table(path).scan(row_filter=condition).plan_files())
        assert len(planned) == count, condition
        files = bayou.table(path).snapshot().files(filter=condition)
        assert {task.file.file_path for task in planned} == {
            f"file://{path}/{file}" for file in files.column("path").to_pylist()
        }, condition


def test_a_restored_version_is_converted(path: Path, configuration: dict[str, str]) -> None:
    write(path, ROWS, configuration=configuration)
    bayou.table(path).delete("id = 2")
    write(path, ROWS)
    bayou.table(path).restore(0)
    assert_equal_formats(path)


def test_an_optimized_table_has_the_operation_replace(path: Path) -> None:
    for _ in range(3):
        write(path, ROWS, configuration=ICEBERG)
    bayou.table(path).optimize()
    assert_equal_formats(path)
    assert metadata(path)["snapshots"][-1]["summary"]["operation"] == "replace"


def test_a_replaced_table_is_converted(path: Path) -> None:
    write(path, ROWS, configuration=ICEBERG)
    write(path, {"other": ["x"]}, mode="overwrite", overwrite_schema=True)
    assert_equal_formats(path)
    assert len(metadata(path)["snapshots"]) == 2


def test_a_commit_without_files_adds_no_snapshot(path: Path) -> None:
    write(path, ROWS, configuration=ICEBERG)
    version = bayou.table(path).alter.set_table_properties({"owner": "me"})
    contents = metadata(path)
    assert contents["properties"]["delta-version"] == str(version)
    assert len(contents["snapshots"]) == 1


def test_an_empty_table_has_metadata(path: Path) -> None:
    bayou.create(path, pa.schema({"id": pa.int64()}), configuration=ICEBERG)
    assert_equal_formats(path)
    assert "current-snapshot-id" not in metadata(path)


def test_user_properties_are_copied(path: Path) -> None:
    key = "delta.universalFormat.config.iceberg.read.split.target-size"
    write(path, ROWS, configuration={**ICEBERG, key: "1000"})
    properties = metadata(path)["properties"]
    assert properties["read.split.target-size"] == "1000"
    assert properties["gc.enabled"] == "false"
    assert properties["write.metadata.metrics.default"] == "counts"  # bounds aren't exact


def test_partition_fields_never_have_the_name_of_another_column(path: Path) -> None:
    compat = "delta.enableIcebergCompatV2"
    columns = {"id": pa.array([1], pa.int64()), "p": ["x"], "r": ["y"]}
    write(path, columns, partition_by=["p"], configuration=ICEBERG)

    def disable() -> None:
        bayou.table(path).alter.unset_table_properties("delta.universalFormat.enabledFormats")
        bayou.table(path).alter.set_table_properties({compat: "false"})

    disable()
    write(path, columns, mode="overwrite", schema_mode="overwrite", partition_by=["p", "r"])
    bayou.table(path).alter.set_table_properties(ICEBERG)
    disable()
    bayou.table(path).alter.rename_column("p", "q")
    bayou.table(path).alter.add_columns({"p": "string"})
    bayou.table(path).alter.set_table_properties(ICEBERG)
    write(path, {**columns, "p": ["new"], "q": ["x"]})
    assert_equal_formats(path)
    ids = {field.name: field.field_id for field in iceberg_table(path).schema().fields}
    specs = [
        [(f.name, f.source_id) for f in s.fields] for s in iceberg_table(path).specs().values()
    ]
    assert specs == [[("q", ids["q"])], [("q", ids["q"]), ("r", ids["r"])]]


def test_a_conversion_that_fails_does_not_fail_the_commit(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, ROWS, configuration=ICEBERG)

    def fail(*_: object, **__: object) -> None:
        raise UniversalFormatError("the disk is full", table=str(path))

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(MetadataFolder, "put", fail)
        assert write(path, ROWS) == 1
    assert "iceberg metadata of version 1 failed" in caplog.text
    assert "the disk is full" in caplog.text
    assert metadata(path)["properties"]["delta-version"] == "0"
    write(path, ROWS)  # converts both versions
    assert_equal_formats(path)
    assert len(metadata(path)["snapshots"]) == 3


def test_a_missing_extra_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, ROWS, configuration=ICEBERG)
    monkeypatch.setattr(manifest_writer.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(PrerequisiteError, match=r"pip install 'bayou\[iceberg\]'"):
        convert(ArrowEngine(), str(path), full=True)


def test_a_table_without_the_format_is_refused(path: Path) -> None:
    write(path, ROWS)
    with pytest.raises(UniversalFormatError, match="isn't enabled"):
        convert(ArrowEngine(), str(path))


def test_the_whole_table_is_converted_after_too_many_commits(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, ROWS, configuration=ICEBERG)
    monkeypatch.setattr(delta_to_iceberg, "_MAX_COMMITS", 1)
    with monkeypatch.context() as patched:
        patched.setattr(delta_to_iceberg, "convert", None)
        patched.setattr("bayou.kernel.transaction.post_commit_hooks.convert", lambda *_, **__: 0)
        write(path, ROWS)
        write(path, ROWS)
    result = convert(ArrowEngine(), str(path))
    assert (result.version, result.base_version) == (2, None)
    assert [s["summary"]["delta-version"] for s in metadata(path)["snapshots"]] == ["0", "2"]
    assert_equal_formats(path)


def test_a_conversion_repeats_nothing(path: Path) -> None:
    write(path, ROWS, configuration=ICEBERG)
    before = sorted(os.listdir(path / "metadata"))
    result = convert(ArrowEngine(), str(path))
    assert not result.converted
    assert sorted(os.listdir(path / "metadata")) == before


def test_metadata_of_another_table_is_continued_with_the_next_number(path: Path) -> None:
    folder = path / "metadata"
    folder.mkdir(parents=True)
    other = {"format-version": 2, "table-uuid": "0" * 32, "properties": {}, "snapshots": []}
    (folder / "v7.metadata.json").write_text(json.dumps(other))
    (folder / "version-hint.text").write_text("7")
    write(path, ROWS, configuration=ICEBERG)
    assert metadata_file(path).name == "v8.metadata.json"
    assert_equal_formats(path)


def test_a_manifest_that_lost_a_file_converts_the_table_again(path: Path) -> None:
    write(path, ROWS, configuration=ICEBERG)
    other = path.parent / "other"
    write(other, ROWS, configuration=ICEBERG)
    # The metadata says that it is the table's, but its manifest list is another table's.
    contents = metadata(path)
    contents["snapshots"][0]["manifest-list"] = metadata(other)["snapshots"][0]["manifest-list"]
    metadata_file(path).write_text(json.dumps(contents))
    bayou.table(path).delete("id = 1")
    assert_equal_formats(path)


def test_a_lost_race_continues_from_the_winner(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, ROWS, configuration=ICEBERG)
    commit = MetadataFolder.commit
    calls = []

    def lose_once(self: MetadataFolder, number: int, data: bytes) -> bool:
        calls.append(number)
        if len(calls) == 1:
            assert commit(self, number, data)  # another conversion of the same version wins
            return False
        return commit(self, number, data)

    monkeypatch.setattr(MetadataFolder, "commit", lose_once)
    write(path, ROWS)
    assert calls == [2]  # the second attempt found the version converted
    assert len(metadata(path)["snapshots"]) == 2


def test_old_metadata_files_and_surplus_snapshots_are_deleted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_to_iceberg, "_METADATA_FILES", 3)
    monkeypatch.setattr(delta_to_iceberg, "_MAX_SNAPSHOTS", 2)
    for _ in range(5):
        write(path, ROWS, mode="overwrite", configuration=ICEBERG)
    names = os.listdir(path / "metadata")
    assert sum(name.endswith(".metadata.json") for name in names) == 3
    assert sum(name.startswith("snap-") for name in names) == 2
    assert len(metadata(path)["snapshots"]) == 2
    assert_equal_formats(path)
    for snapshot in iceberg_table(path).metadata.snapshots:
        assert len(iceberg_rows(path, snapshot_id=snapshot.snapshot_id)) == 3


def test_metadata_of_an_iceberg_table_that_was_there_before_is_retained(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_to_iceberg, "_METADATA_FILES", 3)
    folder = MetadataFolder(ArrowEngine(), str(path))
    other = json.dumps({"format-version": 2, "table-uuid": "0" * 32, "snapshots": []})
    (path / "metadata").mkdir(parents=True)
    files = {path / "metadata" / name: other for name in ("v1.metadata.json", "v2.metadata.json")}
    files |= {path / "metadata" / "v3.metadata.json": "not JSON", Path(folder.new_manifest()): ""}
    for file, contents in files.items():
        file.write_text(contents)
        os.utime(file, (1, 1))
    (path / "metadata" / "v4.metadata.json").write_text(other)
    for _ in range(5):
        write(path, ROWS, mode="overwrite", configuration=ICEBERG)
    bayou.table(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert {file: file.read_text() for file in files} == files
    assert folder.numbers()[:-3] == [1, 2, 3, 4]
    assert_equal_formats(path)


def test_files_with_columns_of_row_tracking_are_read(path: Path) -> None:
    tracking = {**ICEBERG, "delta.enableRowTracking": "true"}
    write(path, ROWS, configuration=tracking)
    bayou.table(path).update({"day": "'z'"}, predicate="id = 3")
    assert_equal_formats(path)


def test_nan_is_a_partition(path: Path) -> None:
    columns = {"id": pa.array([1, 2], pa.int64()), "p": [float("nan"), 1.5]}
    write(path, columns, partition_by=["p"], configuration=ICEBERG)
    status = bayou.table(path).iceberg.status()
    assert status is not None
    assert status.problems == ()


def test_metadata_that_may_have_been_published_keeps_its_manifests(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, ROWS, configuration=ICEBERG)

    def fail(_: MetadataFolder) -> None:
        raise StorageError("the store is away", path=str(path))

    with monkeypatch.context() as patched:
        patched.setattr(MetadataFolder, "update_hint", fail)
        write(path, ROWS)
    assert not convert(ArrowEngine(), str(path)).converted  # moves the hint
    assert_equal_formats(path)


def test_concurrent_writers_end_with_both_formats_equal(
    path: Path, configuration: dict[str, str]
) -> None:
    write(path, ROWS, configuration=configuration)

    def append(_: int) -> None:
        for _ in range(3):
            write(path, ROWS)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(4)))
    assert_equal_formats(path)
    versions = [s["summary"]["delta-version"] for s in metadata(path)["snapshots"]]
    assert versions == [str(version) for version in range(13)]
