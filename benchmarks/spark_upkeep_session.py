"""A Spark session that keeps tables in shape when told, for `spark_upkeep.py`.

usage: spark_upkeep_session.py DOOR FOLDER

It runs in either environment. DOOR is `enable`, `driver` (the same, all of it in the driver's
process) or `delta-spark`. Each line of the input is a case and the path of a table, which is
changed; each answer is a line of JSON with the seconds and what was counted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from spark_write_session import session

STATEMENTS = {
    "optimize": "OPTIMIZE delta.`{table}`",
    "zorder": "OPTIMIZE delta.`{table}` ZORDER BY (few, number)",
    "vacuum": "VACUUM delta.`{table}` RETAIN 0 HOURS",
}


def main(arguments: Sequence[str]) -> None:
    """Answer until the input ends."""
    door, _ = arguments
    spark = session("enable" if door == "driver" else door)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    if door == "driver":
        spark.conf.set("bayou.optimize.localBytes", str(1 << 60))
    print("{}", flush=True)
    for line in sys.stdin:
        case, table = line.split()
        started = time.perf_counter()
        rows = spark.sql(STATEMENTS[case].format(table=table)).collect()
        seconds = time.perf_counter() - started
        metrics = rows[0]["metrics"] if case != "vacuum" else None
        files = (
            sum(1 for _ in Path(table).rglob("*.parquet"))
            if metrics is None
            else metrics["numFilesAdded"]
        )
        print(json.dumps({"seconds": seconds, "files": files}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
