"""delta-spark and our upkeep: each reads what the other left of a log and a folder."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel import Table
from bayou.kernel.checkpoint.parts import plan_checkpoint, write_checkpoint_part

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = pytest.mark.timeout(600)

STRUCT = {
    "delta.checkpoint.writeStatsAsJson": "false",
    "delta.checkpoint.writeStatsAsStruct": "true",
}


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


def ours(path: Path) -> list[int]:
    return ids(bayou.table(path).to_arrow())


def append(path: Path, *numbers: int, **properties: str) -> None:
    rows = pa.table({"id": pa.array(numbers, pa.int64()), "day": ["2024-01-05"] * len(numbers)})
    bayou.write(path, rows, partition_by=["day"], configuration=properties or None)


def crc(path: Path, version: int) -> dict[str, Any]:
    return json.loads((path / "_delta_log" / f"{version:020}.crc").read_text())


def without_commits(path: Path, below: int) -> None:
    for version in range(below):
        (path / "_delta_log" / f"{version:020}.json").unlink()


def make_old(path: Path) -> None:
    """Give all files of a table a modification time of nine days ago."""
    at = time.time() - 9 * 86_400
    for file in path.rglob("*"):
        if file.is_file():
            os.utime(file, (at, at))


def test_it_skips_files_by_the_columns_of_our_checkpoint(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    append(path, 1, 2, **STRUCT)
    append(path, 100, 200)
    bayou.table(path).create_checkpoint()
    without_commits(path, 1)
    found = {f["path"]: f["stats"] for f in bayou.table(path).snapshot().files().to_pylist()}
    (high,) = [name for name, stats in found.items() if '"id":200' in stats]
    assert ids(delta_spark.read(path)) == [1, 2, 100, 200]
    (path / high).unlink()
    # It would fail if it opened the file that is gone.
    assert ids(delta_spark.read(path, where="id < 50 AND day = '2024-01-05'")) == [1, 2]


def test_our_checksums_agree_with_what_it_counts(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, 1, 2)
    append(path, 3)
    bayou.write(path, pa.table({"id": [4], "day": ["2024-01-06"]}), mode="overwrite")
    assert crc(path, 2)["numFiles"] == 1
    # Writing a checkpoint validates the checksum, and a mismatch is fatal.
    delta_spark.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval'='1')"
    )
    delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (5, '2024-01-06')")
    theirs = crc(path, 4)
    assert (theirs["numFiles"], len(theirs["fileSizeHistogram"]["fileCounts"])) == (2, 95)
    append(path, 6)
    found = crc(path, 5)
    assert found["numFiles"] == 3
    assert found["tableSizeBytes"] > theirs["tableSizeBytes"]
    assert sum(found["fileSizeHistogram"]["fileCounts"]) == 3
    delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (7, '2024-01-06')")
    assert crc(path, 6)["numFiles"] == 4
    assert ours(path) == ids(delta_spark.read(path)) == [4, 5, 6, 7]


def test_it_reads_compacted_commits_and_what_a_cleanup_and_a_vacuum_left(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    append(
        path, 0, **{"delta.checkpointInterval": "3", "delta.logRetentionDuration": "interval 1 day"}
    )
    for i in range(1, 5):
        append(path, i)
    bayou.write(path, pa.table({"id": [50], "day": ["2024-01-07"]}), mode="overwrite")
    engine = ArrowEngine()
    table = Table.for_path(engine, str(path))
    table.compact_log(engine, 3, 5)
    assert ids(delta_spark.read(path)) == [50]
    make_old(path)
    done = table.clean_up_log(engine)
    assert done.earliest_version == 3
    assert (
        bayou.table(path)
        .vacuum(0, dry_run=False, enforce_retention_duration=False)
        .num_deleted_files
        >= 5
    )
    delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (60, '2024-01-07')")
    assert ids(delta_spark.read(path)) == ours(path) == [50, 60]
    assert [c["operation"] for c in bayou.table(path).history(3)] == [
        "WRITE",
        "VACUUM END",
        "VACUUM START",
    ]


@pytest.mark.parametrize("features", [{}, {"delta.feature.v2Checkpoint": "supported"}])
def test_it_reads_a_checkpoint_written_by_many(
    delta_spark: DeltaSpark, tmp_path: Path, features: dict[str, str]
) -> None:
    path = tmp_path / "t"
    append(path, 1, **features)
    append(path, 2)
    bayou.table(path).create_checkpoint()
    append(path, 3)
    engine = ArrowEngine()
    plan = plan_checkpoint(engine, str(path), max_parts=2)
    assert plan.finish(engine, [write_checkpoint_part(engine, p) for p in plan.parts]) == 2
    without_commits(path, 2)
    delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (4, '2024-01-07')")
    assert ids(delta_spark.read(path)) == ours(path) == [1, 2, 3, 4]


def test_we_read_what_its_vacuum_left(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, 1, **{"delta.enableDeletionVectors": "true"})
    append(path, 2, 3)
    delta_spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    delta_spark.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    delta_spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    assert ours(path) == [1, 3]
    make_old(path)
    assert (
        bayou.table(path)
        .vacuum(0, dry_run=False, enforce_retention_duration=False)
        .num_deleted_files
        == 0
    )
    assert ids(delta_spark.read(path)) == [1, 3]
