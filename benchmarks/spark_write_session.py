"""A Spark session that appends when told, for `spark_write.py`; it runs in either environment.

usage: spark_write_session.py DOOR FOLDER

DOOR is `enable`, `source` or `delta-spark`. Each line of the input is a case and a number of rows;
each answer is a line of JSON with the seconds and the number of files.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
DELTA_SPARK = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
}
COLUMNS = [
    "id",
    "cast(id % 1000 as int) AS few",
    "hash(id) AS number",
    "id * 0.37D AS amount",
    "concat('user-', hash(id, 7) % 100000) AS who",
    "concat('a longer text of row ', id) AS note",
    "timestamp_micros(1700000000000000 + id * 1000) AS at",
    "date_add(DATE'2024-01-01', cast(id % 16 as int)) AS day",
]


def session(door: str) -> Any:
    """A warm session."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName(door)
    conf = CONF | (DELTA_SPARK if door == "delta-spark" else {})
    for key, value in conf.items():
        builder = builder.config(key, value)
    if door == "delta-spark":
        from delta import configure_spark_with_delta_pip

        return configure_spark_with_delta_pip(builder).getOrCreate()
    spark = builder.getOrCreate()
    if door == "enable":
        import bayou.spark

        bayou.spark.enable(spark)
    return spark


def append(spark: Any, door: str, case: str, rows: int, folder: Path) -> float:
    """Append rows to a table that is there, and empty; the seconds that it took."""
    frame = spark.range(0, rows, 1, 8).selectExpr(*COLUMNS)
    table = str(folder / "table")
    shutil.rmtree(table, ignore_errors=True)
    if door == "source":
        make(table, frame, case)
    else:
        columns = ["day"] if case == "partitioned" else []
        frame.limit(0).write.format("delta").partitionBy(*columns).save(table)
    began = time.perf_counter()
    frame.write.format("delta").mode("append").save(table)
    return time.perf_counter() - began


def make(table: str, frame: Any, case: str) -> None:
    """An empty table: Spark doesn't let a Python source be asked for partition columns."""
    import pyarrow as pa

    import bayou

    empty = pa.Table.from_batches([], schema=frame.limit(0).toArrow().schema)
    bayou.write(table, empty, partition_by=["day"] if case == "partitioned" else None)


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    door, folder = arguments
    spark = session(door)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        case, rows = line.split()
        seconds = append(spark, door, case, int(rows), Path(folder))
        files = sum(1 for _ in Path(folder, "table").rglob("part-*.parquet"))
        print(json.dumps({"seconds": seconds, "files": files}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
