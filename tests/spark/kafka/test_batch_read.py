from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from bayou.errors import ArgumentError, KafkaError
from bayou.spark.kafka import EmbeddedBroker, ProducedRecord
from bayou.spark.kafka.columns import arrow_schema, record_schema


def _read(source):
    reader = pickle.loads(pickle.dumps(source.reader(source.schema())))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches, arrow_schema(source.schema())).to_pylist()


def test_the_arrow_schema_is_exactly_what_spark_expects():
    schema = record_schema(True)
    assert arrow_schema(schema) == to_arrow_schema(schema, timezone="UTC")


def test_records_arrive_whole(broker, source):
    broker.create_topic("whole", 2)
    broker.produce(
        "whole",
        [
            ProducedRecord(b"v", b"k", 0, 1_700_000_000_123, [("h", b"1"), ("empty", None)]),
            ProducedRecord(None, b"gone", 0, 1_700_000_000_124),
            ProducedRecord(b"", None, 1, 1_700_000_000_125),
        ],
    )
    rows = _read(source(subscribe="whole", includeHeaders="true"))
    stamps = [row.pop("timestamp").timestamp() for row in rows]
    assert stamps == [1_700_000_000.123, 1_700_000_000.124, 1_700_000_000.125]
    common = {"topic": "whole", "timestampType": 0}
    headers = [{"key": "h", "value": b"1"}, {"key": "empty", "value": None}]
    assert rows == [
        {"key": b"k", "value": b"v", "partition": 0, "offset": 0, "headers": headers, **common},
        {"key": b"gone", "value": None, "partition": 0, "offset": 1, "headers": None, **common},
        {"key": None, "value": b"", "partition": 1, "offset": 0, "headers": None, **common},
    ]


def test_headers_come_only_when_asked_for(source):
    assert "headers" not in source(subscribe="t").schema().names
    assert source(subscribe="t", includeHeaders="true").schema().names[-1] == "headers"


def test_offsets_bound_what_is_read(broker, source):
    broker.create_topic("bound", 2)
    broker.produce("bound", [ProducedRecord(b"%d" % i, partition=i % 2) for i in range(20)])
    rows = _read(
        source(
            subscribe="bound",
            startingOffsets='{"bound": {"0": 3, "1": -2}}',
            endingOffsets='{"bound": {"0": -1, "1": 4}}',
        )
    )
    offsets = [(row["partition"], row["offset"]) for row in rows]
    assert offsets == [(0, o) for o in range(3, 10)] + [(1, o) for o in range(4)]


def test_a_partition_is_read_by_many_tasks_each_record_once(broker, source):
    broker.create_topic("split", 2)
    broker.produce("split", [ProducedRecord(b"x", partition=int(i > 9)) for i in range(1000)])
    split = source(subscribe="split", minPartitions="7")
    assert len(split.reader(split.schema()).partitions()) == 7
    offsets = {(row["partition"], row["offset"]) for row in _read(split)}
    assert offsets == {(0, o) for o in range(10)} | {(1, o) for o in range(990)}


def test_topics_are_matched_by_pattern_and_partitions_assigned(broker, source):
    for topic in ("match-a", "match-b", "other-match-a"):
        broker.create_topic(topic, 2)
        broker.produce(topic, [ProducedRecord(b"x", partition=p) for p in (0, 1)])
    matched = _read(source(subscribePattern="match-."))
    assert {row["topic"] for row in matched} == {"match-a", "match-b"}
    assigned = _read(source(assign='{"match-a": [1]}'))
    assert [(row["topic"], row["partition"]) for row in assigned] == [("match-a", 1)]


def test_only_the_columns_of_a_users_schema_are_read(broker, source):
    broker.create_topic("narrow")
    broker.produce("narrow", [b"a", b"b"])
    narrow = source(subscribe="narrow")
    schema = StructType([StructField("offset", LongType()), narrow.schema()["value"]])
    reader = narrow.reader(schema)
    (part,) = reader.partitions()
    (batch,) = reader.read(part)
    assert batch.to_pylist() == [{"offset": 0, "value": b"a"}, {"offset": 1, "value": b"b"}]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("values", LongType()), "'values': the Kafka source has no column"),
        (
            StructField("value", StringType()),
            "'value': its type in the Kafka source is binary, not string",
        ),
    ],
)
def test_a_users_schema_must_fit(source, field, message):
    with pytest.raises(ArgumentError, match=message):
        source(subscribe="t").reader(StructType([field]))


