"""Each way into Spark once: a program for any version of PySpark. usage: spark_tour.py FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # conventional name

STREAMS = not pyspark.__version__.startswith("4.1.")
"""Whether Python data sources have read limits, which streaming reads need."""


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


def without_an_import(spark, folder):
    """Stock Spark finds the data source by itself."""
    table = str(folder / "stock")
    spark.range(5).write.format("delta").mode("append").save(table)
    assert ids(spark.read.format("delta").load(table).where("id > 2")) == [3, 4]
    assert "bayou" not in sys.modules


def through_the_data_source(spark, folder):
    """Reads, a narrowed schema's growth, time travel, overwrite, a stream from table to table."""
    import bayou

    table, reader = str(folder / "plain"), spark.read.format("delta")
    bayou.write(table, pa.table({"id": [0, 1, 2], "s": [{"a": n, "b": "x"} for n in range(3)]}))
    appended = spark.range(3, 5).write.format("delta").mode("append")
    appended.option("mergeSchema", "true").save(table)
    assert ids(reader.load(table)) == [0, 1, 2, 3, 4]
    first = spark.read.format("delta").option("versionAsOf", 0).load(table)
    assert ids(first.where("s.a > 0")) == [1, 2]
    replaced = spark.range(2).write.format("delta").mode("overwrite")
    replaced.option("overwriteSchema", "true").save(table)
    assert ids(reader.load(table)) == [0, 1]
    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", "1").load(table)
    sink = stream.writeStream.format("delta").trigger(availableNow=True)
    query = sink.option("checkpointLocation", str(folder / "c1")).start(str(folder / "copy"))
    if not STREAMS:
        refused = failure(query)
        assert "streaming reads need version 4.2 or newer" in refused, refused
        return
    assert query.awaitTermination(120)
    assert query.exception() is None
    assert ids(reader.load(str(folder / "copy"))) == [0, 1]


def failure(query):
    """The error with which a query ends."""
    try:
        query.awaitTermination(120)
    except Exception as error:  # whatever class Spark raises
        return str(error)
    raise AssertionError("the query ended without an error")


def into_a_table(spark, folder):
    """A stream of another source that writes a table."""
    table = str(folder / "sunk")
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    sink = rows.selectExpr("value AS id").writeStream.format("delta")
    query = sink.option("checkpointLocation", str(folder / "c3")).start(table)
    while query.lastProgress is None or query.lastProgress["batchId"] < 2:
        assert query.exception() is None
    query.stop()
    found = ids(spark.read.format("delta").load(table))
    assert found[:6] == [0, 1, 2, 3, 4, 5], found
    assert found == list(range(len(found)))


def natively(spark, folder):
    """The native scan, `DeltaTable`, SQL with time travel, a catalog table, replay on executors."""
    import bayou
    from bayou.spark import DeltaTable, DistributedScanBuilder

    table, reader = str(folder / "table"), spark.read.format("delta")
    rows = spark.range(8).selectExpr("id", "id % 2 as p", "named_struct('a', id, 'b', 'x') as s")
    writer = rows.write.format("delta").option("delta.enableDeletionVectors", "true")
    writer.partitionBy("p").save(table)
    plan = reader.load(table).where("p = 1").select("s.a")._jdf.queryExecution().toString()
    assert "Relation [" in plan, plan
    assert ids(reader.load(table).where("p = 1 and s.a > 3")) == [5, 7]
    here = DeltaTable.forPath(spark, table)
    here.delete(F.col("id") == 0)
    here.update("id = 1", {"s": "named_struct('a', 10L, 'b', 'y')"})
    source = spark.createDataFrame([(1, 1), (9, 1)], "id long, p long")
    merge = here.alias("t").merge(source.alias("u"), "t.id = u.id")
    merge = merge.whenMatchedUpdate(set={"p": "u.p"})
    merge.whenNotMatchedInsert(values={"id": "u.id", "p": "u.p"}).execute()
    assert ids(here.toDF()) == [1, 2, 3, 4, 5, 6, 7, 9]
    assert [r.a for r in reader.load(table).where("id = 1").select("s.a").collect()] == [10]
    before = spark.sql(f"SELECT count(*) n FROM delta.`{table}` VERSION AS OF 0")
    assert before.first().n == 8
    assert here.history(1).first().operation == "MERGE"
    rows.write.format("delta").saveAsTable("toured")
    assert spark.table("toured").count() == 8
    snapshot = bayou.table(table).snapshot()
    scan = DistributedScanBuilder(spark, snapshot.kernel, num_partitions=2).build()
    assert scan.dataframe().count() == len(snapshot.files())


def from_the_latest_version_on(spark, folder):
    """A stream that waits for its first commit."""
    table, seen = str(folder / "plain"), []
    stream = spark.readStream.format("delta").option("startingVersion", "latest").load(table)
    sink = stream.writeStream.option("checkpointLocation", str(folder / "c2"))
    query = sink.foreachBatch(lambda batch, number: seen.append((number, ids(batch)))).start()
    query.processAllAvailable()
    spark.range(5, 6).write.format("delta").mode("append").save(table)
    query.processAllAvailable()
    query.stop()
    assert seen == [(0, [5])], seen


def main() -> None:
    folder = Path(sys.argv[1])
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    without_an_import(spark, folder)
    through_the_data_source(spark, folder)

    from bayou.spark import enable

    enable(spark)
    natively(spark, folder)
    into_a_table(spark, folder)
    if STREAMS:
        from_the_latest_version_on(spark, folder)
    spark.stop()
    print("toured", pyspark.__version__)


if __name__ == "__main__":
    main()
