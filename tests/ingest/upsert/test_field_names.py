"""Fields of any name become columns of an upsert: no name stops the topic or changes another."""

from __future__ import annotations

import pytest

import bayou
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.upsert import BARE, DELETED, FORCED, SUPERSEDED

CONFIG = """\
connector:
  topics:
    events:
      kafka-topic: events
      destination:
        table-path: events
        key-columns: [id]
        delta-config: {enable-upsert: true, enable-schema-evolution: true}
"""
NAMES = [
    *("a.b", "a`b", "`name`", "#", "%", "/", "-", "*", "$", "..", "\\", '"', "'", "\u2028", "😀"),
    *("NULL", "select", "default::long", "s.id", "t.id", "s", "t", "source.id"),
]


@pytest.fixture
def events(tmp_path):
    (tmp_path / "p.yaml").write_text(CONFIG)
    table = TopicTable(load_configuration(tmp_path / "p.yaml", environment={}), "events")
    table.write([{"id": 1, "name": "x", "a": {"b": 1}}])
    return table


@pytest.mark.parametrize("name", NAMES)
def test_a_new_field_of_any_name_becomes_a_column(events, name):
    for value in (7, 8):
        report = events.write([{"id": 1, "name": "x", "a": {"b": 1}, name: value}])
        assert (report.rows, report.dead_letters) == (1, 0)
        (row,) = events.read().to_pylist()
        assert (row["id"], row["name"], row["a"], row[name]) == (1, "x", {"b": 1}, value)


def test_a_name_in_backticks_is_another_column_than_the_name(events):
    events.write([{"id": 1, "`new`": 1}])
    events.write([{"id": 1, "`new`": 2, "new": 3}])
    (row,) = events.read().to_pylist()
    assert (row["`new`"], row["new"]) == (2, 3)
    letters = bayou.table(dead_letters_path(events.topic.table_path))
    assert not letters.exists()


@pytest.mark.parametrize("name", [BARE, DELETED, FORCED, SUPERSEDED, SUPERSEDED.upper()])
def test_a_field_with_the_name_of_an_internal_column_is_a_dead_letter(events, name):
    report = events.write([{"id": 1, name: True}, {"id": 2, "name": "y"}])
    assert (report.rows, report.dead_letters) == (1, 1)
    assert sorted(row["id"] for row in events.read().to_pylist()) == [1, 2]


@pytest.mark.parametrize("upsert", ["true", "false"])
@pytest.mark.parametrize("name", ["_change_type", "_COMMIT_version"])
def test_a_field_that_the_change_data_feed_reserves_is_a_dead_letter(tmp_path, upsert, name):
    text = CONFIG.replace("enable-upsert: true", f"enable-upsert: {upsert}").replace(
        "delta-config: {", 'delta-config: {table-properties: {delta.enableChangeDataFeed: "true"}, '
    )
    (tmp_path / "p.yaml").write_text(text)
    table = TopicTable(load_configuration(tmp_path / "p.yaml", environment={}), "events")
    for number in range(2):
        report = table.write([{"id": number, "x": 1}, {"id": 9, name: "insert"}])
        assert (report.rows, report.dead_letters) == (1, 1)
    changes = table.handle.changes(0).to_arrow(columns=["id"])
    assert sorted(changes["id"].to_pylist()) == [0, 1]
