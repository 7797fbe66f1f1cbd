"""Texts in partition columns: what the log can't tell apart, and what no folder can be called."""

from __future__ import annotations

import pytest

import bayou
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.topic_table.direct_writer import DirectWriter, record_batch

CONFIG = """\
connector:
  topics:
    events:
      kafka-topic: events
      destination:
        table-path: events
        partition-columns: [kind]
        key-columns: [id, kind]
        delta-config: {{enable-upsert: {upsert}, enable-schema-evolution: true}}
"""


def events(folder, *, upsert=True):
    (folder / "p.yaml").write_text(CONFIG.format(upsert=str(upsert).lower()))
    return TopicTable(load_configuration(folder / "p.yaml", environment={}), "events")


def rows(table):
    return sorted((r["id"], r["kind"], r["n"]) for r in table.read().to_pylist())


def test_a_key_with_an_empty_text_in_a_partition_column_is_one_row_however_often_it_comes(tmp_path):
    table = events(tmp_path)
    table.write([{"id": 1, "kind": "", "n": 1}, {"id": 1, "kind": None, "n": 2}])
    assert rows(table) == [(1, None, 2)]
    table.write([{"id": 1, "kind": "", "n": 3}])
    assert rows(table) == [(1, None, 3)]
    delete = record_batch(
        "events",
        [None],
        partition=0,
        first=0,
        timestamps=[4102444800000000],
        keys=[b'{"id": 1, "kind": ""}'],
    )
    configuration = load_configuration(tmp_path / "p.yaml", environment={})
    DirectWriter(configuration, table.topic, records_of_topic=True).write([delete], {})
    assert rows(table) == []
    assert table.write([{"id": 1, "kind": "", "n": 4}]).superseded == 1
    assert rows(table) == []


@pytest.mark.parametrize("upsert", [True, False])
def test_a_text_that_no_folder_can_be_called_is_a_dead_letter_and_stops_no_other(tmp_path, upsert):
    table = events(tmp_path, upsert=upsert)
    longest = "x" * (255 - len("kind="))
    report = table.write(
        [
            {"id": 1, "kind": longest, "n": 1},
            {"id": 2, "kind": longest + "x", "n": 1},
            {"id": 3, "kind": "/" * 84, "n": 1},
            {"id": 4, "kind": "ü" * 126, "n": 1},
            {"id": 5, "kind": "/" * 83, "n": 1},
        ]
    )
    assert (report.rows, report.dead_letters) == (2, 3)
    assert [r[0] for r in rows(table)] == [1, 5]
    letters = bayou.table(dead_letters_path(table.topic.table_path)).to_arrow()
    assert "'kind' is too long for a partition column" in letters.column("reason")[0].as_py()


def test_where_folders_show_no_values_their_length_is_nothing(tmp_path):
    table = events(tmp_path)
    table.write([{"id": 1, "kind": "a", "n": 1}])
    table.handle.alter.set_table_properties({"delta.randomizeFilePrefixes": "true"})
    assert table.write([{"id": 2, "kind": "x" * 1000, "n": 1}]).rows == 1


BINARY_CONFIG = """\
connector:
  topics:
    events:
      kafka-topic: events
      decode: {decode}
      kafka-columns: [key]
      destination:
        table-path: events
        partition-columns: [{column}]
        key-columns: [value]
        delta-config: {{enable-upsert: {upsert}}}
"""


def binary_events(folder, column="value", *, upsert=True, decode="binary"):
    """A table partitioned by a binary column, and a function that takes values and keys."""
    text = BINARY_CONFIG.format(column=column, upsert=str(upsert).lower(), decode=decode)
    (folder / "p.yaml").write_text(text)
    configuration = load_configuration(folder / "p.yaml", environment={})
    table = TopicTable(configuration, "events")
    writer = DirectWriter(configuration, table.topic, records_of_topic=True)

    def write(*values, keys=None):
        return writer.write(
            [
                record_batch(
                    "events",
                    values,
                    partition=0,
                    first=0,
                    timestamps=range(len(values)),
                    keys=keys,
                )
            ],
            {},
        )

    return table, write


def test_a_key_with_empty_bytes_in_a_partition_column_is_one_row_however_often_it_comes(tmp_path):
    table, write = binary_events(tmp_path)
    for _ in range(3):
        write(b"abc", b"")
    assert sorted(table.read(columns=["value"])["value"].to_pylist(), key=str) == [None, b"abc"]


def test_bytes_that_the_log_cannot_store_are_a_dead_letter_and_stop_no_other(tmp_path):
    table, write = binary_events(tmp_path, upsert=False)
    report = write(b"abc", b"\xff\xfe", b"x" * 300)
    assert (report.rows, report.dead_letters) == (1, 2)
    letters = bayou.table(dead_letters_path(table.topic.table_path)).to_arrow()
    assert "'value' isn't UTF-8" in letters.column("reason")[0].as_py()
    assert "'value' is too long" in letters.column("reason")[1].as_py()


def test_a_kafka_key_that_no_partition_can_have_is_a_dead_letter(tmp_path):
    _, write = binary_events(tmp_path, "_kafka_key", upsert=False, decode="string")
    report = write(b"1", b"2", b"3", b"4", keys=[b"k", b"\xff", None, b"/" * 100])
    assert (report.rows, report.dead_letters) == (2, 2)
