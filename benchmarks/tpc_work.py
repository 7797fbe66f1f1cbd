"""Runs the queries of `tpc_suite.py` in a session of `spark_session.py`.

A request has an SQL query, and the names and the folder of its tables. The response has the
seconds, the number of rows, and a digest of the rows in any order. The seconds include opening the
tables.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any


def work(spark: Any, _: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Answer a request."""
    began = time.perf_counter()
    for name in asked["tables"]:
        table = str(Path(asked["folder"]) / name)
        spark.read.format("delta").load(table).createOrReplaceTempView(name)
    rows = spark.sql(asked["sql"]).collect()
    seconds = time.perf_counter() - began
    lines = sorted("\t".join(map(str, row)) for row in rows)
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return {"seconds": seconds, "rows": len(rows), "digest": digest}
