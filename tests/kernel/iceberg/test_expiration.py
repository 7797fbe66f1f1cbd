"""VACUUM and expiration: which Iceberg snapshots and metadata files are deleted."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import pyarrow as pa

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel.commands.vacuum.vacuum import vacuum
from bayou.kernel.iceberg.expiration import delete_orphans, expire_snapshots
from bayou.kernel.iceberg.metadata_folder import MetadataFolder
from support.iceberg_tables import ICEBERG, ICEBERG_V3, assert_equal_formats, metadata, write

ROWS = {"id": pa.array([1, 2, 3], pa.int64()), "day": ["a", "b", None]}


def test_snapshots_before_a_version_are_expired(path: Path) -> None:
    for _ in range(4):
        write(path, ROWS, mode="overwrite", configuration=ICEBERG)
    assert expire_snapshots(ArrowEngine(), str(path), 2) == 2
    contents = metadata(path)
    assert [s["summary"]["delta-version"] for s in contents["snapshots"]] == ["2", "3"]
    assert [e["snapshot-id"] for e in contents["snapshot-log"]] == [
        s["snapshot-id"] for s in contents["snapshots"]
    ]
    assert expire_snapshots(ArrowEngine(), str(path), 2) == 0
    assert_equal_formats(path)


def test_vacuum_expires_snapshots_and_spares_the_metadata(path: Path) -> None:
    write(path, ROWS, configuration=ICEBERG)
    write(path, ROWS, mode="overwrite")
    os.utime(path / "_delta_log" / f"{0:020}.json", (1, 1))
    os.utime(path / "_delta_log" / f"{1:020}.json", (2, 2))
    for file in (path / "metadata").iterdir():
        os.utime(file, (1, 1))
    bayou.table(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    versions = [s["summary"]["delta-version"] for s in metadata(path)["snapshots"]]
    assert versions == ["1"]
    assert_equal_formats(path)


def test_files_of_killed_conversions_are_deleted(path: Path) -> None:
    write(path, ROWS, configuration=ICEBERG_V3)
    bayou.table(path).delete("id = 1")
    folder = MetadataFolder(ArrowEngine(), str(path))
    orphan, young = folder.new_manifest(), folder.new_puffin_file()
    for file in (orphan, young, f"{folder.path}/of-another-writer.avro"):
        folder.put(file, b"x")
    for file in (path / "metadata").iterdir():
        if str(file) != young:
            os.utime(file, (1, 1))
    now = 1_000 * int(dt.datetime.now(dt.UTC).timestamp())
    assert delete_orphans(ArrowEngine(), str(path), now) == 1
    assert not os.path.exists(orphan)
    assert os.path.exists(young)
    assert_equal_formats(path)


def test_manifests_of_another_iceberg_writer_are_never_deleted(path: Path) -> None:
    write(path, ROWS, configuration=ICEBERG)
    manifest = MetadataFolder(ArrowEngine(), str(path)).new_manifest()
    metadata_of_other = path / "metadata" / "00001-e8bf.metadata.json"
    for file in (Path(manifest), metadata_of_other):
        file.write_text("of another writer")
        os.utime(file, (1, 1))
    now = 1_000 * int(dt.datetime.now(dt.UTC).timestamp())
    assert delete_orphans(ArrowEngine(), str(path), now) == 0
    assert os.path.exists(manifest)
    metadata_of_other.unlink()
    assert delete_orphans(ArrowEngine(), str(path), now) == 1


def test_metadata_of_a_table_opened_through_a_link_is_not_orphaned(
    path: Path, configuration: dict[str, str]
) -> None:
    write(path, ROWS, configuration=configuration)
    if "delta.enableDeletionVectors" in configuration:
        bayou.table(path).delete("id = 1")
    link = path.parent / "link"
    link.symlink_to(path)
    for file in (path / "metadata").iterdir():
        os.utime(file, (1, 1))
    now = 1_000 * int(dt.datetime.now(dt.UTC).timestamp())
    assert delete_orphans(ArrowEngine(), str(link), now) == 0
    assert_equal_formats(path)


def test_vacuum_first_converts_the_commits_of_other_writers(path: Path) -> None:
    write(path, ROWS, configuration=ICEBERG)
    write(path, ROWS)
    lines = (path / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    add = next(action["add"] for line in lines if "add" in (action := json.loads(line)))
    remove = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}
    commit = json.dumps({"commitInfo": {"operation": "DELETE"}}), json.dumps({"remove": remove})
    (path / "_delta_log" / f"{2:020}.json").write_text("\n".join(commit))
    vacuum(
        ArrowEngine(),
        str(path),
        retention_hours=0,
        enforce_retention_duration=False,
        records_history=False,
    )
    assert not (path / add["path"]).exists()
    assert_equal_formats(path)
