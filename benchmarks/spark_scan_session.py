"""A Spark session that reads when told, for `spark_scan.py`; it runs in either environment.

usage: spark_scan_session.py DOOR

DOOR is `enable`, `source` or `delta-spark`. Each line of the input is JSON with a case and a table;
each answer is a line of JSON with the seconds and the result.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
DELTA_SPARK = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
}


def every_column(frame: Any) -> int:
    """Every column is read, its values counted: delta-spark doesn't read for a `noop` write."""
    counts = frame.selectExpr(*(f"count(`{name}`)" for name in frame.columns)).first()
    return sum(counts)


def two_columns(frame: Any) -> int:
    """An aggregate over two columns."""
    return int(frame.selectExpr("sum(id) + cast(sum(amount) AS long) AS s").first().s)


def three_columns(frame: Any) -> int:
    """An aggregate over three of the wide table's columns."""
    return int(frame.selectExpr("sum(c3) + sum(c50) + sum(c97) AS s").first().s)


def point(frame: Any) -> int:
    """A filter for which no file is left."""
    return int(frame.where("id = -5").count())


CASES: dict[str, Callable[[Any], int]] = {
    "all": every_column,
    "2": two_columns,
    "3": three_columns,
    "point": point,
}


def session(door: str) -> Any:
    """A session that has run a query, of no table."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName(door)
    conf = CONF | (DELTA_SPARK if door == "delta-spark" else {})
    for key, value in conf.items():
        builder = builder.config(key, value)
    if door == "delta-spark":
        from delta import configure_spark_with_delta_pip

        spark = configure_spark_with_delta_pip(builder).getOrCreate()
    else:
        spark = builder.getOrCreate()
        import bayou.spark

        bayou.spark.enable(spark)
        if door == "source":
            spark.conf.set("spark.bayou.read.door", "source")
    spark.range(1000).selectExpr("sum(id)").collect()
    return spark


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    (door,) = arguments
    spark = session(door)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        began = time.perf_counter()
        result = CASES[asked["case"]](spark.read.format("delta").load(asked["table"]))
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "result": result}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
