"""Which key a record without value deletes, and which key a delete of Debezium."""

from __future__ import annotations

import json
import re

import pytest

import bayou
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.topic_table.direct_writer import DirectWriter, record_batch

CONFIG = """\
connector:
  topics:
    rows:
      kafka-topic: rows
      {more}
      destination:
        table-path: rows
        key-columns: [{key}]
        {ordering}
        delta-config: {{enable-upsert: true, enable-schema-evolution: true}}
"""


class Rows:
    """A topic's table that takes records as if they had come from Kafka."""

    def __init__(self, folder, key, more="", schema=None, ordering=""):
        if schema is not None:
            (folder / "schema.json").write_text(json.dumps(schema))
            more = "schema-file: schema.json"
        (folder / "p.yaml").write_text(CONFIG.format(key=key, more=more, ordering=ordering))
        self._configuration = load_configuration(folder / "p.yaml", environment={})
        self.table = TopicTable(self._configuration, "rows")
        self._next = 0

    def send(self, *records):
        """Pairs of key and value; what isn't bytes is written as JSON."""
        keys, values = (
            [p if p is None or isinstance(p, bytes) else json.dumps(p).encode() for p in part]
            for part in zip(*records, strict=True)
        )
        moments = range(self._next, self._next + len(values))
        batch = record_batch(
            "rows", values, partition=0, first=self._next, timestamps=moments, keys=keys
        )
        self._next += len(values)
        topic = self.table.topic
        return DirectWriter(self._configuration, topic, records_of_topic=True).write([batch], {})

    def column(self, name):
        return sorted(self.table.read(columns=[name])[name].to_pylist())

    def reasons(self):
        letters = bayou.table(dead_letters_path(self.table.topic.table_path))
        return letters.to_arrow().column("reason").to_pylist() if letters.exists() else []


def test_with_flatten_a_nested_key_is_found_in_a_tombstone(tmp_path):
    rows = Rows(tmp_path, "place_id", "flatten: _")
    rows.send(*((None, {"place": {"id": n}}) for n in range(3)))
    rows.send(({"place": {"id": 1}}, None), ({"place_id": 2}, None))
    assert (rows.column("place_id"), rows.reasons()) == ([0], [])


def test_with_flatten_a_nested_key_is_found_in_what_debezium_says_was_before(tmp_path):
    rows = Rows(tmp_path, "place_id", "flatten: _\n      decode: debezium")
    rows.send(*((None, {"op": "c", "after": {"place": {"id": n}}}) for n in range(3)))
    rows.send(
        (None, {"op": "d", "before": {"place": {"id": 1}}}),
        ({"payload": {"place": {"id": 2}}}, {"op": "d", "before": None}),
    )
    assert (rows.column("place_id"), rows.reasons()) == ([0], [])


def test_a_delete_whose_key_debezium_says_as_null_is_that_of_the_kafka_key(tmp_path):
    rows = Rows(tmp_path, "id", "decode: debezium")
    rows.send(*((None, {"op": "c", "after": {"id": n}}) for n in range(3)))
    rows.send(
        ({"id": 1}, {"op": "d", "before": {"id": None, "more": None}}),
        (None, {"op": "d", "before": {"id": None}}),
        ({"id": None}, {"op": "d", "before": {"id": None}}),
    )
    assert rows.column("id") == [0, 2]
    assert sorted(rows.reasons()) == [
        "no value in the key (id)",
        "the record deletes a row, but has no Kafka key",
    ]


def test_a_tombstone_of_debezium_deletes_the_row_of_its_key(tmp_path):
    """Log compaction removes the delete before the tombstone."""
    rows = Rows(tmp_path, "id", "decode: debezium")
    rows.send(({"id": 0}, None), *((None, {"op": "c", "after": {"id": n}}) for n in range(5)))
    rows.send(({"id": 1}, None), ({"schema": {}, "payload": {"id": 2}}, None))
    assert rows.column("id") == [0, 3, 4]
    # The key isn't an object with valid key columns.
    rows.send((None, None), (b"3", None), ({"code": 3}, None), (b"{no", None))
    rows.send(({"id": None}, None), ({"id": "x"}, None))
    assert (rows.column("id"), rows.reasons()) == ([0, 3, 4], [])


def test_with_an_ordering_column_a_tombstone_of_debezium_deletes_nothing(tmp_path):
    """It has no value in the column, and may be older than the row."""
    rows = Rows(tmp_path, "id", "decode: debezium", ordering="ordering-column: at")
    rows.send((None, {"op": "c", "after": {"id": 1, "at": 7}}))
    rows.send((None, {"op": "d", "before": {"id": 1, "at": 3}}), ({"id": 1}, None))
    assert (rows.column("at"), rows.reasons()) == ([7], [])


def test_a_delete_of_no_key_is_a_dead_letter(tmp_path):
    rows = Rows(tmp_path, "id")
    rows.send(*((None, {"id": n}) for n in range(3)))
    report = rows.send(({"id": None}, None), ({"id": 1}, None))
    assert (report.deleted, report.dead_letters) == (1, 1)
    assert (rows.column("id"), rows.reasons()) == ([0, 2], ["no value in the key (id)"])


def test_whole_numbers_that_are_one_double_are_not_one_key(tmp_path):
    rows = Rows(tmp_path, "id")
    numbers = (1.5, 7, 2**53 - 1, 2**53 + 1, -(2**53), 2**60)
    rows.send(*((None, {"id": number}) for number in numbers))
    rows.send((str(2**53).encode(), None), (b"7", None))
    assert rows.column("id") == [1.5, 2**53 - 1]
    assert len(rows.reasons()) == 4
    assert all(
        re.search("'id'.*(is a double, which isn't exact|would lose digits in its type double)", r)
        for r in rows.reasons()
    )


def test_the_payload_of_a_connect_envelope_is_the_key_whatever_its_type(tmp_path):
    rows = Rows(tmp_path, "id")
    rows.send((None, {"id": "5"}), (None, {"id": "a"}), (None, {"id": "true"}))
    envelopes = [{"schema": {"type": "any"}, "payload": payload} for payload in (5, "a", None)]
    rows.send(*((envelope, None) for envelope in envelopes))
    assert rows.column("id") == ["true"]
    reason = "the record has no value, and its Kafka key is null. To delete a row, the key must "
    assert rows.reasons() == [f"{reason}contain the row's 'id'"]
    rows.send((b"true", None))
    assert rows.column("id") == []


def test_a_key_with_the_header_of_a_schema_registry_is_no_text(tmp_path):
    rows = Rows(tmp_path, "id")
    rows.send((None, {"id": "abc"}))
    rows.send((b"\0\0\0\0\x01\x06abc", None))
    assert rows.column("id") == ["abc"]
    assert "a schema registry's header" in rows.reasons()[0]


@pytest.mark.parametrize(
    ("form", "value", "bad"),
    [
        ("date", "2024-01-05", b"soon"),
        ("date-time", "2024-01-05T10:00:00+01:00", b"2024-01-05T10:00:00"),
    ],
)
def test_a_date_may_be_the_bare_text_of_a_key(tmp_path, form, value, bad):
    schema = {"properties": {"day": {"type": "string", "format": form}}}
    rows = Rows(tmp_path, "day", schema=schema)
    rows.send((None, {"day": value}))
    rows.send((bad, None))
    assert len(rows.column("day")) == 1
    assert "doesn't fit its type" in rows.reasons()[0]
    rows.send((value.encode(), None))
    assert rows.column("day") == []
