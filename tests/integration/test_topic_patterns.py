"""Topics that are created, deleted and created again while a pipeline runs, on real brokers."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import Producer

import bayou
from bayou.ingest.config import load_configuration
from bayou.ingest.runtime import topic_discovery
from support.running_pipelines import Running

pytestmark = [pytest.mark.spark, pytest.mark.server]


def produce(kafka_server, topic, *numbers):
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap_servers})
    for number in numbers:
        producer.produce(topic, json.dumps({"id": number}).encode())
    assert producer.flush(30) == 0


def ids(path):
    return sorted(bayou.table(str(path)).to_arrow(["id"])["id"].to_pylist())


@pytest.mark.slow
def test_a_topic_that_is_created_again_is_not_mixed_with_its_former_records(
    kafka_server, spark, tmp_path, monkeypatch
):
    monkeypatch.setattr(topic_discovery, "INTERVAL", 1.0)
    prefix = f"p{uuid.uuid4().hex[:8]}"
    first, second = f"{prefix}.a", f"{prefix}.b"
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        f"connector:\n  kafka: {{bootstrap-servers: '{kafka_server.bootstrap_servers}'}}\n"
        f"  topics:\n    all:\n      kafka-topic-pattern: '{prefix}[.].'\n"
        "      destination: {table-path: lake/all}\n"
        "      processing: {flush-interval: 0.2, max-retries: 1, restart-interval: 1}\n"
    )
    kafka_server.create_topic(first, 1)
    produce(kafka_server, first, 1)
    running = Running(load_configuration(file, environment={}), spark)
    running.wait(lambda seen: seen.batches)
    kafka_server.create_topic(second, 1)
    produce(kafka_server, second, 2)
    running.wait(lambda seen: len(seen.batches) == 2)
    kafka_server.delete_topic(second)
    running.wait(lambda seen: seen.finished)
    assert running.recorder.finished[0].topic == f"all/{second}"
    kafka_server.create_topic(second, 1)
    produce(kafka_server, second, 3)
    running.wait(
        lambda seen: any("deleted and recreated" in str(end.error) for end in seen.finished)
    )
    kafka_server.add_partitions(first, 3)
    produce(kafka_server, first, *range(10, 40))
    table = tmp_path / "lake" / "all"
    running.wait(lambda seen: len(ids(table)) == 32)
    running.stop()
    assert ids(table) == [1, 2, *range(10, 40)]
