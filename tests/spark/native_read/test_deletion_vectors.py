import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import bayou
from bayou.spark.native_read import read_planner

pytestmark = pytest.mark.spark


@pytest.fixture
def deleted(tmp_path):
    """A table of three files of 100 rows; 50, 10 and none of them are deleted by vectors."""
    path = str(tmp_path / "t")
    for n in range(3):
        rows = pa.table({"id": pa.array(range(n * 100, n * 100 + 100), pa.int64())})
        properties = None if n else {"delta.enableDeletionVectors": "true"}
        bayou.write(path, rows, mode="append", configuration=properties)
    bayou.table(path).delete("id < 100 AND id % 2 = 0")
    bayou.table(path).delete("id >= 100 AND id < 200 AND id % 10 = 5")
    return path


def left():
    first = [i for i in range(100) if i % 2]
    return [*first, *(i for i in range(100, 200) if i % 10 != 5), *range(200, 300)]


@pytest.mark.slow
def test_deleted_rows_are_left_out_by_a_broadcast_join(spark, deleted):
    frame = spark.read.format("delta").load(deleted)
    assert sorted(r.id for r in frame.collect()) == left()
    assert "BroadcastHashJoin" in frame._jdf.queryExecution().executedPlan().toString()
    assert frame.columns == ["id"]
    assert frame.where("id = 2").count() == 0
    assert frame.where("id = 3").count() == 1
    assert frame.where("id >= 195").count() == 104
    assert frame.select("_metadata.row_index").where("row_index = 4").count() == 2


def test_files_with_too_many_deleted_rows_are_read_by_the_kernel(spark, deleted, monkeypatch):
    _read_by_the_kernel(monkeypatch)
    frame = spark.read.format("delta").load(deleted)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "Union" in plan
    assert "FileScan parquet" in plan
    assert sorted(r.id for r in frame.collect()) == left()
    assert frame.where("id < 200").agg(F.sum("id")).first()[0] == sum(i for i in left() if i < 200)


def test_versions_before_the_vectors_have_all_rows(spark, deleted):
    frame = spark.read.format("delta").option("versionAsOf", 2).load(deleted)
    assert frame.count() == 300
    assert "Join" not in frame._jdf.queryExecution().executedPlan().toString()


def test_the_kernel_reads_timestamp_partitions_in_the_session_s_time_zone(
    spark, tmp_path, monkeypatch
):
    """Other writers store the timestamps of partitions without a time zone."""
    path = str(tmp_path / "t")
    at = dt.datetime(2024, 7, 1, 5, tzinfo=dt.UTC)
    rows = pa.table({"id": list(range(100)), "at": [at] * 100})
    properties = {"delta.enableDeletionVectors": "true"}
    bayou.write(path, rows, partition_by=["at"], configuration=properties)
    log = tmp_path / "t" / "_delta_log"
    commit = log / f"{0:020}.json"
    zoned = commit.read_text()
    commit.write_text(zoned.replace("2024-07-01T05:00:00.000000Z", "2024-07-01 05:00:00"))
    assert commit.read_text() != zoned
    for checksum in log.glob("*.crc"):
        checksum.unlink()
    bayou.table(path).delete("id < 50")
    _read_by_the_kernel(monkeypatch)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.read.format("delta").load(path)
        assert "Union" in frame._jdf.queryExecution().executedPlan().toString()
        assert frame.where("at = TIMESTAMP'2024-07-01 05:00:00'").count() == 50
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_char_values_of_the_kernel_s_rows_are_padded(spark, tmp_path, monkeypatch):
    table = f"delta.`{tmp_path}/t`"
    spark.sql(
        f"CREATE TABLE {table} (id INT, c CHAR(5)) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO {table} SELECT CAST(id AS INT), 'ab' FROM range(100)")
    spark.sql(f"DELETE FROM {table} WHERE id % 2 = 0")
    _read_by_the_kernel(monkeypatch)
    frame = spark.read.format("delta").load(f"{tmp_path}/t").where("c = 'ab'")
    assert "Union" in frame._jdf.queryExecution().executedPlan().toString()
    assert frame.agg(F.count("*"), F.max(F.length("c"))).first() == (50, 5)


def _read_by_the_kernel(monkeypatch):
    """Make the kernel read files with more than 20 deleted rows."""
    heap = 20 * read_planner._BYTES_A_DELETED_ROW
    monkeypatch.setattr(read_planner, "max_heap_bytes", lambda _: heap)
