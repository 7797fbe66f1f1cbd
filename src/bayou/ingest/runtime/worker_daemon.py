"""A replacement of `pyspark.daemon` that imports the modules of the pipeline's tasks in advance.

Spark forks its Python workers from the daemon that `spark.python.daemon.module` names, so each
worker already has the modules. Without this, each worker would import them, which takes about a
second of CPU. Spark starts one daemon for each kind of worker; only the daemon of workers that run
tasks imports the modules.

After each task, a worker of Spark runs `gc.collect()`. The daemon freezes the imported objects with
`gc.freeze()`, so that the collection skips them. Without this, each collection would visit about
100,000 objects in 70 milliseconds, and write into the memory pages that the workers share with the
daemon.

Spark puts `pyspark.zip` first on the path of its workers. Python doesn't cache the bytecode of ZIP
files, so PySpark would be compiled in each daemon, which takes 0.7 seconds. If Spark is an
installed `pyspark` package, the ZIP file has the same modules, and is removed from the path.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

_TASKS = "pyspark.worker"
_IMPORTS = ("confluent_kafka", "bayou.ingest.batch.batch_task", "bayou.spark.kafka")


def path_without_zip(path: Sequence[str], spark_home: Path) -> list[str]:
    """Return the entries of `sys.path` without Spark's `pyspark.zip`.

    If the other entries don't contain `pyspark`, or contain another `pyspark` before that of
    `spark_home`, all entries are returned.
    """
    home = spark_home.resolve()
    archive = home / "python" / "lib" / "pyspark.zip"
    others = [entry for entry in path if Path(entry).resolve() != archive]
    found = PathFinder.find_spec("pyspark", others)
    if found is None or found.origin is None:
        return list(path)
    return others if Path(found.origin).resolve() == home / "__init__.py" else list(path)


if __name__ == "__main__":
    sys.path[:] = path_without_zip(sys.path, Path(os.environ.get("SPARK_HOME", "")))
    import pyspark.daemon

    if sys.argv[1:2] == [_TASKS]:
        for _name in _IMPORTS:
            importlib.import_module(_name)
        gc.collect()
        gc.freeze()
    pyspark.daemon.manager()
