"""Tables are kept up on a cluster that loses an executor in each job."""

import os
from pathlib import Path

from bayou.spark import DeltaTable, start_session

ROOT, MARKS = Path(os.environ["BAYOU_TEST_ROOT"]), Path(os.environ["BAYOU_TEST_MARKS"])
CASES = ("compacting", "ordering", "deleting", "listing", "checkpointing")


def main():
    conf = {
        "spark.driver.memory": "800m",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "bayou.optimize.localBytes": "0",
        "bayou.vacuum.localFiles": "0",
        "bayou.checkpoint.localBytes": "0",
        "spark.databricks.delta.optimize.maxFileSize": "40000",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        **{
            f"spark.executorEnv.{name}": os.environ[name]
            for name in ("PYTHONPATH", "BAYOU_TEST_ROOT", "BAYOU_TEST_MARKS")
        },
    }
    (MARKS / "mode").write_text(f"kill {' '.join(CASES)} ")
    spark = start_session("losing", conf, "local-cluster[2,1,700]")
    for case in CASES:
        place = os.environ["BAYOU_TEST_S3"] if case == "listing" else str(ROOT / case)
        table = DeltaTable.forPath(spark, place)
        match case:
            case "compacting":
                metrics = table.optimize().executeCompaction().first()["metrics"]
                done = metrics["numFilesRemoved"]
            case "ordering":
                done = (
                    table.optimize().executeZOrderBy("number").first()["metrics"]["numFilesRemoved"]
                )
            case "deleting" | "listing":
                table.vacuum(0)
                done = table.history(1).first()["operationMetrics"]["numDeletedFiles"]
            case _:
                done = table.checkpoint()
        print(case, done, (MARKS / case).exists(), flush=True)
    spark.stop()


main()
