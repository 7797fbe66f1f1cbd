"""Nested objects as columns of their own, whatever single records have in their place."""

from __future__ import annotations

import itertools

import pytest

import bayou
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.config.table_paths import dead_letters_path

CONFIG = """\
connector:
  topics:
    t:
      kafka-topic: t
      flatten: _
      destination: {table-path: t, delta-config: {enable-schema-evolution: true}}
"""


def flat(folder):
    folder.mkdir(exist_ok=True)
    (folder / "p.yaml").write_text(CONFIG)
    return TopicTable(load_configuration(folder / "p.yaml", environment={}), "t")


def rows(table):
    found = [
        {k: v for k, v in row.items() if not k.startswith("_") and v is not None}
        for row in table.read().to_pylist()
    ]
    return sorted(found, key=str)


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("odd", [5, "x", [1]], ids=str)
def test_objects_are_taken_apart_although_a_record_has_something_else_there(tmp_path, odd, batches):
    records = [{"a": {"b": {"c": 1}}}, {"a": odd}, {"a": {"b": {"c": 2}}}]
    for number, order in enumerate(itertools.permutations(records)):
        table = flat(tmp_path / str(number))
        for start in range(0, 3, 3 // batches):
            table.write(order[start : start + 3 // batches])
        assert rows(table) == sorted([{"a_b_c": 1}, {"a_b_c": 2}, {"a": odd}], key=str)


def test_two_fields_of_one_name_are_a_dead_letter(tmp_path):
    table = flat(tmp_path)
    assert table.write([{"a_b": 1}, {"a": {"b": 2}}, {"a_b": 1, "a": {"b": 2}}]).rows == 2
    letters = bayou.table(dead_letters_path(table.topic.table_path)).to_arrow()
    assert letters.column("reason").to_pylist() == [
        "two fields have the name 'a_b' after flattening"
    ]
