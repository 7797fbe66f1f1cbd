from __future__ import annotations

import os

import pytest

from bayou.errors import KafkaError
from bayou.spark.kafka import EmbeddedBroker, ProducedRecord, topic_identity


def test_topics_have_the_partitions_asked_for():
    with EmbeddedBroker({"one": 1, "many": 7}, brokers=2) as broker:
        assert len(broker.bootstrap_servers.split(",")) == 2
        assert broker.watermarks("many") == dict.fromkeys(range(7), (0, 0))
        assert len(broker.watermarks("one")) == 1


def test_produced_records_are_counted_and_there(broker):
    broker.create_topic("produced", 3)
    records = [ProducedRecord(b"x", partition=i % 3) for i in range(30)]
    assert broker.produce("produced", iter(records)) == 30
    assert broker.produce("produced", [b"keyless"]) == 1
    assert sum(high for _, high in broker.watermarks("produced").values()) == 31


def test_records_the_broker_drops_are_an_error(broker):
    broker.create_topic("dropped")
    incompressible = [os.urandom(100_000) for _ in range(70)]
    with pytest.raises(KafkaError, match=r"dropped \d+ of the oldest records of topic 'dropped'"):
        broker.produce("dropped", incompressible)


def test_a_topic_exists_once(broker):
    broker.create_topic("once")
    with pytest.raises(
        KafkaError, match=r"topic 'once' with 1 partitions can't be created: .*exist"
    ):
        broker.create_topic("once")


def test_records_for_a_missing_topic_or_partition_are_an_error(broker):
    with pytest.raises(KafkaError, match="topic 'absent' doesn't exist"):
        broker.produce("absent", [b"x"])
    broker.create_topic("present")
    with pytest.raises(KafkaError, match="didn't accept all records of topic 'present'"):
        broker.produce("present", [ProducedRecord(b"x", partition=5)])


def test_a_stopped_broker_says_so_and_stops_twice():
    broker = EmbeddedBroker()
    with pytest.raises(KafkaError, match="isn't running"):
        broker.create_topic("t")
    with broker:
        broker.create_topic("t")
    broker.close()
    with pytest.raises(KafkaError, match="isn't running"):
        broker.produce("t", [b"x"])


def test_a_topics_identity_has_the_cluster_and_no_topic_id_from_a_broker_without_any(broker):
    broker.create_topic("identity")
    cluster, topic = topic_identity(broker.bootstrap_servers, "identity", {"client.id": "test"})
    assert cluster
    assert topic is None


def test_the_identity_of_a_missing_topic_or_broker_is_an_error(broker):
    with pytest.raises(KafkaError, match="'absent': it doesn't exist"):
        topic_identity(broker.bootstrap_servers, "absent")
    with pytest.raises(KafkaError, match="no answer within"):
        topic_identity("127.0.0.1:9", "absent", timeout=0.5)
