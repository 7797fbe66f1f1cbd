"""What the brokers have no more is believed to the table, and the rest is proven on top of it."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import Producer

import bayou
from bayou.ingest.config import load_configuration
from bayou.ingest.inspection import prove_offsets
from support.in_process_pipeline import take_in


@pytest.fixture
def file(kafka_server, tmp_path):
    """The configuration of an upsert into `t`, whose topic `events` has one partition."""
    topic = f"events-{uuid.uuid4().hex[:8]}"
    kafka_server.create_topic(topic)
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"connector:\n  kafka: {{bootstrap-servers: '{kafka_server.bootstrap_servers}'}}\n"
        f"  topics:\n    events:\n      kafka-topic: {topic}\n      destination:\n"
        "        table-path: t\n        key-columns: [id]\n"
        "        delta-config: {enable-upsert: true}\n"
    )
    return path


def send(kafka_server, file, *rows):
    topic = load_configuration(file, environment={}).topics[0].config.kafka_topic
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap_servers})
    for number, name in rows:
        value = None if name is None else json.dumps({"id": number, "name": name}).encode()
        producer.produce(topic, value, key=json.dumps({"id": number}).encode())
    assert producer.flush(30) == 0
    return topic


@pytest.mark.slow
def test_rows_and_deletes_of_records_that_are_gone_count(kafka_server, file, tmp_path):
    topic = send(kafka_server, file, (1, "a"), (2, "a"), (3, "a"), (3, None))
    take_in(file)
    kafka_server.delete_records(topic, {0: 4})
    send(kafka_server, file, (1, "b"), (4, "b"), (4, None))
    take_in(file)
    configuration = load_configuration(file, environment={})
    found = prove_offsets(configuration, configuration.topics[0])
    assert found.holds
    assert found.partitions[0].rows == 2
    bayou.table(str(tmp_path / "t")).delete("id = 2")
    assert prove_offsets(configuration, configuration.topics[0]).holds  # nobody can know
    bayou.table(str(tmp_path / "t")).delete("id = 1")
    assert not prove_offsets(configuration, configuration.topics[0]).holds
