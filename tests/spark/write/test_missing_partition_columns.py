"""Rows without a partition column: an error where delta-spark raises one, otherwise NULL."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.functions import lit

import bayou
from bayou.spark import DeltaTable, disable, enable

pytestmark = pytest.mark.spark

NAME = "without_partition_column"


@pytest.fixture
def path(spark, tmp_path):
    path = str(tmp_path / "table")
    spark.sql(
        f"CREATE TABLE {NAME} (a INT, p INT) USING delta PARTITIONED BY (p) LOCATION '{path}'"
    )
    yield path
    spark.sql(f"DROP TABLE IF EXISTS {NAME}")


def rows(path):
    return [tuple(row.values()) for row in bayou.table(path).to_arrow().to_pylist()]


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("append", {}),
        ("append", {"mergeSchema": "true"}),
        ("overwrite", {}),
        ("overwrite", {"replaceWhere": "p = 1"}),
        ("overwrite", {"partitionOverwriteMode": "dynamic"}),
    ],
)
@pytest.mark.parametrize("hooks", [True, False])
def test_a_write_to_a_path_is_refused(spark, path, frame, mode, options, hooks):
    if not hooks:
        disable(spark)
    try:
        with pytest.raises(AnalysisException if hooks else Exception) as raised:
            frame.write.format("delta").mode(mode).options(**options).save(path)
    finally:
        enable(spark)
    assert (
        f"{path}: the rows lack the partition column 'p' (DELTA_PARTITION_COLUMN_NOT_FOUND). Their "
        "columns are a. Add the column to the rows."
    ) in str(raised.value)
    assert bayou.table(path).version() == 0


def test_rows_with_other_spellings_of_the_column_are_written(spark, path):
    spark.sql("SELECT 1 AS a, 2 AS P").write.format("delta").mode("append").save(path)
    assert rows(path) == [(1, 2)]


def test_an_overwrite_of_partitions_is_refused(spark, path, frame):
    with pytest.raises(AnalysisException, match="DELTA_PARTITION_COLUMN_NOT_FOUND"):
        frame.writeTo(NAME).overwritePartitions()
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        with pytest.raises(AnalysisException, match="DELTA_PARTITION_COLUMN_NOT_FOUND"):
            spark.sql(f"INSERT OVERWRITE {NAME} (a) VALUES (1)")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_a_new_table_is_not_partitioned_by_a_column_that_the_rows_lack(frame, tmp_path):
    with pytest.raises(AnalysisException, match="DELTA_PARTITION_COLUMN_NOT_FOUND"):
        frame.write.format("delta").partitionBy("p").save(str(tmp_path / "new"))


@pytest.mark.parametrize(
    "write",
    [
        lambda frame: frame.write.format("delta").mode("append").saveAsTable(NAME),
        lambda frame: frame.writeTo(NAME).append(),
        lambda frame: frame.writeTo(NAME).overwrite(lit(True)),
        lambda frame: frame.sparkSession.sql(f"INSERT INTO {NAME} (a) VALUES (1)"),
        lambda frame: frame.sparkSession.sql(f"INSERT INTO {NAME} BY NAME SELECT 1 AS a"),
        lambda frame: frame.sparkSession.sql(f"INSERT OVERWRITE {NAME} (a) VALUES (1)"),
        lambda frame: frame.sparkSession.sql(f"INSERT OVERWRITE {NAME} BY NAME SELECT 1 AS a"),
    ],
)
def test_a_write_by_name_writes_null(path, frame, write):
    write(frame)
    assert rows(path) == [(1, None)]


def test_a_stream_is_refused(spark, path, tmp_path):
    source = str(tmp_path / "source")
    bayou.write(source, spark.range(3).selectExpr("id AS a").toArrow())
    stream = spark.readStream.format("delta").load(source).selectExpr("CAST(a AS INT) AS a")
    writer = stream.writeStream.format("delta").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(path)
    with pytest.raises(StreamingQueryException, match="DELTA_PARTITION_COLUMN_NOT_FOUND"):
        query.awaitTermination()
    assert rows(path) == []


@pytest.mark.parametrize(
    ("partition", "value"),
    [({"generatedAlwaysAs": "a + 1"}, 2), ({"default": "7"}, 7)],
)
def test_a_column_that_writers_compute_may_be_missing(spark, frame, tmp_path, partition, value):
    path = str(tmp_path / "computed")
    if "default" in partition:
        spark.sql(
            f"CREATE TABLE delta.`{path}` (a INT, p INT DEFAULT 7) USING delta PARTITIONED BY (p) "
            "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
        )
    else:
        builder = DeltaTable.create(spark).location(path).addColumn("a", "INT")
        builder.addColumn("p", "INT", **partition).partitionedBy("p").execute()
    frame.write.format("delta").mode("append").save(path)
    frame.write.format("delta").mode("append").saveAsTable(f"delta.`{path}`")
    assert rows(path) == [(1, value)] * 2
