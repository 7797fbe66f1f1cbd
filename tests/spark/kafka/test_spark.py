"""The source as a stock Spark finds and runs it."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest
from pyspark.errors import PySparkException

from bayou.spark.kafka import EmbeddedBroker, ProducedRecord

pytestmark = pytest.mark.spark

_SECRET = {"kafka.sasl.username": "ann", "kafka.sasl.password": "open-sesame"}


def _load(reader, broker, topic, **options):
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, **_SECRET}
    return reader.format("bayou-kafka").options(**given, **options).load()


def _run(spark, broker, topic, checkpoint, **options):
    """Runs a stream to the end of what is there; the (partition, offset) pairs of each batch."""
    batches = []

    def keep(frame, number):
        batches.append([tuple(row) for row in frame.select("partition", "offset").collect()])

    stream = _load(spark.readStream, broker, topic, startingOffsets="earliest", **options)
    query = (
        stream.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches


def test_a_batch_query_reads_every_record_with_its_key_headers_and_tombstones(spark, broker):
    broker.create_topic("batch", 3)
    broker.produce(
        "batch",
        [
            ProducedRecord(
                None if i % 5 == 0 else b"v%d" % i,
                None if i % 3 == 0 else b"k%d" % i,
                i % 3,
                1_700_000_000_000 + i,
                [("h", b"%d" % i), ("empty", None)] if i % 2 else None,
            )
            for i in range(300)
        ],
    )
    frame = _load(spark.read, broker, "batch", includeHeaders="true", minPartitions="8")
    assert frame.rdd.getNumPartitions() >= 8
    frame.createOrReplaceTempView("batch")
    (counts,) = spark.sql(
        """
        SELECT count(*), count(DISTINCT partition, offset), count(value), count(key),
               count(headers), count_if(headers[0].key = 'h' AND headers[1].value IS NULL),
               max(unix_millis(timestamp)), max(timestampType)
        FROM batch
        """
    ).collect()
    assert tuple(counts) == (300, 300, 240, 200, 150, 150, 1_700_000_000_299, 0)


def test_a_stream_goes_on_exactly_where_its_checkpoint_ends(spark, broker, tmp_path):
    broker.create_topic("stream", 2)
    broker.produce("stream", [ProducedRecord(b"x", partition=i % 2) for i in range(100)])
    batches = _run(spark, broker, "stream", tmp_path, maxOffsetsPerTrigger="40")
    assert [len(batch) for batch in batches] == [40, 40, 20]
    read = [pair for batch in batches for pair in batch]
    assert sorted(read) == [(p, o) for p in range(2) for o in range(50)]
    assert _run(spark, broker, "stream", tmp_path) == []
    broker.produce("stream", [ProducedRecord(b"x", partition=1)] * 3)
    assert _run(spark, broker, "stream", tmp_path, minOffsetsPerTrigger="50") == [
        [(1, 50), (1, 51), (1, 52)]
    ]


@pytest.mark.slow
def test_a_batch_that_failed_is_read_again_with_the_same_offsets(spark, broker, tmp_path):
    broker.create_topic("again", 1)
    broker.produce("again", [b"x"] * 10)
    stream = _load(spark.readStream, broker, "again", startingOffsets="earliest")

    def fail(frame, number):
        raise ValueError("on purpose")

    query = (
        stream.writeStream.foreachBatch(fail)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(PySparkException, match="on purpose"):
        query.awaitTermination()
    broker.produce("again", [b"x"] * 5)
    batches = _run(spark, broker, "again", tmp_path)
    assert [len(batch) for batch in batches] == [10, 5]


@pytest.mark.slow
def test_secrets_are_in_no_plan_and_no_error(spark, broker):
    broker.create_topic("secret")
    shown = io.StringIO()
    with redirect_stdout(shown):
        _load(spark.read, broker, "secret").explain(extended=True)
    assert "bayou-kafka" in shown.getvalue()
    assert "open-sesame" not in shown.getvalue()
    with pytest.raises(PySparkException, match="Kafka brokers .*: not found") as caught:
        _load(spark.read, broker, "nowhere").count()
    assert "open-sesame" not in str(caught.value)


def test_a_wrong_option_is_an_error_at_load(spark, broker: EmbeddedBroker):
    with pytest.raises(PySparkException, match="Did you mean maxOffsetsPerTrigger"):
        _load(spark.readStream, broker, "t", maxOffsetPerTrigger="1")
