"""Daily work as in the documentation of delta-spark; only imports and the session differ."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql.functions import col, expr, lit
from pyspark.sql.functions import max as latest
from pyspark.sql.types import DateType, LongType

from bayou.spark import DeltaTable, IdentityGenerator

pytestmark = pytest.mark.spark


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "people10m")


@pytest.fixture
def tables(spark):
    """Drops the tables that a test creates."""
    yield
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)
        else:
            spark.sql(f"DROP TABLE {table.name}")


@pytest.fixture
def people(spark, path):
    rows = [(1, "F", "1950-05-01", 100), (2, "M", "1958-01-01", 200), (3, "F", "1990-01-01", 300)]
    frame = spark.createDataFrame(rows, "id int, gender string, birthDate string, salary int")
    frame.write.format("delta").save(path)
    return DeltaTable.forPath(spark, path)


def ids(frame):
    return sorted(row.id for row in frame.collect())


def test_quick_start(spark, path):
    data = spark.range(0, 5)
    data.write.format("delta").save(path)
    data = spark.range(5, 10)
    data.write.format("delta").mode("overwrite").save(path)
    deltaTable = DeltaTable.forPath(spark, path)  # noqa: N806
    deltaTable.update(condition=expr("id % 2 == 0"), set={"id": expr("id + 100")})
    deltaTable.delete(condition=expr("id % 2 == 0"))
    newData = spark.range(0, 20)  # noqa: N806
    deltaTable.alias("oldData").merge(
        newData.alias("newData"), "oldData.id = newData.id"
    ).whenMatchedUpdate(set={"id": col("newData.id")}).whenNotMatchedInsert(
        values={"id": col("newData.id")}
    ).execute()
    assert deltaTable.toDF().count() == 20
    df = spark.read.format("delta").option("versionAsOf", 0).load(path)
    assert ids(df) == [0, 1, 2, 3, 4]


def test_tables_are_created_by_name_with_the_writer_and_the_builder(spark, tables):
    df = spark.range(3).selectExpr("id", "CAST(id % 2 AS STRING) AS gender")
    df.write.format("delta").partitionBy("gender").saveAsTable("default.people10m")
    df.write.format("delta").mode("overwrite").saveAsTable("default.people10m")
    DeltaTable.createIfNotExists(spark).tableName("default.people10m").addColumn(
        "id", "INT"
    ).addColumn("lastName", "STRING", comment="surname").execute()
    assert spark.table("default.people10m").count() == 3
    DeltaTable.createOrReplace(spark).tableName("default.people10m").addColumn(
        "id", "INT"
    ).addColumn("lastName", "STRING", comment="surname").property("description", "x").execute()
    assert spark.table("default.people10m").columns == ["id", "lastName"]


def test_generated_columns_partition_a_table(spark, tables):
    DeltaTable.create(spark).tableName("default.events").addColumn("eventId", "BIGINT").addColumn(
        "eventTime", "TIMESTAMP"
    ).addColumn("eventDate", DateType(), generatedAlwaysAs="CAST(eventTime AS DATE)").partitionedBy(
        "eventDate"
    ).execute()
    spark.sql("INSERT INTO default.events (eventId, eventTime) VALUES (1, '2020-10-01 10:00:00')")
    frame = spark.sql("SELECT * FROM default.events WHERE eventTime >= '2020-10-01 00:00:00'")
    assert frame.first().eventDate == dt.date(2020, 10, 1)


def test_identity_columns_count(spark, tables):
    DeltaTable.create().tableName("counted").addColumn(
        "id_col1", dataType=LongType(), generatedAlwaysAs=IdentityGenerator()
    ).addColumn(
        "id_col2", dataType=LongType(), generatedByDefaultAs=IdentityGenerator(start=-1, step=1)
    ).addColumn("v", "STRING").execute()
    spark.sql("INSERT INTO counted (v) VALUES ('a')")
    assert tuple(spark.table("counted").first()) == (1, -1, "a")


def test_time_travel(spark, people, path):
    people.delete("id = 1")
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`")
    latest_version = history.selectExpr("max(version)").collect()
    df = spark.read.format("delta").option("versionAsOf", latest_version[0][0]).load(path)
    assert ids(df) == [2, 3]
    first = history.where("version = 0").selectExpr("CAST(timestamp AS STRING)").first()[0]
    assert ids(spark.read.format("delta").option("timestampAsOf", first).load(path)) == [1, 2, 3]
    assert ids(spark.read.format("delta").load(f"{path}@v0")) == [1, 2, 3]
    assert ids(spark.sql(f"SELECT * FROM delta.`{path}` VERSION AS OF 0")) == [1, 2, 3]
    earlier = spark.read.format("delta").option("versionAsOf", 0).load(path)
    earlier.createOrReplaceTempView("my_table_yesterday")
    spark.sql(
        f"""
        MERGE INTO delta.`{path}` target
        USING my_table_yesterday source
        ON source.id = target.id
        WHEN NOT MATCHED THEN INSERT *
        """
    )
    assert ids(people.toDF()) == [1, 2, 3]
    spark.catalog.dropTempView("my_table_yesterday")


def test_selective_overwrites(spark, path):
    df = spark.range(4).selectExpr("id", "DATE'2017-01-01' + CAST(id AS INT) AS birthDate")
    df.write.format("delta").partitionBy("birthDate").save(path)
    replace_data = df.where("id = 1").selectExpr("id + 10 AS id", "birthDate")
    replace_data.write.format("delta").mode("overwrite").option(
        "replaceWhere", "birthDate >= '2017-01-02' AND birthDate <= '2017-01-02'"
    ).save(path)
    assert ids(spark.read.format("delta").load(path)) == [0, 2, 3, 11]
    df.where("id = 2").selectExpr("id + 10 AS id", "birthDate").write.format("delta").mode(
        "overwrite"
    ).option("partitionOverwriteMode", "dynamic").save(path)
    assert ids(spark.read.format("delta").load(path)) == [0, 3, 11, 12]
    source_data = df.where("id = 3").selectExpr("id + 20 AS id", "birthDate")
    source_data.alias("s").write.format("delta").mode("overwrite").option(
        "targetAlias", "t"
    ).option("replaceOn", "s.birthDate <=> t.birthDate").save(path)
    assert ids(spark.read.format("delta").load(path)) == [0, 11, 12, 23]


def test_writes_that_can_be_repeated_and_annotated(spark, people, path):
    df = spark.createDataFrame([(9, "M", "2000-01-01", 1)], people.toDF().schema)
    for _ in range(2):
        df.write.format("delta").mode("append").option("txnVersion", 1).option(
            "txnAppId", "daily-etl"
        ).option("maxRecordsPerFile", "10000").option("userMetadata", "fixing").save(path)
    assert ids(people.toDF()) == [1, 2, 3, 9]
    assert people.history(1).first().userMetadata == "fixing"


def test_schemas_evolve_and_are_replaced(spark, tables):
    spark.range(2).write.format("delta").saveAsTable("target_table")
    spark.range(2, 4).withColumn("extra", lit("x")).write.format("delta").saveAsTable(
        "source_table"
    )
    spark.read.table("source_table").write.option("mergeSchema", "true").mode("append").saveAsTable(
        "target_table"
    )
    assert spark.table("target_table").columns == ["id", "extra"]
    spark.read.table("target_table").withColumnRenamed("extra", "more").write.format("delta").mode(
        "overwrite"
    ).option("overwriteSchema", "true").saveAsTable("target_table")
    assert spark.table("target_table").columns == ["id", "more"]


def test_rows_are_deleted_and_updated(people):
    people.delete("birthDate < '1955-01-01'")
    people.delete(col("birthDate") < "1960-01-01")
    people.update(condition="gender = 'F'", set={"gender": "'Female'"})
    people.update(condition=col("gender") == "M", set={"gender": lit("Male")})
    assert [row.gender for row in people.toDF().collect()] == ["Female"]


def test_rows_are_upserted_and_deleted_by_a_source(spark, people):
    updates = spark.createDataFrame(
        [(1, "F", "1950-05-01", 150), (7, "M", "1999-01-01", 700)], people.toDF().schema
    )
    people.alias("people").merge(
        updates.alias("updates"), "people.id = updates.id"
    ).whenMatchedUpdate(set={"id": "updates.id", "salary": "updates.salary"}).whenNotMatchedInsert(
        values={
            "id": "updates.id",
            "gender": "updates.gender",
            "birthDate": "updates.birthDate",
            "salary": "updates.salary",
        }
    ).execute()
    assert ids(people.toDF()) == [1, 2, 3, 7]
    people.alias("target").merge(
        updates.alias("source"), "source.id = target.id"
    ).whenMatchedUpdateAll().whenNotMatchedInsertAll().whenNotMatchedBySourceDelete().execute()
    assert sorted(row.salary for row in people.toDF().collect()) == [150, 700]


def test_new_logs_are_deduplicated(spark, path):
    logs = spark.sql("SELECT 1L AS uniqueId, current_date() AS date")
    logs.write.format("delta").partitionBy("date").save(path)
    newDedupedLogs = spark.sql(  # noqa: N806
        "SELECT * FROM VALUES (1L, current_date()), (2L, current_date()) AS t(uniqueId, date)"
    )
    DeltaTable.forPath(spark, path).alias("logs").merge(
        newDedupedLogs.alias("newDedupedLogs"),
        "logs.uniqueId = newDedupedLogs.uniqueId AND logs.date > current_date() - INTERVAL 7 DAYS",
    ).whenNotMatchedInsertAll("newDedupedLogs.date > current_date() - INTERVAL 7 DAYS").execute()
    assert spark.read.format("delta").load(path).count() == 2


def test_slowly_changing_dimensions(spark, path):
    columns = "customerId int, address string, current boolean, effectiveDate date, endDate date"
    day = dt.date(2020, 1, 1)
    spark.createDataFrame([(1, "old", True, day, None)], columns).write.format("delta").save(path)
    customersTable = DeltaTable.forPath(spark, path)  # noqa: N806
    updatesDF = spark.createDataFrame(  # noqa: N806
        [(1, "new", dt.date(2021, 1, 1)), (2, "first", dt.date(2021, 1, 1))],
        "customerId int, address string, effectiveDate date",
    )
    newAddressesToInsert = (  # noqa: N806
        updatesDF.alias("updates")
        .join(customersTable.toDF().alias("customers"), "customerid")
        .where("customers.current = true AND updates.address <> customers.address")
    )
    stagedUpdates = newAddressesToInsert.selectExpr("NULL as mergeKey", "updates.*").union(  # noqa: N806
        updatesDF.selectExpr("customerId as mergeKey", "*")
    )
    customersTable.alias("customers").merge(
        stagedUpdates.alias("staged_updates"), "customers.customerId = mergeKey"
    ).whenMatchedUpdate(
        condition="customers.current = true AND customers.address <> staged_updates.address",
        set={"current": "false", "endDate": "staged_updates.effectiveDate"},
    ).whenNotMatchedInsert(
        values={
            "customerid": "staged_updates.customerId",
            "address": "staged_updates.address",
            "current": "true",
            "effectiveDate": "staged_updates.effectiveDate",
            "endDate": "null",
        }
    ).execute()
    rows = {(r.customerId, r.address, r.current) for r in customersTable.toDF().collect()}
    assert rows == {(1, "old", False), (1, "new", True), (2, "first", True)}


def test_changes_are_applied(spark, path):
    spark.createDataFrame([("a", 0), ("b", 1)], "key string, value int").write.format("delta").save(
        path
    )
    deltaTable = DeltaTable.forPath(spark, path)  # noqa: N806
    changesDF = spark.createDataFrame(  # noqa: N806
        [("a", 1, 10, False), ("a", 2, None, True), ("c", 3, 30, False)],
        "key string, time int, newValue int, deleted boolean",
    )
    latestChangeForEachKey = (  # noqa: N806
        changesDF.selectExpr("key", "struct(time, newValue, deleted) as otherCols")
        .groupBy("key")
        .agg(latest("otherCols").alias("latest"))
        .select("key", "latest.*")
    )
    deltaTable.alias("t").merge(
        latestChangeForEachKey.alias("s"), "s.key = t.key"
    ).whenMatchedDelete(condition="s.deleted = true").whenMatchedUpdate(
        set={"key": "s.key", "value": "s.newValue"}
    ).whenNotMatchedInsert(
        condition="s.deleted = false", values={"key": "s.key", "value": "s.newValue"}
    ).execute()
    assert {tuple(row) for row in deltaTable.toDF().collect()} == {("b", 1), ("c", 30)}


def test_a_stream_is_upserted_in_foreach_batch(spark, path, tmp_path):
    spark.range(5).selectExpr("id AS key", "0L AS value").write.format("delta").save(path)
    deltaTable = DeltaTable.forPath(spark, path)  # noqa: N806
    source = str(tmp_path / "source")
    spark.range(3, 8).selectExpr("id AS key", "1L AS value").write.format("delta").save(source)

    def upsertToDelta(microBatchOutputDF, batchId):  # noqa: N802, N803
        deltaTable.alias("t").merge(
            microBatchOutputDF.alias("s"), "s.key = t.key"
        ).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    (
        spark.readStream.format("delta")
        .load(source)
        .writeStream.format("delta")
        .foreachBatch(upsertToDelta)
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
        .awaitTermination(120)
    )
    assert deltaTable.toDF().where("value = 1").count() == 5


def test_streams_read_and_write_tables(spark, tables, path, tmp_path):
    spark.range(6).selectExpr("id", "id % 2 AS customerId").write.format("delta").saveAsTable(
        "delta_source_table"
    )
    DeltaTable.create(spark).tableName("output_table").addColumn("id", "LONG").addColumn(
        "customerId", "LONG"
    ).execute()
    (
        spark.readStream.table("delta_source_table")
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .toTable("output_table")
        .awaitTermination(120)
    )
    assert spark.table("output_table").count() == 6
    (
        spark.readStream.option("ignoreDeletes", "true")
        .option("maxFilesPerTrigger", 1)
        .table("delta_source_table")
        .groupBy("customerId")
        .count()
        .writeStream.format("delta")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "by-customer"))
        .trigger(availableNow=True)
        .start(path)
        .awaitTermination(120)
    )
    assert spark.read.format("delta").load(path).count() == 2


def test_the_change_data_feed_is_read(spark, tables, tmp_path):
    spark.sql(
        "CREATE TABLE myDeltaTable (id INT, v STRING) USING delta "
        "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    spark.sql("INSERT INTO myDeltaTable VALUES (1, 'a'), (2, 'b')")
    DeltaTable.forName(spark, "myDeltaTable").update("id = 1", {"v": "'c'"})
    changes = (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", 0)
        .option("endingVersion", 10)
        .table("myDeltaTable")
    )
    kinds = sorted(row._change_type for row in changes.collect())
    assert kinds == ["insert", "insert", "update_postimage", "update_preimage"]
    assert spark.sql("SELECT * FROM table_changes('myDeltaTable', 2)").count() == 2
    stream = (
        spark.readStream.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", 0)
        .table("myDeltaTable")
    )
    out = str(tmp_path / "changes")
    stream.writeStream.format("delta").option("checkpointLocation", out + "-state").trigger(
        availableNow=True
    ).start(out).awaitTermination(120)
    assert spark.read.format("delta").load(out).count() == 4


def test_files_are_optimized_and_vacuumed(spark, path):
    for day in ("2021-11-17", "2021-11-18", "2021-11-18"):
        spark.range(3).selectExpr("id", f"'{day}' AS date", "id AS eventType").write.format(
            "delta"
        ).partitionBy("date").mode("append").save(path)
    deltaTable = DeltaTable.forPath(spark, path)  # noqa: N806
    done = deltaTable.optimize().where("date='2021-11-18'").executeCompaction()
    assert done.first().metrics.numFilesAdded == 1
    deltaTable.optimize().executeZOrderBy("eventType")
    spark.sql(f"OPTIMIZE delta.`{path}` WHERE date = '2021-11-18' ZORDER BY (eventType)")
    deltaTable.vacuum()
    deltaTable.vacuum(1000)
    assert spark.sql(f"VACUUM delta.`{path}` RETAIN 1000 HOURS DRY RUN").count() == 0
    assert deltaTable.toDF().count() == 9


def test_history_detail_restore_and_manifests(spark, people, path):
    people.delete("id = 1")
    assert people.history().count() == 2
    assert people.history(1).first().operation == "DELETE"
    assert people.detail().first().format == "delta"
    people.restoreToVersion(0)
    assert people.toDF().count() == 3
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    assert people.toDF().count() == 2
    people.generate("symlink_format_manifest")


def test_clones_and_converted_tables(spark, people, path, tmp_path):
    clone = str(tmp_path / "clone")
    spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{path}` VERSION AS OF 0")
    assert DeltaTable.forPath(spark, clone).toDF().count() == 3
    parquet = str(tmp_path / "parquet")
    spark.range(4).selectExpr("id", "CAST(id % 2 AS INT) AS part").write.partitionBy(
        "part"
    ).parquet(parquet)
    converted = DeltaTable.convertToDelta(spark, f"parquet.`{parquet}`", "part int")
    assert converted.toDF().where("part = 1").count() == 2


def test_constraints_column_mapping_and_features(spark, people, path):
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT paid CHECK (salary > 0)")
    with pytest.raises(Exception, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        people.update(set={"salary": "-1"})
    spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT paid")
    spark.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.minReaderVersion' = '2', "
        "'delta.minWriterVersion' = '5', 'delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN salary TO pay")
    spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN birthDate")
    people.addFeatureSupport("deletionVectors")
    people.dropFeatureSupport("deletionVectors")
    assert people.toDF().columns == ["id", "gender", "pay"]
    spark.sql(f"ALTER TABLE delta.`{path}` CLUSTER BY (id)")
    assert people.detail().first().clusteringColumns == ["id"]
