"""A replacement of `pyspark.daemon` that imports the modules of the pipeline's tasks first.

Spark's Python workers are forks of this daemon, so the modules are already imported in a worker.
Without the daemon, each worker would import the modules, which takes about one second of CPU.
`spark.python.daemon.module` names this module. Spark starts one daemon for each kind of worker;
only the daemon of the workers that run tasks imports the modules.
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
