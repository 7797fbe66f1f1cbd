"""The Kafka source and the pipeline start and end at timestamps, on real brokers."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import Producer

import bayou
from bayou.errors import ArgumentError, PipelineError
from bayou.ingest.config import load_configuration
from bayou.ingest.inspection import plan_run
from bayou.spark.kafka.cluster import KafkaCluster
from bayou.spark.kafka.offsets import TopicPartition
from bayou.spark.kafka.options import parse_options
from bayou.spark.kafka.planning import resolve_position
from support.in_process_pipeline import take_in

DAY = 24 * 60 * 60 * 1000
START = 1_767_571_200_000  # 2026-01-05T00:00:00Z


@pytest.fixture
def topic(kafka_server):
    """A topic with two partitions: records of days 0 to 5, and of days 0 and 1."""
    name = f"dated-{uuid.uuid4().hex[:8]}"
    kafka_server.create_topic(name, 2, {"retention.ms": "-1"})  # its records are old
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap_servers})
    for partition, days in ((0, range(6)), (1, range(2))):
        for day in days:
            value = json.dumps({"partition": partition, "day": day}).encode()
            producer.produce(name, value, partition=partition, timestamp=START + day * DAY)
    assert producer.flush(30) == 0
    return name


def positions(kafka_server, topic, bound, **options):
    parsed = parse_options(
        {
            "kafka.bootstrap.servers": kafka_server.bootstrap_servers,
            "subscribe": topic,
            **{name: str(value) for name, value in options.items()},
        }
    )
    position = parsed.starting_offsets if bound == "starting" else parsed.ending_offsets
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    cluster = KafkaCluster(parsed.properties)
    resolved = resolve_position(position, partitions, cluster, parsed, f"{bound}Offsets")
    return [resolved[p] for p in partitions]


def by_partition(topic, *days):
    return json.dumps({topic: {str(p): START + day * DAY for p, day in enumerate(days)}})


def test_timestamps_are_offsets_of_the_first_record_that_is_not_older(kafka_server, topic):
    def starts(**options):
        return positions(kafka_server, topic, "starting", **options)

    assert starts(startingTimestamp=START + DAY) == [1, 1]
    assert starts(startingTimestamp=START + DAY - 1) == [1, 1]
    assert starts(startingTimestamp=0) == [0, 0]
    assert starts(startingOffsetsByTimestamp=by_partition(topic, 5, 0)) == [5, 0]
    # One timestamp for all partitions wins, as in Spark's source.
    both = {"startingTimestamp": START, "startingOffsetsByTimestamp": by_partition(topic, 5, 0)}
    assert starts(**both, startingOffsets="latest") == [0, 0]
    with pytest.raises(ArgumentError, match=rf"{topic}.*1.* has no record at or after .*Strategy"):
        starts(startingTimestamp=START + 3 * DAY)
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert starts(startingTimestamp=START + 3 * DAY, **latest) == [3, 2]
    with pytest.raises(ArgumentError, match="must contain each partition once"):
        starts(startingOffsetsByTimestamp=by_partition(topic, 5))


def test_an_end_without_a_later_record_is_the_end_of_the_partition(kafka_server, topic):
    def ends(**options):
        return positions(kafka_server, topic, "ending", **options)

    assert ends(endingTimestamp=START + 3 * DAY) == [3, 2]
    assert ends(endingOffsetsByTimestamp=by_partition(topic, 1, 1)) == [1, 1]


@pytest.mark.spark
def test_spark_reads_from_one_timestamp_to_another(spark, kafka_server, topic):
    frame = (
        spark.read.format("bayou-kafka")
        .option("kafka.bootstrap.servers", kafka_server.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingTimestamp", str(START + DAY))
        .option("endingTimestamp", str(START + 4 * DAY))
        .load()
    )
    rows = frame.selectExpr("partition", "offset").collect()
    assert sorted(map(tuple, rows)) == [(0, 1), (0, 2), (0, 3), (1, 1)]


@pytest.fixture
def file(kafka_server, topic, tmp_path):
    """Returns a function that writes the configuration with a start."""
    path = tmp_path / "pipeline.yaml"

    def write(start):
        path.write_text(
            f"connector:\n  kafka: {{bootstrap-servers: '{kafka_server.bootstrap_servers}'}}\n"
            f"  topics:\n    dated:\n      kafka-topic: {topic}\n"
            f"      starting-offsets: {start}\n"
            "      destination: {table-path: lake/dated}\n"
        )
        return path

    return write


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2026-01-06T00:00:00Z", {(0, d) for d in range(1, 6)} | {(1, 1)}),
        ("'2026-01-06'", {(0, d) for d in range(1, 6)} | {(1, 1)}),
        ("2026-01-06T02:00:00+02:00", {(0, d) for d in range(1, 6)} | {(1, 1)}),
        ("2026-01-09T00:00:00Z", {(0, 4), (0, 5)}),
        ("{0: 5}", {(0, 5), (1, 0), (1, 1)}),
        ("{0: 6, 1: 1}", {(1, 1)}),
    ],
)
def test_a_first_run_starts_where_the_configuration_says(
    kafka_server, topic, file, tmp_path, start, expected
):
    path = file(start)
    configuration = load_configuration(path, environment={})
    (plan,) = plan_run(configuration, configuration.topics)
    assert plan.records == len(expected)
    assert take_in(path)[0].rows == len(expected)
    rows = bayou.table(str(tmp_path / "lake" / "dated")).to_arrow(columns=["partition", "day"])
    assert {tuple(row.values()) for row in rows.to_pylist()} == expected
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap_servers})
    producer.produce(topic, json.dumps({"partition": 1, "day": 9}).encode(), partition=1)
    assert producer.flush(30) == 0
    assert take_in(file("earliest"))[0].rows == 1  # the table's offsets count from now on


def test_a_start_without_a_record_stays_the_end_of_the_first_run(kafka_server, topic, file):
    path = file("2027-01-01T00:00:00Z")
    assert take_in(path)[0].rows == 0
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap_servers})
    producer.produce(topic, b'{"day": 9}', partition=0, timestamp=START)
    assert producer.flush(30) == 0
    assert take_in(path)[0].rows == 1


def test_a_timestamp_counts_as_long_as_the_table_has_no_offsets(kafka_server, topic, file):
    assert take_in(file("latest"))[0].rows == 0
    assert take_in(file("2026-01-10T00:00:00Z"))[0].rows == 1  # the last record of partition 0
    assert take_in(file("earliest"))[0].rows == 0


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("{0: 7}", "partition 0 of 'dated-.*' has offsets 0 to 6, not 7"),
        ("{2: 0}", "'dated-.*' has no partition 2"),
    ],
)
def test_an_offset_that_the_topic_lacks_is_refused(file, start, message):
    with pytest.raises(PipelineError, match=f"starting-offsets: {message}"):
        take_in(file(start))
