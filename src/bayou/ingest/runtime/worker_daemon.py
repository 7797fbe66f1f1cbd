"""A replacement of `pyspark.daemon` that imports the modules of the pipeline's tasks in advance.

Spark forks its Python workers from the daemon that `spark.python.daemon.module` names, so each
worker already has the modules. Without this, each worker would import them, which takes about a
second of CPU. Spark starts one daemon for each kind of worker; only the daemon of workers that run
tasks imports the modules.

After each task, a worker of Spark runs `gc.collect()`. The imported objects are frozen, so that the
collection doesn't visit them: they are about 100,000, which takes 70 milliseconds. It also doesn't
write into the pages that the workers share with the daemon.
"""

from __future__ import annotations

import gc
import importlib
import sys

import pyspark.daemon

_TASKS = "pyspark.worker"
_IMPORTS = ("confluent_kafka", "bayou.ingest.batch.batch_task", "bayou.spark.kafka")

if __name__ == "__main__":
    if sys.argv[1:2] == [_TASKS]:
        for _name in _IMPORTS:
            importlib.import_module(_name)
        gc.collect()
        gc.freeze()
    pyspark.daemon.manager()
