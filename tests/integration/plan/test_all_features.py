"""One pipeline with a topic pattern, a registry, a catalog, derived columns and clustering.

It starts at a timestamp, on a real broker, a real S3 server, a real Hive metastore and a double of
the registry, and is killed in between. Spark SQL by the table's name, `deltalake` and, in
`make test-peers`, delta-spark read the result.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from servers import HiveMetastore
from support.delta_spark_reader import PEERS, rows_by_delta_spark
from support.registry_double import RegistryDouble

_KILLS = int(os.environ.get("BAYOU_TEST_KILLS", "3"))
_START = 1_767_571_200_000  # 2026-01-05T00:00:00Z
_FOREVER = {"retention.ms": "-1"}
_DAY = 24 * 60 * 60 * 1000
_EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "user_id", "type": "long"},
        {"name": "event_type", "type": "string"},
        {"name": "amount", "type": "string"},
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
_CONFIG = """\
connector:
  catalog: {{type: hive, uris: "{metastore}", database: shop}}
  schema-registry: {{url: "{registry}", subject-name-strategy: topic-name}}
  topics:
    shop:
      kafka-topic-pattern: 'shop[.][a-z]+[.]v1'
      starting-offsets: 2026-01-05T00:00:00Z
      decode: avro
      destination:
        table-path: "s3a://test-data-lake/tables/shop_events"
        table-name: events
        cluster-by: [hour, user_id]
        comment: Events of the shop
        delta-config:
          enable-schema-evolution: true
          enable-optimize: true
          optimize-interval: 1000
          table-properties: {{delta.enableChangeDataFeed: true}}
      processing:
        columns:
          hour: "date_trunc('HOUR', event_time)"
          cents: "CAST(CAST(amount AS DECIMAL(10,2)) * 100 AS BIGINT)"
        where: "event_type <> 'heartbeat'"
        drop: [amount]
        batch-size: 150
"""
_SESSION = """
import json, sys
from bayou.spark import enable, start_session

conf = {
    "spark.sql.catalogImplementation": "hive",
    "spark.hadoop.hive.metastore.uris": sys.argv[1],
    "spark.sql.warehouse.dir": sys.argv[2],
    "spark.ui.enabled": "false",
}
spark = start_session("reader", conf, "local[1]")
"""
_CREATE = _SESSION + 'spark.sql("CREATE DATABASE shop")\n'
_READ = (
    _SESSION
    + """
rows = spark.sql("SELECT _kafka_topic, id, cents FROM shop.events WHERE user_id < 1000").collect()
print(json.dumps([list(row) for row in rows]))
"""
)


class _Shop:
    """Produces the events of the topics, and remembers what the table must have."""

    def __init__(self, plan, registry) -> None:
        self._serialize = AvroSerializer(
            SchemaRegistryClient({"url": registry.url}), json.dumps(_EVENT)
        )
        self._plan = plan
        self._numbers = Counter()
        self.rows: list[tuple[str, str, int]] = []
        self.bad = 0
        self.filtered = 0

    def produce(self, topic: str, count: int, *, start: int = _START) -> None:
        """Send events; those before `_START` aren't expected in the table."""
        producer = Producer({"bootstrap.servers": self._plan.kafka.bootstrap_servers})
        context = SerializationContext(topic, MessageField.VALUE)
        for _ in range(count):
            number = self._numbers[topic]
            self._numbers[topic] += 1
            is_bad, is_heartbeat = number % 40 == 9, number % 7 == 3
            event = {
                "id": f"{topic}-{number}",
                "user_id": number % 20,
                "event_type": "heartbeat" if is_heartbeat else "buy",
                "amount": "free" if is_bad else f"{number}.25",
                "event_time": start + number * 60_000,
            }
            value = self._serialize(event, context)
            producer.produce(topic, value, timestamp=start + number, partition=number % 2)
            if start < _START:
                continue
            if is_bad and not is_heartbeat:
                self.bad += 1
            elif is_heartbeat:
                self.filtered += 1
            else:
                self.rows.append((topic, event["id"], number * 100 + 25))
        assert producer.flush(60) == 0


def _python(plan, code, *arguments):
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={**plan.environment, **python},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900 + 120 * _KILLS)
def test_killed_at_random_points_the_table_has_each_record_once(plan, tmp_path):
    rng = random.Random()
    eu, us, late = (f"shop.{name}.v1" for name in ("eu", "us", "late"))
    with HiveMetastore(tmp_path / "hive") as metastore, RegistryDouble() as registry:
        session = (metastore.uri, str(tmp_path / "warehouse"))
        _python(plan, _CREATE, *session)
        config = tmp_path / "shop.yaml"
        config.write_text(_CONFIG.format(metastore=metastore.uri, registry=registry.url))
        shop = _Shop(plan, registry)
        topics = [eu, us]
        for topic in topics:
            plan.kafka.create_topic(topic, 2, _FOREVER)
            shop.produce(topic, 30, start=_START - _DAY)
        for number in range(_KILLS):
            for topic in topics:
                shop.produce(topic, 400)
            running = plan.start("--once", config=str(config))
            end = (running.kill_somewhere, running.lose_jvm, running.lose_worker)[number % 3]
            end(rng, rng.randrange(4))
            if number == 0:
                plan.kafka.create_topic(late, 2, _FOREVER)
                topics.append(late)
            if number == _KILLS // 2:
                shutil.rmtree(plan.state)
        for topic in topics:
            shop.produce(topic, 100)
        run = plan.run(config=str(config))
        assert run.code == 0, run.complaints
        proof = plan.verify("shop", config=str(config))
        assert proof.code == 0, proof.out
        table = plan.table("shop_events")
        found = table.to_pyarrow_table(columns=["_kafka_topic", "id", "cents", "hour"])
        rows = zip(*(found[n].to_pylist() for n in ("_kafka_topic", "id", "cents")), strict=True)
        assert Counter(rows) == Counter(shop.rows)
        letters = plan.table("shop_events_dead_letters").to_pyarrow_table()
        assert letters.num_rows == shop.bad
        assert sum(event["filtered"] for event in proof.of("proof")) == shop.filtered
        by_name = json.loads(_python(plan, _READ, *session).splitlines()[-1])
        assert Counter(map(tuple, by_name)) == Counter(shop.rows)
        if PEERS:
            columns = ["_kafka_topic", "id", "cents"]
            by_peer = rows_by_delta_spark(plan.disk("shop_events"), tmp_path, columns)
            assert Counter(tuple(row.values()) for row in by_peer) == Counter(shop.rows)
        for topic in topics:
            plan.kafka.delete_topic(topic)
