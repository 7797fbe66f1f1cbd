"""A replacement of `pyspark.daemon` that imports the modules of the pipeline's tasks in advance.

Spark forks its Python workers from the daemon that `spark.python.daemon.module` names, so each
worker already has the modules. Without this, each worker would import them, which takes about a
second of CPU. Spark starts one daemon for each kind of worker; only the daemon of workers that run
tasks imports the modules.
"""

from __future__ import annotations

import importlib
import sys

import pyspark.daemon

_TASKS = "pyspark.worker"
_IMPORTS = ("confluent_kafka", "bayou.ingest.batch.batch_task", "bayou.spark.kafka")

if __name__ == "__main__":
    if sys.argv[1:2] == [_TASKS]:
        for _name in _IMPORTS:
            importlib.import_module(_name)
    pyspark.daemon.manager()
