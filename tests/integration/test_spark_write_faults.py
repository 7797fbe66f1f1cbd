"""Writes of Spark when something dies: nothing is lost or double, VACUUM takes the debris."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import bayou

pytestmark = pytest.mark.spark

_SESSION = """
import json, os, resource, signal, sys, time
from pathlib import Path
import bayou, bayou.spark
from bayou.spark import start_session
from support.waiting import wait_until

path, marks = sys.argv[1], Path(sys.argv[2])

def session(master, **conf):
    settings = {"spark.driver.memory": "800m", "spark.executor.memory": "512m"}
    return start_session("faults", settings | conf, master)

def first(name):
    try:
        os.close(os.open(marks / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def rows(spark, count, hook):
    def through(batches):
        for batch in batches:
            hook()
            yield batch
    return spark.range(0, count, 1, 4).mapInArrow(through, "id long")

def partition():
    from pyspark import TaskContext
    return TaskContext.get().partitionId()
"""

_CLUSTER = """
def executor():
    pid = os.getpid()
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return pid

def files():
    return len(list(Path(path).glob("part-*")))

def kill_executor():
    if partition() == 1 and first("kill"):
        before = int((marks / "files").read_text())
        wait_until(lambda: files() >= before + 3, timeout=300, what="the other tasks' files")
        os.kill(executor(), signal.SIGKILL)

def fail_once():
    if partition() == 2 and first("fail"):
        raise RuntimeError("a bad day")

def be_slow_once():
    if partition() == 3 and first("slow"):
        time.sleep(20)  # deliberate: long enough for a speculative copy of the task

spark = session(
    "local-cluster[2,1,700]",
    **{
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "500ms",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    },
)

def write(hook):
    (marks / "files").write_text(str(files()))
    rows(spark, 1000, hook).write.format("delta").mode("append").save(path)

for hook in (kill_executor, fail_once, be_slow_once):
    write(hook)
bayou.spark.disable(spark)
for mark in marks.iterdir():
    mark.unlink()
for hook in (kill_executor, fail_once):
    write(hook)

def kill_reader(batches):
    for batch in batches:
        if first("kill"):
            os.kill(executor(), signal.SIGKILL)
        yield batch

bayou.spark.enable(spark)
for reader in ("native", "source"):
    spark.conf.set("spark.bayou.reader", reader)
    (marks / "kill").unlink()
    found = spark.read.format("delta").load(path).mapInArrow(kill_reader, "id long")
    print(found.selectExpr("count(*)", "sum(id)").first())
"""


def run(tmp_path: Path, program: str) -> subprocess.CompletedProcess[str]:
    marks = tmp_path / "marks"
    marks.mkdir(exist_ok=True)
    python_path = os.pathsep.join(p for p in sys.path if p)
    return subprocess.run(
        [
            sys.executable,
            "-c",
            _SESSION + textwrap.dedent(program),
            str(tmp_path / "t"),
            str(marks),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=800,
        env={**os.environ, "PYTHONPATH": python_path, "PYSPARK_PYTHON": sys.executable},
    )


def ids(path: Path) -> list[int]:
    return sorted(bayou.table(str(path)).to_arrow()["id"].to_pylist())


def data_files(path: Path) -> set[str]:
    return {f.name for f in path.rglob("*.parquet") if "_delta_log" not in str(f)}


def referenced(path: Path) -> set[str]:
    adds = (
        json.loads(line).get("add")
        for log in (path / "_delta_log").glob("*.json")
        for line in log.read_text().splitlines()
    )
    return {add["path"] for add in adds if add}


def check_no_debris_stays(path: Path) -> None:
    """VACUUM takes what no commit names."""
    bayou.table(str(path)).vacuum(
        retention_hours=0, dry_run=False, enforce_retention_duration=False
    )
    assert data_files(path) == referenced(path)


@pytest.mark.slow
def test_killed_executors_failed_tasks_and_speculation_double_nothing(tmp_path):
    done = run(tmp_path, _CLUSTER)
    read = f"Row(count(1)=5000, sum(id)={5 * sum(range(1000))})"
    assert done.stdout.splitlines() == [read, read], done.stderr[-4000:]
    path = tmp_path / "t"
    assert ids(path) == sorted(list(range(1000)) * 5)
    assert bayou.table(str(path)).snapshot().version == 4
    check_no_debris_stays(path)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_a_driver_killed_at_its_commit_leaves_the_table_as_it_was_or_with_all_of_it(
    tmp_path, moment
):
    path = tmp_path / "t"
    program = f"""
    from bayou.spark.write.started_write import StartedWrite
    commit = StartedWrite.commit

    def killed(self, *given, **named):
        if {moment == "after"}:
            commit(self, *given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    spark = session("local[2]")
    options = {{"txnAppId": "job", "txnVersion": "1"}}
    frame = rows(spark, 100, lambda: None)
    spark.range(1000, 1001).write.format("delta").mode("ignore").save(path)
    if first("kill"):
        StartedWrite.commit = killed
    frame.write.format("delta").mode("append").options(**options).save(path)
    """
    assert run(tmp_path, program).returncode == -signal.SIGKILL
    landed = moment == "after"
    assert ids(path) == (list(range(100)) if landed else []) + [1000]
    assert (data_files(path) == referenced(path)) is landed
    again = run(tmp_path, program)
    assert again.returncode == 0, again.stderr[-4000:]
    assert ids(path) == [*range(100), 1000]
    check_no_debris_stays(path)


@pytest.mark.slow
def test_a_full_disk_is_said_in_a_sentence_and_leaves_nothing(tmp_path):
    path = tmp_path / "t"
    done = run(
        tmp_path,
        """
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
        spark = session("local[2]", **{"spark.memory.fraction": "0.3"})
        spark.range(1).write.format("delta").save(path)
        for _ in range(2):
            try:
                frame = spark.range(0, 6_000_000, 1, 2).selectExpr("xxhash64(id) AS id")
                frame.write.format("delta").mode("append").save(path)
            except Exception as error:
                print(bayou.spark.short_message(error))
            print(len(list(Path(path).glob("part-*"))))
            bayou.spark.disable(spark)
        """,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stderr[-4000:]
    assert all(str(path) in line and "the disk is full" in line for line in lines[::2]), lines
    assert lines[1] == "1"
    # Where the data source writes, Spark kills the tasks beside one that fails.
    bayou.table(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert data_files(path) == referenced(path)


@pytest.mark.slow
def test_an_append_goes_behind_what_others_commit_meanwhile(tmp_path):
    done = run(
        tmp_path,
        """
        import pyarrow as pa

        def others():
            if first("others"):
                bayou.write(path, pa.table({"id": [1000]}))
                bayou.table(path).optimize()

        spark = session("local[2]")
        spark.range(1001, 1002).write.format("delta").save(path)
        rows(spark, 100, others).write.format("delta").mode("append").save(path)
        """,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert ids(tmp_path / "t") == [*range(100), 1000, 1001]


@pytest.mark.slow
def test_rows_that_come_under_an_overwrite_are_a_conflict_and_its_files_go(tmp_path):
    done = run(
        tmp_path,
        """
        import pyarrow as pa

        def others():
            if first("others"):
                bayou.write(path, pa.table({"id": [7]}))

        spark = session("local[2]")
        spark.range(1000, 1001).write.format("delta").save(path)
        writer = rows(spark, 100, others).write.format("delta").mode("overwrite")
        try:
            writer.option("replaceWhere", "id < 500").save(path)
        except bayou.errors.CommitConflictError as error:
            print(error)
        """,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert str(tmp_path / "t") in done.stdout
    assert ids(tmp_path / "t") == [7, 1000]
    assert data_files(tmp_path / "t") == referenced(tmp_path / "t")


@pytest.mark.slow
def test_a_stopped_session_says_so_and_the_next_one_reads_and_writes(tmp_path):
    done = run(
        tmp_path,
        """
        spark = session("local[2]")
        spark.range(3).write.format("delta").save(path)
        before = spark.read.format("delta").load(path)
        spark.stop()
        for action in (before.count, lambda: spark.read.format("delta").load(path)):
            try:
                print(action())
            except Exception as error:
                print(type(error).__name__)
        spark = session("local[2]")
        spark.range(3, 5).write.format("delta").mode("append").save(path)
        for reader in ("native", "source"):
            spark.conf.set("spark.bayou.reader", reader)
            print(spark.read.format("delta").load(path).count())
        """,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[2:] == ["5", "5"], done.stdout
    assert "3" not in done.stdout.splitlines()[:2]
