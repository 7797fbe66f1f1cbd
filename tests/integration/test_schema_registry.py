"""Records of confluent-kafka's own serializers, through a real broker, from a registry's schemas.

The registry is an HTTP double of the published API (`support.registry_double`), because no registry
of packages has a schema registry server.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import bayou
from bayou.errors import BayouError
from support.in_process_pipeline import take_in
from support.registry_double import RegistryDouble

LOGIN = "Basic " + base64.b64encode(b"bayou:s3cr3t").decode()
CUSTOMER = {"type": "record", "name": "Customer", "fields": [{"name": "name", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": "Customer"}],
}
KEY = '{"type": "long"}'
CONFIG = """\
connector:
  kafka: {{bootstrap-servers: "{servers}"}}
  schema-registry:
    url: "{url}"
    username: "bayou"
    password: "${{PASSWORD}}"
    subject-name-strategy: "topic-name"
  topics:
    orders:
      kafka-topic: {topic}
      decode: avro
      decode-key: avro
      processing: {{max-retries: 0}}
      destination:
        table-path: lake/orders
        key-columns: [id]
        delta-config: {{enable-upsert: true, enable-schema-evolution: true}}
"""


@pytest.fixture
def registry():
    with RegistryDouble(login=LOGIN) as double:
        yield double


@pytest.fixture
def orders(kafka_server, registry, tmp_path):
    """A topic of orders, its configuration, and a function that produces keys and values."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    kafka_server.create_topic(name)
    client = SchemaRegistryClient({"url": registry.url, "basic.auth.user.info": "bayou:s3cr3t"})
    client.register_schema("customer", Schema(json.dumps(CUSTOMER), "AVRO"))
    reference = SchemaReference("Customer", "customer", 1)
    order = Schema(json.dumps(ORDER), "AVRO", [reference])
    value_serializer = AvroSerializer(client, order)
    key_serializer = AvroSerializer(client, Schema(KEY, "AVRO"))
    producer = Producer({"bootstrap.servers": kafka_server.bootstrap_servers})

    def produce(*records):
        for key, value in records:
            producer.produce(
                name,
                key=key_serializer(key, SerializationContext(name, MessageField.KEY)),
                value=None
                if value is None
                else value_serializer(value, SerializationContext(name, MessageField.VALUE)),
            )
        assert producer.flush(30) == 0

    file = tmp_path / "pipeline.yaml"
    servers = kafka_server.bootstrap_servers
    file.write_text(CONFIG.format(servers=servers, url=registry.url, topic=name))
    return name, file, produce


def test_avro_values_and_keys_of_the_serializers_become_rows_and_deletes(
    orders, registry, tmp_path
):
    name, file, produce = orders
    produce(*((n, {"id": n, "customer": {"name": f"c{n}"}}) for n in range(10)))
    produce((3, None), (4, None))
    registry.seen.clear()
    (report,) = take_in(file, environment={"PASSWORD": "s3cr3t"})
    assert report.dead_letters == 0
    table = bayou.table(str(tmp_path / "lake" / "orders"))
    rows = table.to_arrow(columns=["id", "customer"]).to_pylist()
    assert sorted(row["id"] for row in rows) == [0, 1, 2, 5, 6, 7, 8, 9]
    assert all(row["customer"] == {"name": f"c{row['id']}"} for row in rows)
    subjects = {q["subject"][0] for n in (2, 3) for q in registry.queries(f"/schemas/ids/{n}")}
    assert subjects == {f"{name}-value", f"{name}-key"}


def test_a_wrong_password_of_the_registry_stops_the_topic_and_loses_nothing(
    orders, registry, tmp_path
):
    _, file, produce = orders
    produce((1, {"id": 1, "customer": {"name": "c"}}))
    with pytest.raises(BayouError, match="401 Unauthorized") as error:
        take_in(file, environment={"PASSWORD": "hunter-wrong"})
    assert "hunter-wrong" not in error.value.message
    (report,) = take_in(file, environment={"PASSWORD": "s3cr3t"})
    assert (report.rows, report.dead_letters) == (1, 0)


@pytest.mark.slow
def test_executors_ask_the_registry_themselves(orders, registry, tmp_path):
    _, _, produce = orders
    produce(*((n, {"id": n, "customer": {"name": f"c{n}"}}) for n in range(50)))
    produce((3, None))
    registry.seen.clear()
    done = subprocess.run(
        [sys.executable, "-m", "bayou.cli", "run", "pipeline.yaml", "--once"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PASSWORD": "s3cr3t", "BAYOU_STATE_PATH": str(tmp_path / "state")},
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert bayou.table(str(tmp_path / "lake" / "orders")).to_arrow().num_rows == 49
    assert {headers["Authorization"] for _, headers in registry.seen} == {LOGIN}
    assert "s3cr3t" not in done.stdout + done.stderr
