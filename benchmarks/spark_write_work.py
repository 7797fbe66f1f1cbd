"""Executes the appends of `spark_write.py` in a session of `spark_session.py`.

A request has a case and a number of rows; the response has the seconds and the number of files. The
table is in the working directory.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

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


def append(spark: Any, variant: str, case: str, rows: int, folder: Path) -> float:
    """Create an empty table and append rows to it; return the seconds of the append."""
    frame = spark.range(0, rows, 1, 8).selectExpr(*COLUMNS)
    table = str(folder / "table")
    shutil.rmtree(table, ignore_errors=True)
    if variant == "source":
        make(table, frame, case)
    else:
        columns = ["day"] if case == "partitioned" else []
        frame.limit(0).write.format("delta").partitionBy(*columns).save(table)
    began = time.perf_counter()
    frame.write.format("delta").mode("append").save(table)
    return time.perf_counter() - began


def make(table: str, frame: Any, case: str) -> None:
    """Create an empty table with Bayou: Spark passes no partition columns to Python sources."""
    import pyarrow as pa

    import bayou

    empty = pa.Table.from_batches([], schema=frame.limit(0).toArrow().schema)
    bayou.write(table, empty, partition_by=["day"] if case == "partitioned" else None)


def work(spark: Any, variant: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Answer a request."""
    seconds = append(spark, variant, asked["case"], asked["rows"], Path.cwd())
    files = sum(1 for _ in Path("table").rglob("part-*.parquet"))
    return {"seconds": seconds, "files": files}
