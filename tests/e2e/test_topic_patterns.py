"""Several topics in one pipeline, some of which appear while it runs."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from bayou.ingest.config import load_configuration
from bayou.ingest.runtime import topic_discovery
from bayou.spark.kafka import EmbeddedBroker
from support.running_pipelines import Running

pytestmark = pytest.mark.spark


@pytest.fixture
def broker():
    with EmbeddedBroker({"orders.eu": 2}) as broker:
        yield broker


def write(folder, broker, destination):
    file = folder / "pipeline.yaml"
    file.write_text(
        f"connector:\n  kafka: {{bootstrap-servers: '{broker.bootstrap_servers}'}}\n"
        "  topics:\n    orders:\n      kafka-topic-pattern: 'orders[.].*'\n"
        f"      destination: {{table-path: '{destination}'}}\n"
        "      processing: {flush-interval: 0.2}\n"
    )
    return load_configuration(file, environment={})


def records(*numbers):
    return [json.dumps({"id": number}).encode() for number in numbers]


def rows(path):
    table = DeltaTable(str(path)).to_pyarrow_table(columns=["_kafka_topic", "id"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(topic_discovery, "INTERVAL", 0.2)


def test_a_topic_that_is_created_later_is_appended_to_the_table(tmp_path, broker, spark):
    running = Running(write(tmp_path, broker, "lake/orders"), spark)
    broker.produce("orders.eu", records(1, 2, 3))
    running.wait(lambda seen: seen.batches)
    broker.create_topic("other")
    broker.create_topic("orders.us", 3)
    broker.produce("orders.us", records(7, 8))
    running.wait(lambda seen: any(batch.topic == "orders/orders.us" for batch in seen.batches))
    broker.produce("orders.eu", records(4))
    running.wait(lambda seen: sum(batch.rows for batch in seen.batches) == 6)
    running.stop()
    eu, us = "orders.eu", "orders.us"
    assert rows(tmp_path / "lake" / "orders") == [(eu, n) for n in (1, 2, 3, 4)] + [
        (us, 7),
        (us, 8),
    ]
    assert {s.topic: s.error for s in running.summaries} == {
        "orders/orders.eu": None,
        "orders/orders.us": None,
    }
    # Another run goes on where this one ended.
    running = Running(write(tmp_path, broker, "lake/orders"), spark)
    broker.produce("orders.us", records(9))
    running.wait(lambda seen: seen.batches)
    assert [batch.rows for batch in running.stop().batches] == [1]


def test_a_pipeline_waits_for_the_first_topic_and_each_has_its_table(tmp_path, spark):
    with EmbeddedBroker({"other": 1}) as broker:
        running = Running(write(tmp_path, broker, "lake/{topic}"), spark)
        broker.create_topic("orders.eu")
        broker.create_topic("orders.us")
        broker.produce("orders.eu", records(1))
        broker.produce("orders.us", records(2))
        running.wait(lambda seen: len(seen.batches) == 2)
        running.stop()
    assert rows(tmp_path / "lake" / "orders.eu") == [("orders.eu", 1)]
    assert rows(tmp_path / "lake" / "orders.us") == [("orders.us", 2)]
