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
    bayou_spark.disable(spark)
    print("without pushdown", read.where("id >= 15").count())
    spark.stop()
"""

NAMES = """
    import sys
    import warnings

    warnings.simplefilter("ignore")
    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession, functions as F

    from bayou import spark as bayou_spark
    from bayou.spark import DeltaTable

    path = sys.argv[1]
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    bayou_spark.enable(spark)
    rows = spark.range(3).selectExpr("id", "cast(id AS string) AS v")
    rows.write.format("delta").saveAsTable("named")
    print("created", spark.catalog.tableExists("named"), spark.table("named").count())
    location = spark.sql("DESCRIBE DETAIL named").first().location
    print("located", location.endswith("warehouse/named"))
    rows.write.mode("append").saveAsTable("named")
    rows.write.insertInto("named")
    rows.writeTo("named").append()
    print("appended", spark.read.table("named").count())
    rows.where("id = 0").writeTo("named").overwrite(F.col("id") == 0)
    print("overwritten", spark.sql("SELECT count(*) FROM named WHERE id = 0").first()[0])
    try:
        rows.write.format("delta").saveAsTable("named")
    except AnalysisException as error:
        print("exists", error.getCondition())
    rows.write.format("delta").mode("ignore").saveAsTable("named")
    rows.write.format("delta").option("path", path).saveAsTable("elsewhere")
    print("elsewhere", spark.read.format("delta").load(path).count())
    rows.writeTo("other").using("delta").partitionedBy("v").create()
    rows.limit(1).writeTo("other").createOrReplace()
    print("other", spark.table("other").count(), len(spark.sql("DESCRIBE HISTORY other").collect()))
    spark.sql("CREATE TABLE made (id BIGINT, v STRING) USING delta")
    spark.sql("INSERT INTO made SELECT * FROM named WHERE id = 1")
    spark.sql("UPDATE made SET v = 'new'")
    spark.sql("ALTER TABLE made ADD COLUMNS (n INT)")
    spark.sql("DELETE FROM made WHERE id > 5")
    print("made", sorted(map(tuple, spark.sql("SELECT DISTINCT * FROM made").collect())))
    spark.sql("CREATE TABLE selected USING delta AS SELECT id FROM named VERSION AS OF 0")
    print("selected", spark.sql("SELECT sum(s.id) FROM selected s JOIN named n USING (id)").first())
    table = DeltaTable.forName(spark, "made")
    merge = table.alias("t").merge(rows.alias("s"), "t.id = s.id")
    merge.whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"}).execute()
    print("merged", spark.table("made").count(), DeltaTable.forName(spark, "made").toDF().count())
    DeltaTable.createIfNotExists(spark).tableName("built").addColumn("id", "BIGINT").execute()
    query = (
        spark.readStream.table("named")
        .select("id")
        .writeStream.option("checkpointLocation", path + "-c")
        .trigger(availableNow=True)
        .toTable("built")
    )
    query.awaitTermination(120)
    print("streamed", spark.table("built").count() == spark.table("named").count())
    spark.catalog.createTable("by_catalog", source="delta", schema=rows.schema)
    rows.write.insertInto("by_catalog")
    print("by catalog", spark.table("by_catalog").count())
    spark.sql("CREATE DATABASE shop")
    rows.write.format("delta").saveAsTable("shop.Orders")
    print("database", spark.table("spark_catalog.shop.orders").count())
    rows.createOrReplaceTempView("seen")
    print("view", spark.table("seen").count(), spark.sql("SELECT count(*) FROM seen").first()[0])
    for failing in (
        lambda: DeltaTable.forName(spark, "missing"),
        lambda: DeltaTable.forName(spark, "seen"),
        lambda: rows.write.format("delta").saveAsTable("nowhere.named"),
    ):
        try:
            failing()
        except Exception as error:
            print(type(error).__name__, isinstance(error, AnalysisException))
    spark.sql("DROP TABLE named")
    print("dropped", spark.catalog.tableExists("named"))
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
        "merged 3 0 0 3",
        "again 2 2 0 0",
        "things [(2, 'bb', 4), (3, 'third', 6)]",
        "operations ['DELETE', 'UPDATE', 'MERGE', 'MERGE', 'CREATE TABLE'] 2",
        "packed 1",
        "restored table_size_after_restore",
        "cloned 3",
        "vacuumed [] True",
        "columns True",
        "without pushdown 5",
    ], done.stderr[-3000:]


@pytest.mark.usefixtures("connect_port")
@pytest.mark.slow
def test_names_of_the_session_catalog_work_through_spark_connect(tmp_path):
    done = run(NAMES, tmp_path)
    assert done.stdout.splitlines() == [
        "created True 3",
        "located True",
        "appended 12",
        "overwritten 1",
        "exists TABLE_OR_VIEW_ALREADY_EXISTS",
        "elsewhere 3",
        "other 1 2",
        "made [(1, 'new', None)]",
        "selected Row(sum(id)=12)",
        "merged 6 6",
        "streamed True",
        "by catalog 3",
        "database 3",
        "view 3 3",
        "TableNotFoundError True",
        "TableNotFoundError True",
        "AnalysisException True",
        "dropped False",
    ], done.stderr[-3000:]
