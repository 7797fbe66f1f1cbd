"""Manifests for readers of symlinks."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import UnsupportedFeatureError
from bayou.kernel import Table
from bayou.kernel.maintenance.symlink_manifest import write_symlink_manifests


def manifests(path):
    engine = for_path(path, {})
    count = write_symlink_manifests(engine, Table.for_path(engine, path).latest_snapshot(engine))
    root = Path(path, "_symlink_format_manifest")
    found = {
        str(f.parent.relative_to(root)): f.read_text().splitlines() for f in root.rglob("manifest")
    }
    assert count == len(found)
    return found


def test_each_partition_has_a_manifest_of_its_files(tmp_path):
    path = str(tmp_path / "t")
    rows = pa.table({"id": [1, 2, 3], "p": ["a b", None, "x/y"]})
    bayou.write(path, rows, partition_by=["p"])
    found = manifests(path)
    assert set(found) == {"p=a b", "p=__HIVE_DEFAULT_PARTITION__", "p=x%2Fy"}
    for (line,) in found.values():
        assert line.startswith(f"file:{path}/p=")
        assert Path(line.removeprefix("file:")).exists()
    bayou.table(path).delete("p = 'a b'")
    assert set(manifests(path)) == {"p=__HIVE_DEFAULT_PARTITION__", "p=x%2Fy"}
    assert not Path(path, "_symlink_format_manifest", "p=a b").exists()


def test_a_table_without_files_has_an_empty_manifest(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1]}))
    bayou.table(path).delete()
    assert manifests(path) == {".": []}


def test_files_that_others_would_misread_are_refused(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(
        path, pa.table({"id": [1, 2]}), configuration={"delta.enableDeletionVectors": "true"}
    )
    bayou.table(path).delete("id = 1")
    with pytest.raises(UnsupportedFeatureError, match="DELETION_VECTORS"):
        manifests(path)


_ENABLED = "delta.compatibility.symlinkFormatManifest.enabled"


def on_disk(path):
    root = Path(path, "_symlink_format_manifest")
    return {
        str(f.parent.relative_to(root)): [line.rpartition("/")[2] for line in f.read_text().split()]
        for f in root.rglob("manifest")
    }


def live(path):
    found: dict[str, list[str]] = {}
    for file in bayou.table(path).snapshot().files().to_pylist():
        folder, _, name = file["path"].rpartition("/")
        found.setdefault(folder or ".", []).append(name)
    return found


def test_a_table_that_says_so_has_its_manifests_follow_each_commit(tmp_path):
    path = str(tmp_path / "t")
    table = bayou.table(path)
    bayou.write(path, pa.table({"id": [1, 2], "p": [1, 2]}), partition_by=["p"])
    assert on_disk(path) == {}
    table.alter.set_table_properties({_ENABLED: "true"})
    assert on_disk(path) == live(path)
    untouched = Path(path, "_symlink_format_manifest", "p=2", "manifest")
    before = untouched.stat().st_mtime_ns
    bayou.write(path, pa.table({"id": [3, 4], "p": [1, 3]}))
    assert {k: sorted(v) for k, v in on_disk(path).items()} == {
        k: sorted(v) for k, v in live(path).items()
    }
    assert untouched.stat().st_mtime_ns == before
    table.delete("p = 1")
    assert on_disk(path) == live(path)
    assert set(on_disk(path)) == {"p=2", "p=3"}
    table.alter.set_table_properties({_ENABLED: "false"})
    bayou.write(path, pa.table({"id": [5], "p": [5]}))
    assert set(on_disk(path)) == {"p=2", "p=3"}


def test_without_partitions_there_is_one_manifest_that_follows(tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1]}), configuration={_ENABLED: "true"})
    bayou.write(path, pa.table({"id": [2]}))
    assert {k: sorted(v) for k, v in on_disk(path).items()} == {
        k: sorted(v) for k, v in live(path).items()
    }
    bayou.table(path).delete()
    assert on_disk(path) == {".": []}


def test_what_cannot_be_listed_is_logged_and_the_commit_stands(tmp_path, caplog):
    path = str(tmp_path / "t")
    properties = {_ENABLED: "true", "delta.columnMapping.mode": "name"}
    bayou.write(path, pa.table({"id": [1]}), configuration=properties)
    assert "symlink manifest" in caplog.text
    assert bayou.table(path).to_arrow().num_rows == 1


def test_where_there_are_no_manifests_a_commit_writes_all_of_them(tmp_path):
    path = str(tmp_path / "t")
    rows = pa.table({"id": [1, 2, 3], "p": [1, None, 1], "q": ["a", "b", ""]})
    bayou.write(path, rows, partition_by=["p", "q"], configuration={_ENABLED: "true"})
    shutil.rmtree(tmp_path / "t" / "_symlink_format_manifest")
    bayou.write(path, rows.slice(0, 1))
    found = {k: sorted(v) for k, v in on_disk(path).items()}
    assert found == {k: sorted(v) for k, v in live(path).items()}
    assert len(found) == 3
    bayou.table(path).delete("p IS NULL")
    assert len(on_disk(path)) == 2
