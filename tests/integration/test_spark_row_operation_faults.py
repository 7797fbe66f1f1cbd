"""MERGE, UPDATE and DELETE when workers and executors die, or their disk is full."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.kernel.deletion_vectors import read
from bayou.protocol.actions import AddCDCFile, AddFile, RemoveFile, decode_actions

pytestmark = pytest.mark.spark

_PROGRAM = """
import contextlib, faulthandler, json, os, resource, signal, sys, time
from pathlib import Path
import bayou.spark
from bayou.spark import DeltaTable, start_session
from bayou.spark.commands import delete_update, merge
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql import functions as F

faulthandler.dump_traceback_later(240)
master, tables, marks, cases = sys.argv[1], *map(Path, sys.argv[2:4]), json.loads(sys.argv[4])

def claimed(mark):
    try:
        (marks / mark).unlink()
    except FileNotFoundError:
        return False
    return True

def executor():
    pid = os.getpid()
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return pid

def strike(moment):
    if claimed(f"worker {moment}"):
        os.kill(os.getpid(), signal.SIGKILL)
    if claimed(f"executor {moment}"):
        os.kill(executor(), signal.SIGKILL)

@contextlib.contextmanager
def disk():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if (marks / "full disk").exists():
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

for module in (delete_update, merge):
    def shares(spark, given, run, *, made=module.run_tasks, **more):
        def struck(number, share):
            strike("at work")
            with disk():
                outcome = run(number, share)
            strike("done")
            return outcome
        return made(spark, given, struck, **more)
    module.run_tasks = shares

def map_in_arrow(frame, function, schema, *more, made=DataFrame.mapInArrow):
    def struck(batches):
        with disk():
            found = list(function(batches))
        if found:
            strike("done")
        yield from found
    return made(frame, struck, schema, *more)

DataFrame.mapInArrow = map_in_arrow

spark = start_session("faults", {
    "spark.driver.memory": "800m",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
    "spark.sql.shuffle.partitions": "4",
    "bayou.rowOperations.localBytes": "0",
}, master)

@F.udf("boolean")
def chosen(number, rest):
    strike("at work")
    return number is not None and number % 3 == rest

def work(spark, table, how):
    by_plan = how.startswith("plan")
    spark.conf.set("bayou.rowOperations.sourceBytes", "0" if "large" in how else "100000")
    def where(rest, name="id"):
        return chosen(F.col(name), F.lit(rest)) if by_plan else f"{name} % 3 = {rest}"
    if "update" in how:
        table.update(where(0), {"n": "n + 1"})
    elif "delete" in how:
        table.delete(where(1))
    else:
        source = spark.range(50, 150, 1, 4).selectExpr("id", "0L AS n").alias("s")
        merging = table.alias("t").merge(source, "t.id = s.id")
        merging = merging.whenMatchedDelete(where(1, "t.id"))
        merging.whenMatchedUpdate(set={"n": "t.n + 1"}).whenNotMatchedInsertAll().execute()

for name, how, faults in cases:
    for fault in faults:
        (marks / fault).touch()
    began, said = time.perf_counter(), None
    try:
        work(spark, DeltaTable.forPath(spark, str(tables / name)), how)
    except Exception as error:
        said = bayou.spark.short_message(error) or str(error)
    left = sorted(mark.name for mark in marks.iterdir())
    print(json.dumps({"name": name, "said": said, "left": left}), flush=True)
    print(name, round(time.perf_counter() - began, 1), file=sys.stderr, flush=True)
    for mark in marks.iterdir():
        mark.unlink()
