"""A driver that is killed while many tables are kept up: each has come to another place by then.

What is done to a table is done by a thread, which waits where it should be killed: here, or in a
worker (`sitecustomize`). Once all wait, the driver kills itself.
"""

import os
import signal
import sys
import threading
import traceback
from pathlib import Path

from bayou.errors import BayouError
from bayou.kernel.checkpoint.parts import CheckpointPlan
from bayou.kernel.transaction.transaction import Transaction
from bayou.spark import DeltaTable, start_session
from support.waiting import wait_until

ROOT, MARKS = Path(os.environ["BAYOU_TEST_ROOT"]), Path(os.environ["BAYOU_TEST_MARKS"])
commit, finish = Transaction.commit, CheckpointPlan.finish
commits = {}

BEFORE = {"compacted": 2, "ordered": 1, "purged": 1, "vacuum-planned": 1, "vacuum-deleted": 2}
AFTER = {"clustered": 1, "restored": 1, "vacuum-started": 1}
IN_A_TASK = ("compacting", "ordering", "clustering", "deleting", "checkpointing")
FINISHING = ("checkpoint-parts",)


def arrive(case):
    """Block until this process is killed."""
    (MARKS / case).touch()
    threading.Event().wait()


def committed(self, *arguments, **more):
    case = Path(self.table).name
    number = commits[case] = commits.get(case, 0) + 1
    if BEFORE.get(case) == number:
        arrive(case)
    result = commit(self, *arguments, **more)
    if AFTER.get(case) == number:
        arrive(case)
    return result


def finished(self, *arguments):
    case = Path(self.state.path).name
    if case in FINISHING:
        arrive(case)
    return finish(self, *arguments)


def run(spark, case):
    table = DeltaTable.forPath(spark, str(ROOT / case))
    if case.startswith("check"):
        table.checkpoint()
    elif case.startswith("order"):
        table.optimize().executeZOrderBy("number")
    elif case == "purged":
        table.reorg().executePurge()
    elif case == "restored":
        table.restoreToVersion(0)
    elif case.startswith("vacuum") or case == "deleting":
        table.vacuum(0)
    else:
        table.optimize().executeCompaction()


def attempt(spark, case):
    try:
        run(spark, case)
    except BaseException:
        traceback.print_exc()
    print(f"{case} wasn't stopped", file=sys.stderr, flush=True)
    os._exit(1)


def fill_the_disk(spark):
    (MARKS / "mode").write_text("full")
    for case in ("compacting", "ordering", "checkpointing"):
        try:
            run(spark, case)
        except BayouError as error:
            print(type(error).__name__, error, flush=True)


def main():
    conf = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "bayou.optimize.localBytes": "0",
        "bayou.vacuum.localFiles": "0",
        "bayou.checkpoint.localBytes": "0",
        "spark.databricks.delta.optimize.batchSize": "1",
        "spark.databricks.delta.optimize.maxFileSize": "40000",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    }
    spark = start_session("killed", conf, "local[8]")
    fill_the_disk(spark)
    (MARKS / "mode").write_text(f"wait {' '.join(IN_A_TASK)} ")
    Transaction.commit, CheckpointPlan.finish = committed, finished
    cases = [*BEFORE, *AFTER, *FINISHING, *IN_A_TASK]
    for case in cases:
        threading.Thread(target=attempt, args=(spark, case), daemon=True).start()
    wait_until(lambda: all((MARKS / case).exists() for case in cases), timeout=600, what=cases)
    os.kill(os.getpid(), signal.SIGKILL)


main()
