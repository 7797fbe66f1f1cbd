"""Executes the maintenance of `spark_upkeep.py` in a session of `spark_session.py`.

The variant is `enable`, `driver` or `executors` (work forced there), or `delta-spark`. A request
has a case and a table, which is changed; the response has the seconds and the number of files.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

STATEMENTS = {
    "optimize": "OPTIMIZE delta.`{table}`",
    "zorder": "OPTIMIZE delta.`{table}` ZORDER BY (few, number)",
    "vacuum": "VACUUM delta.`{table}` RETAIN 0 HOURS",
}

CONF = {
    "driver": {"bayou.optimize.localBytes": str(1 << 60), "bayou.vacuum.localFiles": str(1 << 60)},
    "executors": {"bayou.optimize.localBytes": "0", "bayou.vacuum.localFiles": "0"},
}


def work(spark: Any, variant: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Answer a request."""
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for key, value in CONF.get(variant, {}).items():
        spark.conf.set(key, value)
    case, table = asked["case"], asked["table"]
    started = time.perf_counter()
    rows = spark.sql(STATEMENTS[case].format(table=table)).collect()
    seconds = time.perf_counter() - started
    if case == "vacuum":
        files = sum(1 for _ in Path(table).rglob("*.parquet"))
    else:
        files = rows[0]["metrics"]["numFilesAdded"]
    return {"seconds": seconds, "files": files}
