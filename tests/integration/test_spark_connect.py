"""The format `delta` through Spark Connect: another client, the same data source."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
    import sys
    import warnings

    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession, functions as F

    from pyspark.errors import AnalysisException

    import bayou.errors
    from bayou import spark as bayou_spark

    path = sys.argv[1]
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    bayou_spark.enable(spark)
    bayou_spark.enable(spark)
    spark.range(10).write.format("delta").mode("append").save(path)
    spark.range(10, 20).write.format("delta").mode("append").save(path)
    read = spark.read.format("delta").load(path)
    print("rows", read.count(), "filtered", read.where("id >= 15").count())
    print("old", spark.read.format("delta").option("versionAsOf", 0).load(path).count())
    try:
        spark.read.format("delta").load(path + "/nothing").count()
    except Exception as error:
        print("error", "TableNotFoundError" in str(error))
    query = (
        spark.readStream.format("delta")
        .option("maxFilesPerTrigger", 1)
        .load(path)
        .writeStream.format("delta")
        .option("checkpointLocation", path + "-checkpoint")
        .trigger(availableNow=True)
        .start(path + "-copy")
    )
    query.awaitTermination(120)
    copied = spark.read.format("delta").load(path + "-copy").count()
    print("streamed", copied, "last batch", query.lastProgress["batchId"] > 0)
    new = path + "-new"
    pairs = spark.range(3).selectExpr("id", "id % 2 AS p")
    pairs.write.format("delta").partitionBy("p").save(new)
    print("partitioned", *spark.sql(f"DESCRIBE DETAIL delta.`{new}`").first().partitionColumns)
    try:
        pairs.write.format("delta").save(new)
    except AnalysisException as error:
        print("exists", error.getCondition())
    pairs.write.format("delta").mode("ignore").save(new)
    print("ignored", spark.read.format("delta").load(new).count())
    few = spark.range(2).write.format("delta").mode("overwrite")
    few.option("replaceWhere", "id < 3").save(path)
    print("replaced", spark.read.format("delta").load(path).count())
    sql = bayou_spark.sql
    print("sql", sql(spark, f"SELECT count(*) FROM delta.`{path}` VERSION AS OF 0").first()[0])
    print("hooked", spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").first().operation)
    print("detail", sql(spark, f"DESCRIBE DETAIL delta.`{path}`").first().numFiles > 0)
"""

MORE = """
    spark.conf.set("spark.sql.session.timeZone", "-03:00")
    old = spark.read.format("delta").option("timestampAsOf", "2010-01-01 00:00:00")
    try:
        old.load(path).count()
    except Exception as error:
        print("zone", "2010-01-01T03:00" in str(error) or str(error)[:900])
    try:
        spark.range(1).write.format("delta").saveAsTable("named")
    except bayou.errors.ArgumentError as error:
        print("by name", "Spark Connect" in str(error))
    try:
        spark.range(1).writeTo("named").using("delta").create()
    except bayou.errors.ArgumentError as error:
        print("by name", "Spark Connect" in str(error))
    try:
        stream = spark.readStream.format("rate").load().writeStream.format("delta")
        stream.option("checkpointLocation", path + "-c").toTable("named")
    except Exception as error:
        print("by name", "Spark Connect" in str(error) or str(error)[:300])
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    DeltaTable = bayou_spark.DeltaTable
    things = (
        DeltaTable.create(spark)
        .location(path + "-things")
        .addColumn("id", "BIGINT")
        .addColumn("v", "STRING")
        .addColumn("twice", "BIGINT", generatedAlwaysAs="id * 2")
        .property("delta.enableDeletionVectors", "true")
        .execute()
    )
    source = spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id long, v string")
    merging = things.alias("t").merge(source.alias("s"), F.col("t.id") == F.col("s.id"))
    values = {"id": "s.id", "v": "s.v"}
    inserting = merging.whenNotMatchedInsert(values=values)
    print("merged", *inserting.execute().first())
    updating = merging.whenMatchedUpdate("s.id < 3", {"v": F.concat("t.v", "s.v")})
    print("again", *updating.execute().first())
    things.update("id = 3", {"v": "'third'"})
    things.delete(F.col("id") == 1)
    print("things", sorted(tuple(row) for row in things.toDF().collect()))
    operations = [row.operation for row in things.history().collect()]
    print("operations", operations, things.detail().first().numFiles)
    print("packed", things.optimize().executeCompaction().first().metrics.numFilesAdded)
    print("restored", things.restoreToVersion(1).columns[0])
    print("cloned", things.clone(path + "-clone", isShallow=True).toDF().count())
    print("vacuumed", things.vacuum().columns, DeltaTable.isDeltaTable(spark, path + "-clone"))
    try:
        things.delete(source["id"] > 1)
    except bayou.errors.ArgumentError as error:
        print("columns", "SQL string" in str(error))
    try:
        DeltaTable.forName(spark, "named")
    except bayou.errors.ArgumentError as error:
        print("names", "path" in str(error))
    bayou_spark.disable(spark)
    print("without pushdown", read.where("id >= 15").count())
    spark.stop()
"""


def run(program, tmp_path):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "t")],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )


PRINTED = [
    "rows 20 filtered 5",
    "old 10",
    "error True",
    "streamed 20 last batch True",
    "partitioned p",
    "exists DELTA_PATH_EXISTS",
    "ignored 3",
    "replaced 19",
    "sql 10",
    "hooked WRITE",
    "detail True",
]


@pytest.mark.usefixtures("connect_port")
def test_delta_is_read_and_written_through_spark_connect(tmp_path):
    done = run(f"{PROGRAM}    spark.stop()\n", tmp_path)
    assert done.stdout.splitlines() == PRINTED, done.stderr[-3000:]


@pytest.mark.usefixtures("connect_port")
@pytest.mark.slow
def test_zones_names_and_delta_table_work_through_spark_connect(tmp_path):
    done = run(PROGRAM + MORE, tmp_path)
    assert done.stdout.splitlines() == [
        *PRINTED,
        "zone True",
        "by name True",
        "by name True",
        "by name True",
        "merged 3 0 0 3",
        "again 2 2 0 0",
        "things [(2, 'bb', 4), (3, 'third', 6)]",
        "operations ['DELETE', 'UPDATE', 'MERGE', 'MERGE', 'CREATE TABLE'] 2",
        "packed 1",
        "restored table_size_after_restore",
        "cloned 3",
        "vacuumed [] True",
        "columns True",
        "names True",
        "without pushdown 5",
    ], done.stderr[-3000:]
