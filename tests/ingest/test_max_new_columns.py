"""How many columns one batch may add to a table."""

from __future__ import annotations

import json

import pytest

import bayou
from bayou.ingest import TopicTable, load_configuration
from bayou.ingest.dead_letters.dead_letter_replay import replay_dead_letters


@pytest.fixture
def evolving(tmp_path):
    """A topic's table whose batches add three columns at most."""

    def make(max_new_columns=3, **topic):
        delta = {"enable-schema-evolution": True, "max-new-columns": max_new_columns}
        topic = {
            "kafka-topic": "events",
            "destination": {"table-path": str(tmp_path / "events"), "delta-config": delta},
            **topic,
        }
        connector = {"kafka": {"bootstrap-servers": "localhost:9092"}, "topics": {"events": topic}}
        file = tmp_path / "pipeline.yaml"
        file.write_text(json.dumps({"connector": connector}))
        return TopicTable(load_configuration(file, environment={}), "events")

    return make


def names(table):
    return {n for n in table.read().column_names if not n.startswith("_")}


def reasons(table):
    letters = table.handle.table_uri + "_dead_letters"

    return bayou.table(letters).to_arrow().column("reason").to_pylist()


@pytest.mark.parametrize(
    "wide",
    [
        {f"k{n}": n for n in range(3000)},
        {"k": {f"k{n}": n for n in range(3000)}},
        {"k": [{f"k{n}": n for n in range(4)}]},
        {"known": {f"k{n}": n for n in range(4)}},
    ],
    ids=["fields", "object", "array", "known object"],
)
def test_a_record_with_more_new_fields_is_a_dead_letter_and_adds_no_column(evolving, wide):
    table = evolving()
    table.write([{"id": 1, "known": {"a": 1}}])
    report = table.write([{"id": 2, **wide}, {"id": 3, "one": 1}, {"id": 4}])
    assert (report.rows, report.dead_letters) == (2, 1)
    assert names(table) == {"id", "known", "one"}
    count = 3000 if len(json.dumps(wide)) > 1000 else 4
    assert reasons(table) == [f"{count} new fields, but max-new-columns allows 3"]


def test_records_with_fields_beyond_the_limit_of_a_batch_are_dead_letters(evolving):
    table = evolving()
    table.write([{"id": 0}])
    report = table.write([{"id": n, f"k{n}": n} for n in range(10)])
    assert (report.rows, report.dead_letters) == (3, 7)
    assert names(table) == {"id", "k0", "k1", "k2"}
    assert all("more new fields than max-new-columns allows" in reason for reason in reasons(table))
    report = table.write([{"id": 11, "k11": 1}])  # the next batch may add columns again
    assert (report.rows, report.dead_letters) == (1, 0)


def test_a_batch_with_as_many_new_columns_as_allowed_is_taken_whole(evolving):
    table = evolving()
    table.write([{"id": 0}])
    report = table.write([{"id": 1, "a": {"b": 1, "c": 2}}, {"id": 2, "d": 3}])
    assert (report.rows, report.dead_letters) == (2, 0)


def test_a_flood_of_names_ends_with_a_few_reads_of_the_batch(evolving):
    table = evolving()
    table.write([{"id": 0}])
    report = table.write([{"id": n, f"k{n}": n} for n in range(3000)])
    assert (report.rows, report.dead_letters) == (3, 2997)


def test_flattened_fields_count_too(evolving):
    table = evolving(flatten="_")
    table.write([{"id": 0}])
    report = table.write([{"id": 1, "a": {"b": 1, "c": 2, "d": 3, "e": 4}}, {"id": 2}])
    assert (report.rows, report.dead_letters) == (1, 1)


def test_the_first_batch_of_a_table_may_add_5_000_columns(evolving):
    table = evolving()
    report = table.write(
        [
            {f"k{n}": n for n in range(5001)},
            {f"k{n}": n for n in range(4999)},
            {"a": 1},
            {"b": 2},
        ]
    )
    assert (report.rows, report.dead_letters, len(names(table))) == (2, 2, 5000)
    assert all("more new fields than max-new-columns allows" in reason for reason in reasons(table))


def test_the_limit_of_the_first_batch_can_be_raised(evolving):
    table = evolving(max_new_columns=5001)
    report = table.write([{f"k{n}": n for n in range(5001)}])
    assert (report.rows, len(names(table))) == (1, 5001)


def test_a_program_may_add_any_number_of_columns(evolving):
    table = evolving()
    table.write([{"id": 0}])
    table.merge_schema([{f"k{n}": n for n in range(10)}])
    assert len(names(table)) == 11


def test_a_replay_of_dead_letters_adds_no_more_columns_than_a_batch(small_pipeline):
    small_pipeline.evolves = True
    small_pipeline.write_file()
    small_pipeline.produce({"id": 1})
    small_pipeline.take_in()
    small_pipeline.produce({f"k{n}": n for n in range(300)}, {"id": "x", "other": [1]}, b"no")
    assert small_pipeline.take_in().dead_letters == 3
    replay_dead_letters(small_pipeline.configuration, small_pipeline.topic)
    assert small_pipeline.table.to_arrow().num_columns < 100
    small_pipeline.more = "          max-new-columns: 300\n"
    small_pipeline.write_file()
    replay_dead_letters(small_pipeline.configuration, small_pipeline.topic)
    assert small_pipeline.table.to_arrow().num_columns > 300
