"""Spark's Python daemon with the modules of the pipeline's tasks imported before it forks.

Otherwise every worker imports them, which takes about one second of CPU each. Spark runs this
module in place of `pyspark.daemon` (`spark.python.daemon.module`), once for each kind of worker;
only workers that run tasks benefit.
"""

from __future__ import annotations

import importlib
import sys

import pyspark.daemon

__all__: list[str] = []

_TASKS = "pyspark.worker"
_IMPORTS = ("confluent_kafka", "bayou.ingest.batch.batch_task", "bayou.spark.kafka")

if __name__ == "__main__":
    if sys.argv[1:2] == [_TASKS]:
        for _name in _IMPORTS:
            importlib.import_module(_name)
    pyspark.daemon.manager()
