"""How a topic's records become rows, for everybody who reads them."""

from __future__ import annotations

from bayou.engines import for_path
from bayou.ingest import TopicTable
from bayou.ingest.batch.target.target_table import TargetTable
from bayou.ingest.config import load_configuration
from bayou.ingest.schema.policy import SchemaPolicy
from bayou.ingest.schema.record_schema import RecordSchema
from bayou.protocol.schema import STRING, StructField, StructType

CONFIG = """\
connector:
  topics:
    people:
      kafka-topic: people
      decode: debezium
      masks: {mail: hash}
      destination:
        table-path: people
        key-columns: [mail]
        delta-config: {enable-upsert: true}
"""


def test_everybody_reads_records_with_masks_keys_and_envelopes(tmp_path):
    (tmp_path / "p.yaml").write_text(CONFIG)
    topic = load_configuration(tmp_path / "p.yaml", environment={}).topic("people")
    columns = StructType((StructField(name="mail", data_type=STRING),))
    target = TargetTable(for_path(topic.table_path, {}), topic, None)
    policy = SchemaPolicy(topic, target, RecordSchema(columns=columns))
    layout = policy.layout(policy.columns())
    reading = policy.reading(layout, 7)
    assert (reading.masks, reading.debezium) == ({"mail": "hash"}, True)
    assert (reading.upsert, reading.plan) == (topic.upsert_keys, policy.plan(layout))
    assert (reading.ingestion_timestamp, reading.layout) == (7, layout)


def test_a_field_that_would_stay_in_clear_is_refused_for_its_batch_alone(tmp_path):
    (tmp_path / "p.yaml").write_text(
        "connector: {topics: {t: {kafka-topic: t, masks: {place.street: hash}, destination: "
        "{table-path: t, delta-config: {enable-schema-evolution: true}}}}}"
    )
    table = TopicTable(load_configuration(tmp_path / "p.yaml", environment={}), "t")
    table.write([{"id": 1}])
    target = TargetTable(for_path(table.topic.table_path, {}), table.topic, None)
    target.open()
    policy = SchemaPolicy(table.topic, target, RecordSchema())
    columns = policy.columns()
    text = StructType((StructField(name="place", data_type=STRING),))
    never = StructType((StructField(name="a b", data_type=STRING),))
    assert policy.widened(columns, StructType((*text, *never))) == columns
    assert {"place", "a b"} <= policy.plan(policy.layout(columns)).reserved
    columns = policy.columns()
    assert "place" not in policy.plan(policy.layout(columns)).reserved
    assert "a b" in policy.plan(policy.layout(columns)).reserved
