"""Manifests for readers of symlinks."""

from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines import for_path
from bayou.errors import UnsupportedFeatureError
from bayou.kernel import Table
from bayou.kernel.operations.symlink_manifest import write_symlink_manifests


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
    bayou.write(path, pa.table({"id": [1, 2]}), properties={"delta.enableDeletionVectors": "true"})
    bayou.table(path).delete("id = 1")
    with pytest.raises(UnsupportedFeatureError, match="DELETION_VECTORS"):
        manifests(path)
