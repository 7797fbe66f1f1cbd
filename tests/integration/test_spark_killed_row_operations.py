"""The driver of a MERGE is killed: the table is at the old version or at the new."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import bayou

pytestmark = pytest.mark.spark

_PROGRAM = """
import os, signal, sys
from pathlib import Path
import bayou.spark
from bayou.kernel.writes.transaction import Transaction
from bayou.spark import DeltaTable, start_session
from pyspark.sql import functions as F

path, mark, how, moment = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
driver, commit = os.getpid(), Transaction.commit

def die():
    if not mark.exists():
        mark.touch()
        os.kill(driver, signal.SIGKILL)

def killed(self, *arguments, **more):
    if moment == "before the commit":
        die()
    result = commit(self, *arguments, **more)
    die()
    return result

spark = start_session("killed", {"spark.driver.memory": "800m"}, "local[2]")

@F.udf("boolean")
def seen(number):
    if moment == "in a task":
        die()
    return number is not None

if moment != "in a task":
    Transaction.commit = killed
spark.conf.set("spark.databricks.delta.write.txnAppId", "job")
spark.conf.set("spark.databricks.delta.write.txnVersion", "1")
spark.conf.set("bayou.rowOperations.localBytes", "0")
source = spark.range(50, 150).selectExpr("id", "0L AS n").alias("s")
merging = DeltaTable.forPath(spark, path).alias("t").merge(source, "t.id = s.id")
condition = seen("t.id") if how == "plan" else "t.id IS NOT NULL"
merging = merging.whenMatchedUpdate(condition, {"n": "t.n + 1"}).whenNotMatchedInsertAll()
print(merging.execute().collect())
"""

OLD = {number: number for number in range(100)}
NEW = OLD | {n: n + 1 for n in range(50, 100)} | dict.fromkeys(range(100, 150), 0)


@pytest.mark.parametrize(
    ("how", "moment", "vectors"),
    [
        ("plan", "in a task", "true"),
        ("plan", "before the commit", "false"),
        ("executors", "after the commit", "true"),
    ],
)
def test_a_killed_merge_is_done_wholly_or_not_at_all_and_once(tmp_path, how, moment, vectors):
    path = tmp_path / "t"
    rows = pa.table({"id": list(OLD), "n": list(OLD.values())})
    given = {"delta.enableDeletionVectors": vectors, "delta.enableChangeDataFeed": "true"}
    for part in (rows.slice(0, 60), rows.slice(60)):
        bayou.write(str(path), part, properties=given)
        given = {}
    killed = run(tmp_path, how, moment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:]
    landed = moment == "after the commit"
    assert found(path) == (NEW if landed else OLD)
    again = run(tmp_path, how, moment)
    assert again.returncode == 0, again.stderr[-4000:]
    assert found(path) == NEW
    assert (again.stdout.strip() == "[]") is landed
    table = bayou.table(str(path))
    assert [commit["operation"] for commit in table.history()] == ["MERGE", "WRITE", "WRITE"]
    table.vacuum(retention_hours=0, enforce_retention_duration=False)
    assert found(path) == NEW


def found(path: Path) -> dict[int, int]:
    rows = bayou.table(str(path)).to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["n"] for row in rows}


def run(tmp_path: Path, how: str, moment: str) -> subprocess.CompletedProcess[str]:
    arguments = [str(tmp_path / "t"), str(tmp_path / "mark"), how, moment]
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PYSPARK_PYTHON": sys.executable,
        },
    )
