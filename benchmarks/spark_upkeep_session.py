"""A Spark session that keeps tables in shape when told, for `spark_upkeep.py`.

usage: spark_upkeep_session.py DOOR

It runs in either environment. DOOR is `enable`, `driver` or `executors` (the same, all of it done
there) or `delta-spark`. A question has a case and a table, which is changed; the answer has the
seconds and the number of files.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_door import PEER, answer, session

STATEMENTS = {
    "optimize": "OPTIMIZE delta.`{table}`",
    "zorder": "OPTIMIZE delta.`{table}` ZORDER BY (few, number)",
    "vacuum": "VACUUM delta.`{table}` RETAIN 0 HOURS",
}

CONF = {
    "driver": {"bayou.optimize.localBytes": str(1 << 60), "bayou.vacuum.localFiles": str(1 << 60)},
    "executors": {"bayou.optimize.localBytes": "0", "bayou.vacuum.localFiles": "0"},
}


def main(arguments: Sequence[str]) -> None:
    """Answer until the input ends."""
    (door,) = arguments
    spark = session(door if door == PEER else "enable")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for key, value in CONF.get(door, {}).items():
        spark.conf.set(key, value)

    def work(asked: dict[str, Any]) -> dict[str, Any]:
        case, table = asked["case"], asked["table"]
        started = time.perf_counter()
        rows = spark.sql(STATEMENTS[case].format(table=table)).collect()
        seconds = time.perf_counter() - started
        if case == "vacuum":
            files = sum(1 for _ in Path(table).rglob("*.parquet"))
        else:
            files = rows[0]["metrics"]["numFilesAdded"]
        return {"seconds": seconds, "files": files}

    answer(work)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
