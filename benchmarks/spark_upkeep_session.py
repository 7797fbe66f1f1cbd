"""A Spark session that executes requested maintenance of a table, for `spark_upkeep.py`.

usage: spark_upkeep_session.py VARIANT

VARIANT is `enable`, `driver` or `executors` (work forced there), or `delta-spark`. A request has a
case and a table, which is changed; the response has the seconds and the number of files.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_variant import PEER, answer, session

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
    """Answer requests until the input ends."""
    (variant,) = arguments
    spark = session(variant if variant == PEER else "enable")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for key, value in CONF.get(variant, {}).items():
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
