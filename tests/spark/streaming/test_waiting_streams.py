"""`startingVersion` `latest` waits for a commit after `enable`, as delta-spark does."""

from __future__ import annotations

import pyarrow as pa
import pytest

import bayou
from bayou.spark.streaming import waiting_streams


def started(frame, checkpoint, batches, trigger=None):
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(
        lambda rows, number: batches.append((number, sorted(row.id for row in rows.collect())))
    )
    return (writer if trigger is None else writer.trigger(**trigger)).start()


def latest(spark, table):
    return spark.readStream.format("delta").option("startingVersion", "latest").load(table)


def test_the_first_batch_is_that_of_the_first_commit(spark, tmp_path):
    table, batches = str(tmp_path / "t"), []
    bayou.write(table, pa.table({"id": [1]}))
    query = started(latest(spark, table), tmp_path / "checkpoint", batches)
    try:
        query.processAllAvailable()
        assert batches == []
        assert not list((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
        bayou.write(table, pa.table({"id": [2]}))
        query.processAllAvailable()
        assert batches == [(0, [2])]
    finally:
        query.stop()


def test_what_is_there_now_ends_at_once_without_a_batch_and_goes_on_later(spark, tmp_path):
    table, batches = str(tmp_path / "t"), []
    bayou.write(table, pa.table({"id": [1]}))
    frame = latest(spark, table)
    query = started(frame, tmp_path / "checkpoint", batches, {"availableNow": True})
    assert query.awaitTermination(60)
    assert query.exception() is None
    assert batches == []


@pytest.mark.slow
def test_a_stream_beside_another_one_waits_alone(spark, tmp_path):
    table, other, batches = str(tmp_path / "t"), str(tmp_path / "u"), []
    bayou.write(table, pa.table({"id": [1]}))
    bayou.write(other, pa.table({"id": [7]}))
    both = latest(spark, table).union(spark.readStream.format("delta").load(other))
    query = started(both, tmp_path / "checkpoint", batches)
    try:
        query.processAllAvailable()
        assert batches == [(0, [7])]
        bayou.write(table, pa.table({"id": [2]}))
        query.processAllAvailable()
        assert batches == [(0, [7]), (1, [2])]
    finally:
        query.stop()


@pytest.mark.slow
def test_where_spark_can_not_be_told_the_first_batch_is_empty(spark, tmp_path, monkeypatch):
    table, batches = str(tmp_path / "t"), []
    bayou.write(table, pa.table({"id": [1]}))
    monkeypatch.setattr(waiting_streams, "set_start_offset", lambda *_: False)
    query = started(latest(spark, table), tmp_path / "checkpoint", batches, {"availableNow": True})
    assert query.awaitTermination(60)
    assert batches == [(0, [])]
