"""A replacement of `pyspark.daemon` that imports the modules of the pipeline's tasks in advance.

Spark forks its Python workers from a daemon, which runs the module in `spark.python.daemon.module`.
If the daemon has imported a module, its workers don't import the module again. This saves about a
second of CPU in each worker. Spark starts one daemon for each kind of worker. Only the daemon of
workers that run tasks imports the modules.

A Spark worker calls `gc.collect()` after each task. The daemon calls `gc.freeze()` after the
imports, so that the collection skips the imported objects. Otherwise, each collection would take 70
milliseconds longer, and write to memory pages that the workers share with the daemon.

Spark puts `pyspark.zip` first on `sys.path` of its workers. Python doesn't cache the bytecode of
ZIP files, so each daemon would compile PySpark, which takes 0.7 seconds. If Spark is an installed
`pyspark` package, this package has the same modules, and the ZIP file is removed from `sys.path`.
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

    If the remaining entries wouldn't import the `pyspark` of `spark_home`, all entries are
    returned.
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
