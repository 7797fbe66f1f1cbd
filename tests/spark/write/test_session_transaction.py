"""Writes that the session's `txnAppId` and `txnVersion` identify, with the automatic reset."""

from __future__ import annotations

import pytest

import bayou
from bayou.errors import ArgumentError, SchemaError

pytestmark = pytest.mark.spark

NAME = "with_session_transaction"
PREFIX = "spark.databricks.delta.write."
VERSION = f"{PREFIX}txnVersion"


@pytest.fixture
def path(spark, tmp_path):
    path = str(tmp_path / "table")
    spark.sql(f"CREATE TABLE {NAME} (a INT) USING delta LOCATION '{path}'")
    spark.conf.set(f"{PREFIX}txnAppId", "job")
    spark.conf.set(VERSION, "1")
    spark.conf.set(f"{VERSION}.autoReset.enabled", "true")
    yield path
    for key in (f"{PREFIX}txnAppId", VERSION, f"{VERSION}.autoReset.enabled"):
        spark.conf.unset(key)
    spark.sql(f"DROP TABLE IF EXISTS {NAME}")


def rows(path):
    return [tuple(row.values()) for row in bayou.table(path).to_arrow().to_pylist()]


@pytest.mark.parametrize(
    "write",
    [
        lambda frame, path: frame.write.format("delta").mode("append").save(path),
        lambda frame, path: frame.write.format("delta").mode("append").saveAsTable(NAME),
        lambda frame, path: frame.write.insertInto(NAME),
        lambda frame, path: frame.writeTo(NAME).append(),
        lambda frame, path: frame.sparkSession.sql(f"INSERT INTO {NAME} VALUES (1)"),
    ],
)
def test_the_version_of_a_write_is_not_used_by_the_next_write(spark, path, frame, write):
    write(frame, path)
    assert rows(path) == [(1,)]
    assert spark.conf.get(VERSION, None) is None
    with pytest.raises(ArgumentError, match="DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"):
        write(frame, path)
    spark.conf.set(VERSION, "1")
    write(frame, path)  # skipped
    assert rows(path) == [(1,)]
    assert spark.conf.get(VERSION, None) is None
    spark.conf.set(VERSION, "2")
    write(frame, path)
    assert rows(path) == [(1,), (1,)]


def test_a_new_table_uses_up_the_version(spark, path, tmp_path):
    spark.sql(f"CREATE TABLE delta.`{tmp_path / 'new'}` USING delta AS SELECT 1 AS a")
    assert spark.conf.get(VERSION, None) is None


def test_streams_and_new_tables_without_rows_need_no_version(spark, path, tmp_path):
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    spark.conf.unset(VERSION)
    spark.sql(f"CREATE TABLE delta.`{target}` (a INT) USING delta")
    bayou.write(source, spark.sql("SELECT 1 AS a").toArrow())
    stream = spark.readStream.format("delta").load(source).writeStream.format("delta")
    stream = stream.trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path / "c")).start(target).awaitTermination()
    assert rows(target) == [(1,)]


def test_a_write_that_fails_or_has_its_own_version_keeps_the_sessions_version(spark, path, frame):
    writer = frame.write.format("delta").mode("append")
    with pytest.raises(SchemaError):
        spark.sql("SELECT 1 AS b").write.format("delta").mode("append").save(path)
    writer.options(txnAppId="other", txnVersion="5").save(path)
    assert spark.conf.get(VERSION) == "1"


def test_the_version_stays_without_the_automatic_reset(spark, path, frame):
    spark.conf.unset(f"{VERSION}.autoReset.enabled")
    for _ in range(2):
        frame.write.format("delta").mode("append").save(path)
    assert spark.conf.get(VERSION) == "1"
    assert rows(path) == [(1,)]
