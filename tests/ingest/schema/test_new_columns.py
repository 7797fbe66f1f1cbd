"""New fields become columns, as many as a table can have, whatever comes with them."""

from __future__ import annotations

import itertools

import pytest

import bayou
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.config.table_paths import dead_letters_path

CONFIG = """\
connector:
  topics:
    events:
      kafka-topic: events
      destination:
        table-path: events
        partition-columns: {partitions}
        delta-config: {{enable-schema-evolution: true}}
"""


def events(folder, partitions="[]"):
    folder.mkdir(exist_ok=True)
    (folder / "p.yaml").write_text(CONFIG.format(partitions=partitions))
    return TopicTable(load_configuration(folder / "p.yaml", environment={}), "events")


def rows(table):
    return [
        {k: v for k, v in row.items() if not k.startswith("_")} for row in table.read().to_pylist()
    ]


def refused(table):
    letters = bayou.table(dead_letters_path(table.topic.table_path))
    return letters.to_arrow().column("value").to_pylist() if letters.exists() else []


@pytest.mark.parametrize("known", [[], [{"n": 0}]])
@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({"a": {"x": 1}}, {"a": {"X": 1}}),
        ({"a": [{"x": 1}]}, {"a": [{"X": 1}]}),
        ({"a": {"b": {"x": 1, "y": 2}}}, {"a": {"b": {"x": 2}, "B": 3}}),
        ({"a": {"x": 1}}, {"a": {"x": 2, "y z": 3}}),
        ({"a": 1}, {"A": 1}),
        ({"a": 1}, {"b c": {"d": 1, "e": {"f": 1}}}),
    ],
)
def test_a_record_with_a_name_that_no_column_has_takes_no_other_with_it(tmp_path, known, good, bad):
    for number, order in enumerate(itertools.permutations([good, bad, {"n": 1}])):
        table = events(tmp_path / str(number))
        table.write(known)
        report = table.write(order)
        assert (report.rows, report.dead_letters) == (2, 1)
        assert len(refused(table)) == 1
        kept = [{k: v for k, v in row.items() if v is not None} for row in rows(table)]
        assert sorted(kept, key=str) == sorted([*known, good, {"n": 1}], key=str)


def test_year_month_and_day_of_the_records_are_the_partitions_where_no_schema_says_so(tmp_path):
    table = events(tmp_path, "[year, month, day]")
    report = table.write([{"n": 1, "year": 2013, "month": 1, "day": 5}, {"n": 2, "year": 2013}])
    assert (report.rows, report.dead_letters) == (2, 0)
    assert table.write([{"n": 3, "year": 2014, "month": 2, "day": 6}]).rows == 1
    assert sorted((r["n"], r["year"], r["month"], r["day"]) for r in rows(table)) == [
        (1, 2013, 1, 5),
        (2, 2013, None, None),
        (3, 2014, 2, 6),
    ]


def test_where_records_call_it_year_in_other_letters_the_made_one_stays(tmp_path):
    table = events(tmp_path, "[year]")
    report = table.write([{"n": 1, "Year": 2013}, {"n": 2}])
    assert (report.rows, report.dead_letters) == (1, 1)
    assert [sorted(row) for row in rows(table)] == [["n", "year"]]


def test_a_table_that_has_made_partitions_keeps_them(tmp_path):
    table = events(tmp_path, "[year]")
    assert table.write([{}]).rows == 1
    report = table.write([{"n": 1, "year": 2013}, {"n": 2}])
    assert (report.rows, report.dead_letters) == (1, 1)
    assert len({row["year"] for row in rows(table)}) == 1
