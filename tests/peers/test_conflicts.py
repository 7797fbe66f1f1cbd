"""Which commits go behind which, where one is delta-spark's and the other ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import CommitConflictError
from bayou.kernel import Operation, Snapshot, Table, write_data
from bayou.kernel.commands.optimize.optimize import plan_optimize
from bayou.kernel.commands.optimize.rewrite_execution import run_plan
from bayou.kernel.commands.row_changes.delete import delete
from bayou.kernel.commands.row_changes.update import update

if TYPE_CHECKING:
    from conftest import DeltaSpark

pytestmark = pytest.mark.timeout(900)

ENGINE = ArrowEngine()
INFO = "peer/1"
LEVEL = "delta.isolationLevel"


def rows(*ids: int, p: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([p] * len(ids), pa.int64())})


def make(path: Path) -> Table:
    bayou.write(path, rows(1, 2, p=0), partition_by=["p"], configuration={LEVEL: "Serializable"})
    bayou.write(path, rows(3, 4, p=0))
    bayou.write(path, rows(5, 6, p=1))
    return Table.for_path(ENGINE, str(path))


def append(snapshot: Snapshot, removing: str | None = None, p: int = 0) -> None:
    transaction = snapshot.build_update_table_transaction(INFO, Operation.WRITE).build(ENGINE)
    data = rows(100, p=p).to_batches()
    actions = list(write_data(ENGINE, transaction.transaction_state(ENGINE), data))
    if removing is not None:
        where = None if removing == "all" else removing
        actions += transaction.generate_remove_actions(ENGINE, where)
    transaction.commit(ENGINE, actions)


OURS = {
    "append": lambda s: append(s),
    "append to 1": lambda s: append(s, p=1),
    "overwrite": lambda s: append(s, "all"),
    "overwrite 0": lambda s: append(s, "p = 0"),
    "delete 1": lambda s: delete(ENGINE, s, "p = 1", engine_info=INFO),
    "delete a row of 0": lambda s: delete(ENGINE, s, "p = 0 AND id = 1", engine_info=INFO),
    "update 1": lambda s: update(ENGINE, s, {"id": "id + 10"}, "p = 1", engine_info=INFO),
    "optimize 0": lambda s: run_plan(ENGINE, plan_optimize(ENGINE, s, INFO, where="p = 0"), INFO),
    "set a property": lambda s: bayou.table(s.path).alter.set_table_properties({"mine": "1"}),
    "turn vectors on": lambda s: bayou.table(s.path).alter.set_table_properties(
        {"delta.enableDeletionVectors": "true"}
    ),
}

THEIRS = {
    "append": "INSERT INTO delta.`{}` VALUES (50, 0)",
    "append to 1": "INSERT INTO delta.`{}` VALUES (50, 1)",
    "update 1": "UPDATE delta.`{}` SET id = id + 10 WHERE p = 1",
    "delete 1": "DELETE FROM delta.`{}` WHERE p = 1",
    "optimize": "OPTIMIZE delta.`{}`",
    "set a property": "ALTER TABLE delta.`{}` SET TBLPROPERTIES (theirs = '1')",
    "turn vectors on": (
        "ALTER TABLE delta.`{}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    ),
    "turn timestamps on": (
        "ALTER TABLE delta.`{}` SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')"
    ),
}

BEHIND_THEIRS = [
    ("append", "append", None),
    ("append", "update 1", None),
    ("append", "set a property", "MetadataChangedError"),
    ("append", "turn vectors on", None),
    ("append", "turn timestamps on", None),
    ("overwrite", "append", "ConcurrentAppendError"),
    ("overwrite", "delete 1", "ConcurrentDeleteReadError"),
    ("overwrite 0", "append", "ConcurrentAppendError"),
    ("overwrite 0", "append to 1", None),
    ("overwrite 0", "update 1", None),
    ("overwrite 0", "optimize", "ConcurrentAppendError"),
    ("delete a row of 0", "update 1", None),
    ("delete a row of 0", "turn vectors on", None),
    ("optimize 0", "append", None),
    ("optimize 0", "update 1", None),
    ("optimize 0", "optimize", "ConcurrentDeleteReadError"),
]


def test_our_commits_behind_theirs(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    for number, (mine, theirs, expected) in enumerate(BEHIND_THEIRS):
        path = tmp_path / f"t{number}"
        before = make(path).latest_snapshot(ENGINE)
        delta_spark.sql(THEIRS[theirs].format(path))
        outcome = None
        try:
            OURS[mine](before)
        except CommitConflictError as error:
            outcome = type(error).__name__
        assert outcome == expected, (mine, theirs)
        found = sorted(bayou.table(path).to_arrow()["id"].to_pylist())
        assert sorted(delta_spark.read(path)["id"].to_pylist()) == found


BEGIN = """
jvm = spark._jvm
log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
none = jvm.scala.Option.empty()
txn = log.startTransaction(none, none)
parse = jvm.org.apache.spark.sql.delta.actions.Action.fromJson
actions = [parse('{"add":{"path":"p=0/new.parquet","partitionValues":{"p":"0"},"size":1,'
                 '"modificationTime":1,"dataChange":true,"stats":"{\\\\"numRecords\\\\":1}"}}')]
if KIND == "overwrite":
    txn.readWholeTable()
    files = list(txn.snapshot().allFiles().collect())
    actions += [file.removeWithTimestamp(1, True) for file in files]
spark.held = (txn, actions)
"""
END = """
jvm = spark._jvm
txn, actions = spark.held
loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
operations = loader.loadClass("org.apache.spark.sql.delta.DeltaOperations$ManualUpdate$")
operation = operations.getField("MODULE$").get(None)
txn.commit(jvm.org.apache.spark.api.python.PythonUtils.toSeq(actions), operation)
"""

BEHIND_OURS = [
    ("append", "append", None),
    ("append", "update 1", None),
    ("append", "optimize 0", None),
    ("append", "set a property", "MetadataChangedException"),
    ("append", "turn vectors on", None),
    ("overwrite", "append", "ConcurrentAppendException"),
    ("overwrite", "update 1", "ConcurrentAppendException"),
    ("overwrite", "delete 1", "ConcurrentDeleteReadException"),
    ("overwrite", "optimize 0", "ConcurrentAppendException"),
]


def test_their_commits_behind_ours(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    for number, (theirs, mine, expected) in enumerate(BEHIND_OURS):
        path = tmp_path / f"t{number}"
        table = make(path)
        delta_spark.run(f"KIND = {theirs!r}\n{BEGIN}", path)
        OURS[mine](table.latest_snapshot(ENGINE))
        outcome = None
        try:
            delta_spark.run(END, path)
        except AssertionError as error:
            outcome = str(error)
        assert (outcome is None) == (expected is None), (theirs, mine, outcome)
        assert expected is None or expected in str(outcome), (theirs, mine, outcome)
