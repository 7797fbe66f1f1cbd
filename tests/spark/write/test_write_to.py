"""`df.writeTo` for Delta tables, by name and by path."""

from __future__ import annotations

import uuid

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions

from bayou.errors import (
    ArgumentError,
    ConstraintViolationError,
    TableAlreadyExistsError,
    TableNotFoundError,
)

pytestmark = pytest.mark.spark


@pytest.fixture
def name(spark):
    name = f"written_to_{uuid.uuid4().hex}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def rows(spark, name):
    return sorted(tuple(row) for row in spark.table(name).collect())


def test_a_name_is_made_appended_to_overwritten_and_replaced(spark, name):
    frame = spark.sql("SELECT id, id % 2 AS part FROM range(4)")
    frame.writeTo(name).using("delta").partitionedBy(functions.col("part")).tableProperty(
        "delta.enableDeletionVectors", "true"
    ).create()
    assert rows(spark, name) == [(0, 0), (1, 1), (2, 0), (3, 1)]
    with pytest.raises(TableAlreadyExistsError, match="written_to"):
        frame.writeTo(name).using("delta").create()
    spark.sql("SELECT 'x' AS other, 5 AS part, 9 AS id").drop("other").writeTo(name).append()
    spark.sql("SELECT 7 AS id, 1 AS part").writeTo(name).overwritePartitions()
    assert rows(spark, name) == [(0, 0), (2, 0), (7, 1), (9, 5)]
    new = spark.sql("SELECT 8L AS id, 0L AS part")
    with pytest.raises(ConstraintViolationError, match="part = 0, id = 8"):
        new.writeTo(name).overwrite((functions.col("part") == 0) & (functions.col("id") < 2))
    new.writeTo(name).overwrite((functions.col("part") == 0) & (functions.col("id") != 2))
    assert rows(spark, name) == [(2, 0), (7, 1), (8, 0), (9, 5)]
    new.writeTo(name).overwrite(functions.lit(True))
    assert rows(spark, name) == [(8, 0)]
    spark.sql("SELECT 'a' AS word").writeTo(name).createOrReplace()
    detail = spark.sql(f"DESCRIBE DETAIL {name}").first()
    assert (rows(spark, name), detail.partitionColumns) == ([("a",)], [])
    assert detail.properties == {}
    new.writeTo(name).using("delta").tableProperty("a", "b").createOrReplace()
    assert spark.sql(f"DESCRIBE DETAIL {name}").first().properties == {"a": "b"}
    operations = [h.operation for h in spark.sql(f"DESCRIBE HISTORY {name}").collect()]
    assert operations[:2] == ["CREATE OR REPLACE TABLE AS SELECT"] * 2
    assert operations[-2:] == ["WRITE", "CREATE TABLE AS SELECT"]


def test_a_path_is_written_to(spark, tmp_path):
    name = f"delta.`{tmp_path}/t`"
    with pytest.raises(TableNotFoundError, match="createOrReplace"):
        spark.range(3).writeTo(name).replace()
    spark.range(3).writeTo(name).using("delta").createOrReplace()
    spark.range(3, 5).writeTo(name).option("userMetadata", "more").append()
    assert rows(spark, name) == [(0,), (1,), (2,), (3,), (4,)]
    history = spark.sql(f"DESCRIBE HISTORY {name}").collect()
    assert history[0].userMetadata == "more"


def test_what_cannot_be_is_said(spark, name, tmp_path):
    frame = spark.range(3)
    path = f"delta.`{tmp_path}/t`"
    with pytest.raises(ArgumentError, match="generated column"):
        frame.writeTo(name).using("delta").partitionedBy(
            functions.partitioning.bucket(4, "id")
        ).create()
    frame.writeTo(path).create()
    with pytest.raises(ArgumentError, match="condition"):
        frame.writeTo(path).overwrite(functions.udf(lambda i: i > 1, "boolean")("id"))


def test_other_formats_and_names_are_sparks(spark, name):
    with pytest.raises(AnalysisException, match="written_to"):
        spark.range(3).writeTo(name).append()
    spark.range(3).writeTo(name).using("parquet").create()
    assert spark.table(name).count() == 3


@pytest.mark.parametrize("way", ["writeTo", "option", "insert"])
def test_times_of_a_condition_are_of_the_sessions_time_zone(spark, tmp_path, way):
    table = f"{tmp_path}/t"
    hours = "SELECT timestamp'2024-06-01 00:00:00Z' + make_dt_interval(0, id) AS ts FROM range(5)"
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        spark.sql(hours).write.format("delta").save(table)
        new = spark.sql("SELECT timestamp'2024-06-01 04:00:00' AS ts")  # 02:00 of UTC
        if way == "writeTo":
            since = functions.col("ts") >= functions.expr("timestamp'2024-06-01 04:00:00'")
            new.writeTo(f"delta.`{table}`").overwrite(since)
        elif way == "option":
            writer = new.write.format("delta").mode("overwrite")
            writer.option("replaceWhere", "ts >= '2024-06-01 04:00:00'").save(table)
        else:
            spark.sql(
                f"INSERT INTO delta.`{table}` REPLACE WHERE ts >= '2024-06-01 04:00:00' "
                "SELECT timestamp'2024-06-01 04:00:00' AS ts"
            )
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    found = [row.h for row in spark.sql(f"SELECT hour(ts) AS h FROM delta.`{table}`").collect()]
    assert sorted(found) == [0, 1, 2]


def test_a_table_at_another_location_is_not_replaced(spark, name, tmp_path):
    path = str(tmp_path / "t")
    spark.range(2).writeTo(name).using("delta").option("path", path).create()
    replacing = spark.range(5)
    for method in ("replace", "createOrReplace"):
        writer = replacing.writeTo(name).using("delta").option("path", str(tmp_path / "other"))
        with pytest.raises(ArgumentError, match="doesn't match the specified location"):
            getattr(writer, method)()
    assert len(rows(spark, name)) == 2
    replacing.writeTo(name).using("delta").option("path", f"file:{path}/").createOrReplace()
    assert len(rows(spark, name)) == 5
