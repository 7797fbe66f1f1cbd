"""The driver of a row operation is killed: the table is at the old version or at the new."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayou
from bayou.spark import enable

pytestmark = pytest.mark.spark
_SLOW = pytest.mark.slow

_CHANGE = """
from bayou.spark import DeltaTable
from pyspark.sql import functions as F  # noqa: N812  # conventional name

def change(spark, path, work, by_plan, die):
    @F.udf("boolean")
    def seen(number):
        die()
        return number is not None and number >= 50

    spark.conf.set("spark.databricks.delta.write.txnAppId", "job")
    spark.conf.set("spark.databricks.delta.write.txnVersion", "1")
    spark.conf.set("bayou.rowOperations.localBytes", "0")
    table = DeltaTable.forPath(spark, path)
    if work == "update":
        table.update(seen("id") if by_plan else "id >= 50", {"n": "n + 1"})
    elif work == "delete":
        table.delete(seen("id") if by_plan else "id >= 50")
    else:
        source = spark.range(50, 150).selectExpr("id", "0L AS n").alias("s")
        merging = table.alias("t").merge(source, "t.id = s.id")
        merging = merging.whenMatchedUpdate(seen("t.id") if by_plan else None, {"n": "t.n + 1"})
        merging.whenNotMatchedInsertAll().execute()
"""
_KILLED = """
import os, signal, sys
from bayou.kernel.transaction.transaction import Transaction
from bayou.spark import start_session

path, work, how, moment = sys.argv[1:]
driver, commit = os.getpid(), Transaction.commit

def die():
    os.kill(driver, signal.SIGKILL)

def killed(self, *arguments, **more):
    if moment == "before the commit":
        die()
    commit(self, *arguments, **more)
    die()

spark = start_session("killed", {"spark.driver.memory": "800m"}, "local[2]")
if moment == "in a task":
    change(spark, path, work, True, die)
else:
    Transaction.commit = killed
    change(spark, path, work, how == "plan", lambda: None)
"""

OLD = {number: number for number in range(100)}
NEW = {
    "update": {n: v + 1 if n >= 50 else v for n, v in OLD.items()},
    "delete": {n: v for n, v in OLD.items() if n < 50},
    "merge": OLD | {n: n + 1 for n in range(50, 100)} | dict.fromkeys(range(100, 150), 0),
}


@pytest.mark.parametrize(
    ("work", "how", "moment", "vectors"),
    [
        pytest.param("merge", "plan", "in a task", "true", marks=_SLOW),
        pytest.param("merge", "plan", "before the commit", "false", marks=_SLOW),
        pytest.param("merge", "executors", "after the commit", "true", marks=_SLOW),
        pytest.param("update", "plan", "in a task", "false", marks=_SLOW),
        pytest.param("update", "executors", "before the commit", "true", marks=_SLOW),
        pytest.param("update", "plan", "after the commit", "true", marks=_SLOW),
        pytest.param("delete", "plan", "in a task", "true", marks=_SLOW),
        pytest.param("delete", "executors", "before the commit", "false", marks=_SLOW),
        ("delete", "executors", "after the commit", "true"),
    ],
)
def test_what_is_killed_is_done_wholly_or_not_at_all_and_once(
    spark, tmp_path, work, how, moment, vectors
):
    path = tmp_path / "t"
    rows = pa.table({"id": list(OLD), "n": list(OLD.values())})
    given = {"delta.enableDeletionVectors": vectors, "delta.enableChangeDataFeed": "true"}
    for part in (rows.slice(0, 60), rows.slice(60)):
        bayou.write(str(path), part, configuration=given)
        given = {}
    killed = run(path, work, how, moment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:]
    assert found(path) == (NEW[work] if moment == "after the commit" else OLD)
    again = spark.newSession()  # the change sets the application's transaction
    enable(again)
    program: dict[str, Any] = {"__name__": "__main__"}  # what it defines goes to workers by value
    exec(_CHANGE, program)
    program["change"](again, str(path), work, how == "plan", lambda: None)
    assert found(path) == NEW[work]
    table = bayou.table(str(path))
    operations = [commit["operation"] for commit in table.history()]
    assert operations == [work.upper(), "WRITE", "WRITE"]
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert found(path) == NEW[work]


def found(path: Path) -> dict[int, int]:
    rows = bayou.table(str(path)).to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["n"] for row in rows}


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _CHANGE + _KILLED, str(path), *arguments],
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
