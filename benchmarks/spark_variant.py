"""A Spark session of one variant, in its own process and environment.

The variants are `enable` (after `bayou.spark.enable`), `source` (only Bayou's data source, without
configuration) and `delta-spark`. Functions import Bayou or delta-spark, because each environment
has only one of them.
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
"""The key of responses, which distinguishes them from other output of Spark."""

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


def session(variant: str, memory: str = "2g", conf: Mapping[str, str] | None = None) -> Any:
    """Start a session on `local[2]`.

    Args:
        variant: `enable`, `source` or `delta-spark`.
        memory: memory of the driver, which is also the executor.
        conf: additional settings.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName(variant)
    theirs = _DELTA_SPARK if variant == PEER else {}
    for key, value in {**_CONF, "spark.driver.memory": memory, **theirs, **(conf or {})}.items():
        builder = builder.config(key, value)
    if variant == PEER:
        from delta import configure_spark_with_delta_pip

        return configure_spark_with_delta_pip(builder).getOrCreate()
    spark = builder.getOrCreate()
    if variant == "enable":
        import bayou.spark

        bayou.spark.enable(spark)
    return spark


def answer(work: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """Answer each request, a line of JSON on stdin, with a line of JSON, until the input ends.

    An empty response is printed first, to show that the session has started.

    Args:
        work: returns the response for a request.
    """
    print(json.dumps({ANSWER: {}}), flush=True)
    for line in sys.stdin:
        print(json.dumps({ANSWER: work(json.loads(line))}), flush=True)
