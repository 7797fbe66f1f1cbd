"""A Spark session that changes rows of a table when told, for `spark_tables.py`.

usage: spark_tables_session.py DOOR

DOOR is `driver` or `executors` (Bayou, the work done there), `plan` (Bayou, merges joined by Spark)
or `delta-spark`; it runs in either environment. Each line of the input is a case and a table; each
answer is a line of JSON with the seconds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from spark_write_session import COLUMNS, session

ROWS = 8_000_000
CHANGED = [*COLUMNS[:3], "-1D AS amount", *COLUMNS[4:]]
CONF = {
    "driver": {"bayou.rowOperations.localBytes": str(1 << 40)},
    "executors": {"bayou.rowOperations.localBytes": "0"},
    "plan": {"bayou.rowOperations.sourceBytes": "0"},
}


def change(spark: Any, tables: Any, case: str, path: str) -> float:
    """Change rows; the seconds that it took."""
    table = tables.forPath(spark, path)
    step = 2 if case == "merge-half" else 100
    keys = spark.range(0, ROWS, step, 2)
    if case == "merge-inserts":
        keys = spark.range(ROWS, ROWS + ROWS // 100, 1, 2)
    source = keys.selectExpr(*CHANGED).alias("s")
    merging = table.alias("t").merge(source, "t.id = s.id")
    began = time.perf_counter()
    if case == "merge-inserts":
        merging.whenNotMatchedInsertAll().execute()
    elif case.startswith("merge"):
        merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    elif case == "delete-point":
        table.delete("id = 4000001")
    elif case == "delete":
        table.delete("id % 100 = 7")
    else:
        table.update("id % 100 = 7", {"amount": "amount + 1"})
    return time.perf_counter() - began


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    (door,) = arguments
    spark = session("delta-spark" if door == "delta-spark" else "enable")
    if door == "delta-spark":
        from delta.tables import DeltaTable
    else:
        from bayou.spark import DeltaTable
    for key, value in CONF.get(door, {}).items():
        spark.conf.set(key, value)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        case, path = line.split()
        print(json.dumps({"seconds": change(spark, DeltaTable, case, path)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
