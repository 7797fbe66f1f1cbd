"""Drivers and executors die while tables are kept up, and disks are full: no row is lost.

The programs are in `upkeep_faults`. Each table is called as what is done to it when it happens.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel import Table
from bayou.kernel.checkpoint.parts import plan_checkpoint, write_checkpoint_part

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FOLDER = Path(__file__).parent / "upkeep_faults"
COMPACTED = ("compacted", "compacting", "clustered", "clustering")
ORDERED = ("ordered", "ordering")
VACUUMED = ("vacuum-planned", "vacuum-started", "vacuum-deleted", "deleting")
CHECKPOINTS = ("checkpoint-parts", "checkpointing")
CHANGED = {
    "compacted": ["OPTIMIZE"],
    "clustered": ["OPTIMIZE"],
    "restored": ["RESTORE"],
    "vacuum-started": ["VACUUM START"],
    "vacuum-deleted": ["VACUUM START"],
    "deleting": ["VACUUM START"],
    "compacting": ["OPTIMIZE"],
}
"""What the history has gained when the driver dies; by the others, nothing."""


@dataclass(frozen=True, kw_only=True)
class Aftermath:
    """Tables after a program, and what they were before."""

    root: Path
    rows: dict[str, list[int]]
    versions: dict[str, int]
    output: str


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Aftermath:
    """The driver was killed, with each table at another place."""
    folder = tmp_path_factory.mktemp("killed")
    root = folder / "tables"
    for name in (*COMPACTED, *ORDERED, *VACUUMED, *CHECKPOINTS, "purged", "restored"):
        make(root / name)
    return after(folder, "driver.py", -signal.SIGKILL)


def make(path: Path) -> None:
    """A table of several small files in two partitions or a clustered one, with a past."""
    what = path.name
    properties = {"delta.checkpointInterval": "100"}
    if what == "purged":
        properties["delta.enableDeletionVectors"] = "true"
    if what == "checkpointing":
        properties["delta.checkpointPolicy"] = "v2"
    given, size = {"partition_by": ["part"]}, 0
    if what.startswith(("cluster", "order")):
        given, size = {}, 300
    for number in range(4):
        ids = range(number * 300, (number + 1) * 300)
        rows = pa.table(
            {
                "id": list(ids),
                "number": [i * 7919 % 1201 for i in ids],
                "part": [i % 2 for i in ids],
                "text": [hashlib.shake_256(f"{i}".encode()).hexdigest(size) for i in ids],
            }
        )
        bayou.write(path, rows, configuration=properties, **given)
        properties = {}
    table = bayou.table(path)
    if what.startswith("cluster"):
        table.alter.cluster_by(["number"])
    if what in VACUUMED:
        table.optimize()
    if what in {"purged", "restored"}:
        table.delete("id % 3 = 0")
    if what in CHECKPOINTS:
        two_parts(path)


def two_parts(path: Path) -> None:
    """Checkpoints whose parts can be read apart from each other, and a commit behind them."""
    table = bayou.table(path)
    table.create_checkpoint(1)
    engine = ArrowEngine()
    plan = plan_checkpoint(engine, str(path), 2, max_parts=1)
    plan.finish(engine, [write_checkpoint_part(engine, part) for part in plan.parts])


def after(
    folder: Path, program: str, code: int, environment: dict[str, str] | None = None
) -> Aftermath:
    """Run a program on the tables of a folder."""
    root, marks = folder / "tables", folder / "marks"
    marks.mkdir()
    rows = {path.name: ids(path) for path in root.iterdir()}
    versions = {path.name: bayou.table(path).snapshot().version for path in root.iterdir()}
    done = subprocess.run(
        [sys.executable, str(FOLDER / program)],
        check=False,
        capture_output=True,
        text=True,
        timeout=800,
        env={
            **(os.environ if environment is None else environment),
            "PYTHONPATH": os.pathsep.join([str(FOLDER), *(p for p in sys.path if p)]),
            "PYSPARK_PYTHON": sys.executable,
            "BAYOU_TEST_ROOT": str(root),
            "BAYOU_TEST_MARKS": str(marks),
        },
    )
    assert done.returncode == code, done.stderr[-4000:]
    return Aftermath(root=root, rows=rows, versions=versions, output=done.stdout)


def ids(path: Path) -> list[int]:
    return sorted(bayou.table(path).to_arrow(["id"])["id"].to_pylist())


def last_checkpoint(path: Path) -> int:
    """The version of the checkpoint that a reader takes."""
    engine = ArrowEngine()
    segment = Table.for_path(engine, str(path)).latest_snapshot(engine).log_segment
    assert segment.checkpoint is not None
    return segment.checkpoint.version


def gained(found: Aftermath, name: str) -> list[str]:
    """Operations of the commits since."""
    history = bayou.table(found.root / name).history()
    return [c["operation"] for c in history if c["version"] > found.versions[name]][::-1]


def data_files(path: Path) -> set[str]:
    found = (f for f in path.rglob("*") if f.is_file() and "_delta_log" not in f.parts)
    return {str(f.relative_to(path)) for f in found}


def live_files(path: Path) -> set[str]:
    return set(bayou.table(path).snapshot().files()["path"].to_pylist())


@pytest.mark.parametrize("name", [*COMPACTED, *ORDERED, *VACUUMED, *CHECKPOINTS, "purged"])
def test_a_killed_driver_costs_no_row_and_upkeep_goes_on(killed, tmp_path, name):
    assert gained(killed, name) == CHANGED.get(name, [])
    assert ids(killed.root / name) == killed.rows[name]
    path = tmp_path / name
    shutil.copytree(killed.root / name, path)
    table = bayou.table(path)
    if name in ORDERED:
        table.optimize.z_order(["number"])
    elif name == "purged":
        table.optimize.purge()
    elif name in CHECKPOINTS:
        table.create_checkpoint()
    else:
        table.optimize()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert ids(path) == killed.rows[name]
    assert data_files(path) == live_files(path)


def test_a_killed_driver_had_restored_the_table(killed):
    assert gained(killed, "restored") == ["RESTORE"]
    assert ids(killed.root / "restored") == list(range(300))


def test_what_was_committed_of_an_optimize_stays(killed):
    """The first of two partitions."""
    files = live_files(killed.root / "compacted")
    assert len(files) == 1 + 4


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_parts_of_a_checkpoint_that_nobody_finished_are_not_read(killed, tmp_path, name):
    path = tmp_path / name
    shutil.copytree(killed.root / name, path)
    log = path / "_delta_log"
    parts = [*log.glob(f"{3:020d}.checkpoint.*"), *log.glob("_sidecars/*.parquet")]
    assert parts
    assert last_checkpoint(path) == 2
    assert bayou.table(path).create_checkpoint() == 3
    assert last_checkpoint(path) == 3
    assert ids(path) == killed.rows[name]


def test_a_full_disk_is_said_in_a_sentence_and_changes_nothing(killed):
    lines = killed.output.splitlines()
    assert len(lines) == 3, lines
    for line, name in zip(lines, ("compacting", "ordering", "checkpointing"), strict=True):
        assert line.startswith("StorageError"), line
        assert str(killed.root / name) in line
        assert "the disk is full" in line


def test_lost_executors_cost_a_second_attempt_and_nothing_else(
    tmp_path, s3_server, bucket, environment
):
    root = tmp_path / "tables"
    lake, options = f"s3://{bucket}/listing", s3_server.storage_options
    for number in range(9):
        bayou.write(lake, pa.table({"id": [number]}), storage_options=options)
        if number == 2:
            bayou.table(lake, options).optimize()
    names = ("compacting", "ordering", "deleting", "checkpointing")
    for name in names:
        make(root / name)
    found = after(tmp_path, "cluster.py", 0, environment | {"BAYOU_TEST_S3": lake})
    done = [line.split() for line in found.output.splitlines()]
    assert done == [
        ["compacting", "8", "True"],
        ["ordering", "4", "True"],
        ["deleting", "8", "True"],
        ["listing", "3", "True"],
        ["checkpointing", "3", "True"],
    ]
    for name in names:
        path = root / name
        assert ids(path) == found.rows[name]
        bayou.table(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
        assert data_files(path) == live_files(path)
    assert last_checkpoint(root / "checkpointing") == 3
    assert bayou.table(lake, options).to_arrow().sort_by("id")["id"].to_pylist() == [*range(9)]