"""

OLD = {number: number for number in range(100)}
NEW = {
    "update": {n: v + 1 if n % 3 == 0 else v for n, v in OLD.items()},
    "delete": {n: v for n, v in OLD.items() if n % 3 != 1},
    "merge": {n: v for n, v in OLD.items() if n < 50}
    | {n: v + 1 for n, v in OLD.items() if n >= 50 and n % 3 != 1}
    | dict.fromkeys(range(100, 150), 0),
}
MARKING = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
TABLES = {"marking": MARKING, "marking with a feed": MARKING | FEED, "rewriting with a feed": FEED}
LOST = ("worker at work", "worker done")


@pytest.mark.slow
def test_rows_are_right_when_workers_die(tmp_path):
    cases = {
        "update": ("marking with a feed", LOST),
        "delete": ("rewriting with a feed", LOST),
        "merge": ("marking", LOST),
        "plan update": ("rewriting with a feed", LOST),
        "plan delete": ("marking", LOST),
        "plan large merge": ("marking with a feed", LOST),
    }
    check_all_is_done(tmp_path, "local[2,4]", cases)


@pytest.mark.slow
def test_rows_are_right_when_executors_die(tmp_path):
    cases = {
        "plan merge": ("marking with a feed", ("executor at work",)),  # and rows of the source
        "plan large merge": ("rewriting with a feed", ("executor done",)),
    }
    check_all_is_done(tmp_path, "local-cluster[2,1,700]", cases)


FULL = (
    ("update", "marking with a feed"),
    ("delete", "marking"),
    ("delete", "rewriting with a feed"),
    ("merge", "marking"),
    ("plan update", "rewriting with a feed"),
    ("plan large merge", "marking with a feed"),
)


@pytest.mark.slow
def test_a_full_disk_leaves_the_table_as_it_was_and_nothing_else(tmp_path):
    cases = {f"{how} {table}": (table, ("full disk",)) for how, table in FULL}
    for answer in run(tmp_path, "local[2]", cases):
        path = tmp_path / "tables" / answer["name"]
        assert "the disk is full" in answer["said"]
        assert found(path) == OLD
        assert bayou.table(str(path)).snapshot().version == 2
        assert files(path) == referenced(path)


def check_all_is_done(
    tmp_path: Path, master: str, cases: dict[str, tuple[str, tuple[str, ...]]]
) -> None:
    for answer in run(tmp_path, master, cases):
        path = tmp_path / "tables" / answer["name"]
        assert answer["said"] is None
        assert answer["left"] == []
        assert found(path) == NEW[answer["name"].split()[-1]]
        table = bayou.table(str(path))
        assert table.snapshot().version == 3
        table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        assert files(path) <= referenced(path)
        assert found(path) == NEW[answer["name"].split()[-1]]


def run(
    tmp_path: Path, master: str, cases: dict[str, tuple[str, tuple[str, ...]]]
) -> list[dict[str, Any]]:
    """Make a table of three files for each case, and have a session change them under faults.

    Args:
        cases: by name, which begins with what is done: the kind of the table, and the faults.
    """
    tables, marks = tmp_path / "tables", tmp_path / "marks"
    marks.mkdir()
    for name, (kind, _) in cases.items():
        for first in range(0, 100, 40):
            ids = list(OLD)[first : first + 40]
            rows = pa.table({"id": ids, "n": [OLD[i] for i in ids]})
            bayou.write(str(tables / name), rows, configuration={} if first else TABLES[kind])
    given = json.dumps([(name, name, faults) for name, (_, faults) in cases.items()])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, master, str(tables), str(marks), given],
        check=False,
        capture_output=True,
        text=True,
        timeout=800,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PYSPARK_PYTHON": sys.executable,
        },
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["name"] for answer in answers] == list(cases)
    return answers


def found(path: Path) -> dict[int, int]:
    rows = bayou.table(str(path)).to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["n"] for row in rows}


def files(path: Path) -> set[str]:
    """Of the table, those of its log left out."""
    return {
        str(file.relative_to(path))
        for file in path.rglob("*")
        if file.is_file() and "_delta_log" not in file.parts
    }


def referenced(path: Path) -> set[str]:
    """Files that any commit names."""
    named = set()
    for log in (path / "_delta_log").glob("*.json"):
        for action in decode_actions(log.read_bytes()):
            if isinstance(action, AddFile | RemoveFile | AddCDCFile):
                named.add(action.path)
            if isinstance(action, AddFile) and action.deletion_vector is not None:
                vector = read.locate(str(path), action.deletion_vector)
                named.add(str(Path(vector.path).relative_to(path)))
    return named
