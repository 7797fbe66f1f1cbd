"""Create a SPARK_HOME for tests, in which JVMs and Python workers start faster.

usage: spark_home.py FOLDER [--classes]

FOLDER receives links to the programs and JARs of the installed pyspark, but not to its
`python/lib/pyspark.zip`. Spark puts that file first on the path of its Python workers, and Python
doesn't cache bytecode of ZIP files, so that each worker would compile PySpark again (0.7 s).
Without the file, workers import the installed package.

`--classes` also creates `classes.jsa`, an archive for class data sharing: a small program reads,
writes, merges and streams a table, and its JVM writes the archive at exit
(`-XX:ArchiveClassesAtExit`). JVMs of other Java versions or with other JARs ignore the archive.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

_LINKED = ("bin", "jars", "sbin")


def main() -> int:
    """Create the folder; return the exit code."""
    match sys.argv[1:]:
        case [folder]:
            _link(Path(folder).absolute())
        case [folder, "--classes"]:
            home = Path(folder).absolute()
            _link(home)
            os.environ["SPARK_HOME"] = str(home)
            return _archive(home / "classes.jsa")
        case _:
            print("usage: spark_home.py FOLDER [--classes]", file=sys.stderr)
            return 2
    return 0


def _link(home: Path) -> None:
    import pyspark

    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    for name in _LINKED:
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)


def _archive(archive: Path) -> int:
    print("Archiving Spark's classes for the tests' JVMs: about a minute.", flush=True)
    unfinished = archive.with_name(f"{archive.name}.{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={unfinished} -Xlog:cds*=off"
    with tempfile.TemporaryDirectory(prefix="bayou-classes-") as folder:
        _use_spark(Path(folder))
    try:
        unfinished.replace(archive)
    except FileNotFoundError:
        print("bayou: Java didn't write an archive of Spark's classes.", file=sys.stderr)
        return 1
    return 0


def _use_spark(folder: Path) -> None:
    """Run the operations that most tests use, and wait until the JVM has exited."""
    from pyspark import SparkContext

    from bayou.spark import DeltaTable, start_session

    table, copy = str(folder / "table"), str(folder / "copy")
    spark = start_session(
        "bayou-classes", {"spark.sql.warehouse.dir": str(folder)}, "local[2]", time_zone="UTC"
    )
    rows = spark.range(100).selectExpr("id", "id % 3 AS part", "CAST(id AS STRING) AS name")
    rows.write.format("delta").partitionBy("part").save(table)
    for reader in ("source", "native"):
        spark.conf.set("spark.bayou.reader", reader)
        frame = spark.read.format("delta").load(table)
        frame.where("id > 3").groupBy("part").count().collect()
    changed = rows.selectExpr("id + 50 AS id", "part", "name")
    target = DeltaTable.forPath(spark, table)
    merge = target.alias("t").merge(changed.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    target.delete("id = 1")
    spark.sql(f"OPTIMIZE delta.`{table}`")
    query = (
        spark.readStream.format("delta")
        .option("ignoreChanges", "true")
        .load(table)
        .writeStream.format("delta")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(copy)
    )
    query.awaitTermination(300)
    spark.stop()
    gateway = SparkContext._gateway  # noqa: SLF001
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(300)


if __name__ == "__main__":
    raise SystemExit(main())