def test_an_empty_topic_is_no_partition_and_sparks_stand_in_reads_nothing(broker, source):
    broker.create_topic("empty")
    reader = source(subscribe="empty").reader(source(subscribe="empty").schema())
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_a_topic_that_is_not_there_is_named_and_not_created(broker, source):
    with pytest.raises(KafkaError, match=r"Kafka brokers .*: not found: nowhere"):
        _read(source(subscribe="nowhere"))
    with pytest.raises(KafkaError, match="topic 'nowhere' doesn't exist"):
        broker.watermarks("nowhere")


def test_a_pattern_without_a_match_is_an_error(source):
    with pytest.raises(KafkaError, match=r"no topic matches subscribePattern 'zz.*'"):
        _read(source(subscribePattern="zz.*"))


def test_offsets_must_name_each_partition(broker, source):
    broker.create_topic("each", 2)
    with pytest.raises(ArgumentError, match=r"must contain each partition once.*each-0, each-1"):
        _read(source(subscribe="each", startingOffsets='{"each": {"0": 1}}'))


def test_a_start_behind_the_end_is_refused(broker, source):
    broker.create_topic("behind")
    broker.produce("behind", [b"x"] * 9)
    offsets = {"startingOffsets": '{"behind": {"0": 5}}', "endingOffsets": '{"behind": {"0": 4}}'}
    with pytest.raises(ArgumentError, match="is after endingOffsets"):
        _read(source(subscribe="behind", **offsets))


def test_offsets_outside_of_the_partition_are_lost_records(broker, source):
    broker.create_topic("outside")
    broker.produce("outside", [b"x"] * 9)
    offsets = {"endingOffsets": '{"outside": {"0": 100}}'}
    with pytest.raises(
        KafkaError, match=r"topic 'outside' .*: endingOffsets is .* has offsets 0 to 8"
    ):
        _read(source(subscribe="outside", **offsets))
    assert len(_read(source(subscribe="outside", failOnDataLoss="false", **offsets))) == 9


def test_records_that_retention_deleted_are_reported_or_skipped(broker, source):
    broker.create_topic("retention")
    planned = source(subscribe="retention")
    broker.produce("retention", [b"x"] * 10)
    reader = planned.reader(planned.schema())
    (part,) = reader.partitions()
    raw = {"compression.type": "none", "batch.size": "200000"}
    broker.produce("retention", [bytes(1000)] * 8000, properties=raw, keep_all=False)
    low, _ = broker.watermarks("retention")[0]
    assert low > 10
    with pytest.raises(KafkaError, match="offsets 0 to 9 are missing"):
        list(reader.read(part))
    tolerant = source(subscribe="retention", failOnDataLoss="false")
    assert list(tolerant.reader(planned.schema()).read(part)) == []
    start = {"startingOffsets": '{"retention": {"0": 0}}'}
    with pytest.raises(KafkaError, match=f"is 0, but the partition has offsets {low} to"):
        _read(source(subscribe="retention", **start))


def test_a_broker_that_is_down_at_planning_is_named_in_time(source):
    down = source(
        **{"kafka.bootstrap.servers": "127.0.0.1:9", "kafka.sasl.password": "sesame"},
        **{"subscribe": "t", "kafkaConsumer.pollTimeoutMs": "500"},
    )
    with pytest.raises(KafkaError, match=r"Kafka brokers 127\.0\.0\.1:9: no answer") as caught:
        _read(down)
    assert "sesame" not in str(caught.value)


def test_a_broker_that_goes_down_while_reading_is_named_in_time(source):
    with EmbeddedBroker({"down": 1}) as passing:
        passing.produce("down", [b"x"] * 10)
        servers = passing.bootstrap_servers
        down = source(
            **{"kafka.bootstrap.servers": servers, "subscribe": "down"},
            **{"kafkaConsumer.pollTimeoutMs": "500"},
        )
        reader = down.reader(down.schema())
        (part,) = reader.partitions()
    with pytest.raises(KafkaError, match=f"topic 'down' partition 0: reading offset 0 .*{servers}"):
        list(reader.read(part))


def test_an_unknown_client_property_is_named(source):
    with pytest.raises(ArgumentError, match=r"No such configuration property.*fetch\.wait"):
        _read(source(subscribe="t", **{"kafka.fetch.wait": "1"}))


def test_a_large_record_arrives(broker, source):
    broker.create_topic("large")
    record = bytes(range(256)) * 12_000
    broker.produce("large", [record], properties={"message.max.bytes": "4000000"})
    assert [row["value"] for row in _read(source(subscribe="large"))] == [record]
