"""A Spark session that runs the queries of `tpc_suite.py`, in either environment.

usage: tpc_session.py VARIANT

A request has an SQL query, and the names and the folder of its tables. The response has the
seconds, the number of rows, and a digest of the rows in any order. The seconds include opening the
tables.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_variant import answer, session


def main(arguments: Sequence[str]) -> None:
    """Answer requests until the input ends."""
    (variant,) = arguments
    spark = session(variant, memory="6g")
    spark.range(1000).selectExpr("sum(id)").collect()

    def query(asked: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        for name in asked["tables"]:
            table = str(Path(asked["folder"]) / name)
            spark.read.format("delta").load(table).createOrReplaceTempView(name)
        rows = spark.sql(asked["sql"]).collect()
        seconds = time.perf_counter() - began
        lines = sorted("\t".join(map(str, row)) for row in rows)
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        return {"seconds": seconds, "rows": len(rows), "digest": digest}

    answer(query)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
