"""A Spark session that executes requested appends for `spark_write.py`, in either environment.

usage: spark_write_session.py VARIANT

A request has a case and a number of rows; the response has the seconds and the number of files. The
table is in the working directory.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_variant import answer, session

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


def main(arguments: Sequence[str]) -> None:
    """Answer requests until the input ends."""
    (variant,) = arguments
    spark = session(variant)

    def work(asked: dict[str, Any]) -> dict[str, Any]:
        seconds = append(spark, variant, asked["case"], asked["rows"], Path.cwd())
        files = sum(1 for _ in Path("table").rglob("part-*.parquet"))
        return {"seconds": seconds, "files": files}

    answer(work)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
