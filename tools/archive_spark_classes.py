"""Archive the classes that Spark's JVM loads, so that the JVMs of tests start with them parsed.

usage: archive_spark_classes.py ARCHIVE

Runs a small Spark program that reads, writes, merges and streams a table. Its JVM writes an archive
for class data sharing (`-XX:ArchiveClassesAtExit`) when it ends. A JVM of another Java version, or
with other JARs, ignores the archive.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Write the archive."""
    if len(sys.argv) != 2:
        print("usage: archive_spark_classes.py ARCHIVE", file=sys.stderr)
        return 2
    archive = Path(sys.argv[1]).absolute()
    unfinished = archive.with_name(f"{archive.name}.{os.getpid()}")
    print("Archiving Spark's classes for the JVMs of the tests: about half a minute.", flush=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={unfinished} -Xlog:cds*=off"
    with tempfile.TemporaryDirectory(prefix="bayou-classes-") as folder:
        _use_spark(Path(folder))
    try:
        unfinished.replace(archive)
    except FileNotFoundError:
        print("bayou: this Java wrote no archive of Spark's classes.", file=sys.stderr)
        return 1
    return 0


def _use_spark(folder: Path) -> None:
    """Do what most tests do, then wait until the JVM has exited."""
    from pyspark import SparkContext

    from bayou.spark import DeltaTable, start_session

    table, copy = str(folder / "table"), str(folder / "copy")
    spark = start_session(
        "bayou-classes", {"spark.sql.warehouse.dir": str(folder)}, "local[2]", time_zone="UTC"
    )
    rows = spark.range(100).selectExpr("id", "id % 3 AS part", "CAST(id AS STRING) AS name")
    rows.write.format("delta").partitionBy("part").save(table)
    for reader in ("source", "native"):
        spark.conf.set("spark.bayou.read.door", reader)
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
