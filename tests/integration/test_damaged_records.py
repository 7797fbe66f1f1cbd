"""A record that is damaged on the broker's disk is an error, not a row."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import Producer

import bayou
from bayou.errors import BayouError
from support.in_process_pipeline import take_in


@pytest.fixture
def damaged(kafka_server, tmp_path):
    """Return a function that writes a configuration; the second of the topic's records is bad."""
    topic = f"damaged-{uuid.uuid4().hex[:8]}"
    kafka_server.create_topic(topic)
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap_servers})
    for name in ("first", "second", "third"):
        producer.produce(topic, json.dumps({"name": name}).encode())
        assert producer.flush(30) == 0  # one record batch for each
    [segment] = (kafka_server.log.parent / "data" / f"{topic}-0").glob("*.log")
    with segment.open("r+b") as file:
        at = file.read().index(b"second")
        file.seek(at)
        file.write(b"S")

    def configure(more):
        path = tmp_path / "pipeline.yaml"
        path.write_text(
            f"connector:\n  kafka: {{bootstrap-servers: '{kafka_server.bootstrap_servers}'{more}}}"
            f"\n  topics:\n    events:\n      kafka-topic: {topic}\n      destination:\n"
            "        table-path: t\n      processing: {max-retries: 0}\n"
        )
        return path

    return configure


def test_a_damaged_record_fails_the_batch(damaged, tmp_path):
    with pytest.raises(BayouError, match="damaged records between offsets 0 and 2: .* CRC32C"):
        take_in(damaged(""))
    assert not bayou.exists(str(tmp_path / "t"))


def test_without_checksums_a_damaged_record_is_read_as_it_is(damaged, tmp_path):
    take_in(damaged(", check.crcs: 'false'"))
    names = bayou.table(str(tmp_path / "t")).to_arrow()["name"].to_pylist()
    assert names == ["first", "Second", "third"]
