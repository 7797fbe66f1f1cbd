"""A Spark session in a process of its own, through one of the doors; it runs in either environment.

The doors are `enable` (Bayou, after `bayou.spark.enable`), `source` (Bayou's data source alone, no
configuration) and `delta-spark`. Imports of both stay in the functions: each environment has one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["ANSWER", "PEER", "answer", "session"]

PEER = "delta-spark"
ANSWER = "answer"
"""The key by which answers differ from whatever else Spark prints."""

_CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_DELTA_SPARK = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
}


def session(door: str, memory: str = "2g", conf: Mapping[str, str] | None = None) -> Any:
    """A session on `local[2]` that has run nothing.

    Args:
        door: one of the module's.
        memory: of the driver, which is the executor too.
        conf: more of it.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName(door)
    theirs = _DELTA_SPARK if door == PEER else {}
    for key, value in {**_CONF, "spark.driver.memory": memory, **theirs, **(conf or {})}.items():
        builder = builder.config(key, value)
    if door == PEER:
        from delta import configure_spark_with_delta_pip

        return configure_spark_with_delta_pip(builder).getOrCreate()
    spark = builder.getOrCreate()
    if door == "enable":
        import bayou.spark

        bayou.spark.enable(spark)
    return spark


def answer(work: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """Answer each line of JSON of the input by one, until it ends; the first says that it begins.

    Args:
        work: what to do for a question.
    """
    print(json.dumps({ANSWER: {}}), flush=True)
    for line in sys.stdin:
        print(json.dumps({ANSWER: work(json.loads(line))}), flush=True)
