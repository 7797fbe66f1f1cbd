"""Checkpoints that executors write."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel.checkpoint.parts import plan_checkpoint, write_checkpoint_part
from bayou.spark import DeltaTable

pytestmark = pytest.mark.spark

_LOCAL = "bayou.checkpoint.localBytes"
V2 = {"delta.checkpointPolicy": "v2"}


@pytest.fixture
def by_executors(spark):
    spark.conf.set(_LOCAL, "0")
    yield
    spark.conf.unset(_LOCAL)


def table(path: Path, **properties: str) -> None:
    """Ten files of a row, and checkpoints of several files: version 8's is in two."""
    for number in range(9):
        bayou.write(path, pa.table({"id": [number]}), configuration=properties or None)
    engine = ArrowEngine()
    bayou.table(path).create_checkpoint(4)
    plan = plan_checkpoint(engine, str(path), max_parts=1)
    plan.finish(engine, [write_checkpoint_part(engine, part) for part in plan.parts])
    bayou.write(path, pa.table({"id": [9]}))


def sidecars(path: Path) -> set[str]:
    return {f.name for f in (path / "_delta_log" / "_sidecars").glob("*.parquet")}


def parts(path: Path, version: int) -> int:
    return len(list((path / "_delta_log").glob(f"{version:020d}.checkpoint.*.parquet")))


def ids(path: Path) -> list[int]:
    return sorted(bayou.table(path).to_arrow()["id"].to_pylist())


def forget_commits(path: Path, version: int) -> None:
    """Leave nothing but the checkpoint of a version."""
    log = path / "_delta_log"
    for file in log.glob("*"):
        if file.is_file() and not file.name.startswith((f"{version:020d}.", "_")):
            file.unlink()


@pytest.mark.parametrize("properties", [{}, V2], ids=["classic", "v2"])
def test_parts_are_written_by_executors(spark, tmp_path, by_executors, properties):
    table(tmp_path, **properties)
    before = sidecars(tmp_path)
    assert DeltaTable.forPath(spark, str(tmp_path)).checkpoint() == 9
    if properties:
        assert len(sidecars(tmp_path) - before) == 3
    else:
        assert parts(tmp_path, 9) == 3
    forget_commits(tmp_path, 9)
    assert ids(tmp_path) == list(range(10))
    assert spark.read.format("delta").load(str(tmp_path)).count() == 10


def test_small_checkpoints_are_one_file(spark, tmp_path):
    table(tmp_path)
    assert DeltaTable.forPath(spark, str(tmp_path)).checkpoint(9) == 9
    assert (tmp_path / "_delta_log" / f"{9:020d}.checkpoint.parquet").exists()
    assert parts(tmp_path, 9) == 0


@pytest.mark.parametrize("change", ["write", "delete", "optimize", "sql"])
def test_whatever_commits_on_spark_has_executors_write_the_checkpoint_that_is_due(
    spark, tmp_path, by_executors, change
):
    table(tmp_path, **{"delta.checkpointInterval": "10", **V2})
    before = sidecars(tmp_path)
    path = str(tmp_path)
    match change:
        case "write":
            spark.range(10, 11).write.format("delta").mode("append").save(path)
        case "delete":
            DeltaTable.forPath(spark, path).delete("id = 3")
        case "optimize":
            DeltaTable.forPath(spark, path).optimize().executeCompaction()
        case _:
            spark.sql(f"INSERT INTO delta.`{path}` VALUES (10)")
    assert len(sidecars(tmp_path) - before) == 3
    rows = ids(tmp_path)
    forget_commits(tmp_path, 10)
    assert ids(tmp_path) == rows
