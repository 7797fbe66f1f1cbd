"""Tables that have rows of a topic, but no transaction identifier that covers them."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest

import bayou
from bayou.errors import PipelineError
from bayou.ingest.inspection import plan_run, topic_status_reports
from bayou.ingest.topic_table.topic_table import TopicTable

FROM_ROWS = "      on-missing-offsets: from-rows\n"
BEGIN_ANEW = "      on-missing-offsets: begin-anew\n"


def ids(pipeline) -> list[int]:
    return sorted(pipeline.table.to_arrow(columns=["id"]).column("id").to_pylist())


def plan(pipeline):
    (found,) = plan_run(pipeline.configuration, pipeline.configuration.topics)
    return found


def status(pipeline):
    (found,) = topic_status_reports(pipeline.configuration, pipeline.configuration.topics)
    return found


def use_clone(pipeline, **options) -> None:
    """Put a clone at the table's path, the table itself aside."""
    for suffix in ("", "_dead_letters"):
        if bayou.table(pipeline.path + suffix).exists():
            shutil.move(pipeline.path + suffix, f"{pipeline.path}_before{suffix}")
    bayou.table(f"{pipeline.path}_before").clone(pipeline.path, **options)


def set_more(pipeline, more: str) -> None:
    pipeline.more = more
    pipeline.write_file()


@pytest.fixture
def uncovered(small_pipeline):
    """A pipeline whose table has rows 0 to 9 of 12 records, and no identifier."""
    pipeline = small_pipeline
    pipeline.write_file()
    pipeline.produce(*({"id": n} for n in range(5)))
    pipeline.produce(*({"id": n} for n in range(5, 10)), partition=1)
    pipeline.take_in()
    pipeline.produce({"id": 10}, partition=0)
    pipeline.produce({"id": 11}, partition=1)
    use_clone(pipeline, transaction_identifiers=False)
    return pipeline


def test_a_clone_of_a_version_takes_the_records_since_then_once(small_pipeline):
    pipeline = small_pipeline
    pipeline.write_file()
    for start in (0, 10, 20):
        pipeline.produce(*({"id": n} for n in range(start, start + 10)), partition=start // 10 % 2)
        pipeline.take_in()
    use_clone(pipeline, version=1)
    assert len(ids(pipeline)) == 20
    assert plan(pipeline).records == 10
    pipeline.take_in()
    assert ids(pipeline) == list(range(30))


@pytest.mark.parametrize("upserts", [False, True])
def test_a_clone_with_the_tables_beside_it_decides_each_record_as_before(small_pipeline, upserts):
    pipeline = small_pipeline
    pipeline.upserts = upserts
    pipeline.write_file()
    pipeline.produce({"id": 0}, {"id": 1})
    pipeline.take_in()
    pipeline.produce({"id": 2}, b"no JSON", {"id": 3})
    pipeline.take_in()
    before = ids(pipeline)
    use_clone(pipeline, version=0)
    for suffix in ("_dead_letters", "_deleted_keys"):
        beside = bayou.table(f"{pipeline.path}_before{suffix}")
        if beside.exists():
            beside.clone(pipeline.path + suffix)
    assert ids(pipeline) == [0, 1]
    pipeline.take_in()
    assert ids(pipeline) == before == [0, 1, 2, 3]
    assert pipeline.dead_letters.to_arrow().num_rows == 1


def test_rows_without_offsets_stop_the_topic_which_names_the_ways_on(uncovered):
    with pytest.raises(PipelineError) as error:
        uncovered.take_in()
    for words in ("no transaction identifier", ": from-rows", "begin-anew", "table-path"):
        assert words in error.value.message
    assert plan(uncovered).error == error.value.message
    assert status(uncovered).error == error.value.message
    assert ids(uncovered) == list(range(10))


def test_offsets_are_taken_from_the_rows(uncovered):
    set_more(uncovered, FROM_ROWS)
    assert {p: (s.start, s.end) for p, s in plan(uncovered).spans.items()} == {0: (5, 6), 1: (5, 6)}
    assert [p.position for p in status(uncovered).partitions] == [5, 5]
    assert uncovered.take_in().rows == 2
    set_more(uncovered, "")
    assert uncovered.take_in().rows == 0
    assert ids(uncovered) == list(range(12))


def test_the_topic_is_read_again_beside_the_rows(uncovered):
    set_more(uncovered, BEGIN_ANEW)
    assert plan(uncovered).records == 12
    assert uncovered.take_in().rows == 12
    set_more(uncovered, "")
    assert uncovered.take_in().rows == 0
    assert ids(uncovered) == sorted([*range(10), *range(12)])


def test_starting_at_the_end_does_not_skip_what_the_rows_lack(uncovered):
    set_more(uncovered, "      starting-offsets: latest\n")
    with pytest.raises(PipelineError, match="no transaction identifier"):
        uncovered.take_in()
    set_more(uncovered, "      starting-offsets: latest\n" + FROM_ROWS)
    uncovered.take_in()
    assert ids(uncovered) == list(range(12))


def test_rows_of_a_topic_that_ends_before_them_stop_it(uncovered):
    row = uncovered.table.to_arrow(filter="id = 9").to_pylist()
    row[0]["_kafka_offset"] = 100
    bayou.write(uncovered.path, pa.Table.from_pylist(row, uncovered.table.snapshot().arrow_schema))
    set_more(uncovered, FROM_ROWS)
    with pytest.raises(PipelineError, match="the topic ends at 6"):
        uncovered.take_in()


def test_rows_of_programs_of_files_and_of_other_topics_need_no_offsets(small_pipeline, tmp_path):
    pipeline = small_pipeline
    pipeline.write_file()
    table = TopicTable(pipeline.configuration, "events")
    table.write([{"id": 1}])
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.json").write_text(json.dumps({"id": 2}) + "\n")
    table.migrate(str(files))
    row = pipeline.table.to_arrow(filter="id = 1").to_pylist()
    row[0] |= {"id": 3, "_kafka_topic": "another", "_kafka_partition": 0, "_kafka_offset": 7}
    bayou.write(pipeline.path, pa.Table.from_pylist(row, pipeline.table.snapshot().arrow_schema))
    pipeline.produce({"id": 4})
    assert plan(pipeline).error is None
    assert pipeline.take_in().rows == 1
    assert ids(pipeline) == [1, 2, 3, 4]


def test_records_of_files_that_rows_without_offsets_have_are_not_migrated_again(
    uncovered, tmp_path
):
    files = tmp_path / "files"
    files.mkdir()
    records = [{"id": n, "_kafka_partition": 0, "_kafka_offset": n} for n in range(6)]
    text = "".join(f"{json.dumps(r)}\n" for r in records) + json.dumps({"id": 99}) + "\n"
    (files / "a.json").write_text(text)
    TopicTable(uncovered.configuration, "events").migrate(str(files))
    set_more(uncovered, FROM_ROWS)
    uncovered.take_in()
    assert ids(uncovered) == [*range(12), 99]
