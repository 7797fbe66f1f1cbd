"""What a session's conf says reaches the data source, which can't see it."""

from __future__ import annotations

import datetime as dt
import os

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.spark import enable
from bayou.spark.native_read.read_planner import READER
from support.log_writer import LogWriter, add, metadata, protocol


@pytest.fixture
def enabled(spark):
    enable(spark)  # which it is already
    yield spark
    spark.conf.unset("bayou.streaming.maxInitialSnapshotFileCount")
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_partition_values_without_zone_are_in_the_sessions_time_zone(enabled, tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1]}))
    (name,) = (p.name for p in (tmp_path / "t").glob("*.parquet"))
    log = LogWriter(ArrowEngine(), path)
    log.commit(
        protocol(),
        metadata({"id": "long", "at": "timestamp"}, ["at"]),
        add(
            name,
            partition_values={"at": "2024-07-01 00:30:00"},
            size=(tmp_path / "t" / name).stat().st_size,
        ),
        version=0,
    )
    hours = []
    for zone in ("UTC", "Europe/Berlin", "-03:00"):
        enabled.conf.set("spark.sql.session.timeZone", zone)
        for reader in ("native", "source"):
            enabled.conf.set(READER, reader)
            read = enabled.read.format("delta").load(path)
            (row,) = read.selectExpr("unix_seconds(at) AS s").collect()
            hours.append(dt.datetime.fromtimestamp(row.s, dt.UTC).hour)
        enabled.conf.unset(READER)
    assert hours == [0, 0, 22, 22, 3, 3]
    without = enabled.read.format("delta").option("bayou.timeZone", "UTC").load(path)
    assert without.selectExpr("unix_seconds(at) % 86400 AS s").first().s == 1800


@pytest.mark.slow
def test_times_in_options_are_in_the_sessions_time_zone_through_every_reader(enabled, tmp_path):
    path = str(tmp_path / "t")
    properties = {"delta.enableChangeDataFeed": "true"}
    for n in range(3):
        rows = pa.table({"id": [n]})
        bayou.write(path, rows, **({} if n else {"configuration": properties}))
        commit = tmp_path / "t" / "_delta_log" / f"{n:020}.json"
        noon = dt.datetime(2024, 7, 1, 12 + n, tzinfo=dt.UTC).timestamp()
        os.utime(commit, (noon, noon))
    enabled.conf.set("spark.sql.session.timeZone", "-03:00")  # 09:00, 10:00, 11:00

    def read(**options):
        return enabled.read.format("delta").options(**options).load(path).count()

    counts = []
    for reader in ("native", "source"):
        enabled.conf.set(READER, reader)
        counts += [read(timestampAsOf="2024-07-01 10:30:00")]
        counts += [read(timestampAsOf="2024-07-01 12:30:00Z")]
        counts += [
            enabled.sql(
                f"SELECT * FROM delta.`{path}` TIMESTAMP AS OF '2024-07-01 10:30:00'"
            ).count()
        ]
    enabled.conf.unset(READER)
    assert counts == [2, 1, 2] * 2
    feed = {"readChangeFeed": "true", "endingTimestamp": "2024-07-01 10:30:00"}
    assert read(startingTimestamp="2024-07-01 09:30:00", **feed) == 1
    query = (
        enabled.readStream.format("delta")
        .option("startingTimestamp", "2024-07-01 09:30:00")
        .load(path)
        .writeStream.format("memory")
        .queryName("zoned")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    assert sorted(row.id for row in enabled.table("zoned").collect()) == [1, 2]


@pytest.mark.slow
def test_a_stream_over_more_files_than_the_conf_allows_is_refused(enabled, tmp_path):
    path = str(tmp_path / "t")
    for _ in range(3):
        bayou.write(path, pa.table({"id": [1]}))
    name = "spark.databricks.delta.streaming.maxFilesPerTrigger.maxInitialSnapshotFileCount"
    enabled.conf.set("bayou.streaming.maxInitialSnapshotFileCount", "2")

    def begin():
        query = (
            enabled.readStream.format("delta")
            .load(path)
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)

    with pytest.raises(
        StreamingQueryException, match=r"version 2 has 3 files.*limited to 2"
    ) as caught:
        begin()
    assert name in str(caught.value)
    enabled.conf.set("bayou.streaming.maxInitialSnapshotFileCount", "3")
    begin()
