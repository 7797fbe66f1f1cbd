"""Restarts with other keys, which would give a key a second row."""

from __future__ import annotations

import json

import pytest

import bayou
from bayou.errors import PipelineError
from bayou.ingest.dead_letters.dead_letter_replay import replay_dead_letters
from bayou.ingest.inspection import prove_offsets
from bayou.spark.kafka.embedded_broker import ProducedRecord

STRINGS = {"type": "object", "properties": {"id": {"type": "string"}, "name": {"type": "string"}}}


def test_a_table_with_one_row_for_each_key_takes_no_appended_records(new_pipeline):
    pipeline = new_pipeline(upserts=True)
    pipeline.produce({"id": 1, "name": "a"})
    pipeline.take_in()
    pipeline.upserts = False
    pipeline.write_file()
    pipeline.produce({"id": 1, "name": "b"})
    with pytest.raises(PipelineError, match=r"key-columns \(id\), but this topic appends"):
        pipeline.take_in()
    pipeline.upserts = True
    pipeline.write_file()
    pipeline.take_in()
    assert pipeline.table.to_arrow()["name"].to_pylist() == ["b"]


def test_a_table_with_one_row_for_each_key_takes_no_replay_that_appends(new_pipeline):
    pipeline = new_pipeline(upserts=True)
    pipeline.produce({"id": 1, "name": 7}, {"id": 1, "name": "a"})
    pipeline.take_in()
    pipeline.write_schema({**STRINGS, "properties": {"id": {"type": "integer"}, "name": {}}})
    pipeline.upserts = False
    pipeline.write_file()
    with pytest.raises(PipelineError, match=r"key-columns \(id\), but this topic appends"):
        replay_dead_letters(pipeline.configuration, pipeline.topic)
    assert pipeline.table.to_arrow().num_rows == 1


def test_a_table_of_appended_records_takes_no_upserts(small_pipeline):
    small_pipeline.more = "      kafka-columns: [timestamp]\n"
    small_pipeline.write_file()
    small_pipeline.produce({"id": 1}, {"id": 1})
    small_pipeline.take_in()
    small_pipeline.upserts = True
    small_pipeline.write_file()
    small_pipeline.produce({"id": 1})
    with pytest.raises(PipelineError, match="written without enable-upsert"):
        small_pipeline.take_in()


@pytest.mark.parametrize("first", [False, True])
def test_the_masks_of_key_columns_cannot_change(new_pipeline, first):
    pipeline = new_pipeline(upserts=True)
    pipeline.write_schema(STRINGS)
    for hashed in (first, not first):
        pipeline.more = "      masks: {ID: hash, name: drop}\n" if hashed else ""
        pipeline.write_file()
        pipeline.produce({"id": "1", "name": "a"})
        if hashed is first:
            pipeline.take_in()
    with pytest.raises(PipelineError, match="each key would get a second row"):
        pipeline.take_in()
    pipeline.more = "      masks: {id: hash}\n" if first else ""
    pipeline.write_file()
    pipeline.take_in()
    assert pipeline.table.to_arrow().num_rows == 1


def test_a_string_key_cannot_become_a_formatted_timestamp(new_pipeline):
    pipeline = new_pipeline(upserts=True)
    pipeline.evolves = True

    def configure(more):
        pipeline.more = more
        pipeline.write_file()
        inferred = pipeline.file.read_text().replace("      schema-file: schema.json\n", "")
        pipeline.file.write_text(inferred)

    configure("")
    pipeline.produce({"id": "1700000000000"})
    pipeline.take_in()
    configure("      timestamp-formats: {id: epoch-ms}\n")
    pipeline.produce({"id": "1700000000000"})
    with pytest.raises(PipelineError, match="'id', so each key would get a second row"):
        pipeline.take_in()
    configure("")
    pipeline.take_in()
    assert pipeline.table.to_arrow()["id"].to_pylist() == ["1700000000000"]


def test_the_format_of_a_key_of_type_timestamp_can_change(new_pipeline):
    pipeline = new_pipeline(upserts=True)
    pipeline.write_schema({"type": "object", "properties": {"id": {"type": "string"}}})
    values = {"epoch-ms": "1700000000000", "iso": "2023-11-14T22:13:20Z"}
    for form, value in values.items():
        pipeline.more = f"      timestamp-formats: {{id: {form}}}\n"
        pipeline.write_file()
        pipeline.produce({"id": value})
        pipeline.take_in()
    pipeline.more = ""
    pipeline.write_schema(
        {"type": "object", "properties": {"id": {"type": "string", "format": "date-time"}}}
    )
    pipeline.write_file()
    pipeline.produce({"id": "2023-11-14T23:13:20+01:00"})
    pipeline.take_in()
    assert pipeline.table.to_arrow().num_rows == 1


def test_the_offsets_of_copied_rows_are_covered_with_the_keys(new_pipeline):
    pipeline = new_pipeline(upserts=True)
    pipeline.produce({"id": 1, "name": "a"})
    pipeline.take_in()
    rows = pipeline.table.to_arrow()
    copy = new_pipeline(upserts=True)
    copy.kafka_topic = pipeline.kafka_topic
    copy.more = "      on-missing-offsets: from-rows\n"
    copy.write_file()
    bayou.write(copy.path, rows)
    copy.produce({"id": 1, "name": "b"})
    copy.take_in()
    copy.produce({"id": 1, "name": "c"})
    copy.take_in()
    assert copy.table.to_arrow()["name"].to_pylist() == ["c"]


def ordered_by(pipeline, column, more=""):
    """Write the pipeline's file with an ordering column; None for no ordering column."""
    pipeline.more = more
    pipeline.write_file()
    if column is not None:
        text = pipeline.file.read_text()
        keys = "        key-columns: [id]\n"
        pipeline.file.write_text(text.replace(keys, f"{keys}        ordering-column: {column}\n"))


@pytest.mark.parametrize(("first", "second"), [(None, "n"), ("n", None), ("n", "m")])
def test_the_ordering_column_cannot_change(new_pipeline, first, second):
    """A deleted key has no value of another ordering column, so older records would restore it."""
    pipeline = new_pipeline(upserts=True)
    integers = {name: {"type": "integer"} for name in ("id", "n", "m")}
    pipeline.write_schema({"type": "object", "properties": integers})
    ordered_by(pipeline, first)
    late = {"id": 1, "n": 1, "m": 1, "more": 1}
    pipeline.produce(late, {"id": 1, "n": 2, "m": 2}, {"id": 2, "n": 1, "m": 1})
    tombstone = ProducedRecord(None, key=b"1", partition=0)
    pipeline.broker.produce(pipeline.kafka_topic, [tombstone])
    assert pipeline.take_in().dead_letters == 1
    pipeline.evolves = True
    ordered_by(pipeline, second)
    for change in (
        pipeline.take_in,
        lambda: replay_dead_letters(pipeline.configuration, pipeline.topic),
    ):
        with pytest.raises(
            PipelineError, match="records of each key in .* were ordered by .*ordering-column"
        ):
            change()
    ordered_by(pipeline, first)
    assert replay_dead_letters(pipeline.configuration, pipeline.topic).replayed == 1
    assert pipeline.table.to_arrow()["id"].to_pylist() == [2]


@pytest.mark.parametrize("column", [None, "n"])
def test_offsets_of_another_topic_are_not_compared(new_pipeline, column):
    """The Kafka topic of a table may change; its offsets start at 0 again."""
    pipeline = new_pipeline(upserts=True)
    integers = {name: {"type": "integer"} for name in ("id", "n")}
    pipeline.write_schema({"type": "object", "properties": integers})
    ordered_by(pipeline, column)

    def send(second, number, value):
        value = None if value is None else json.dumps({"id": number, "n": value}).encode()
        key, at = str(number).encode(), 1_700_000_000_000 + 1000 * second
        record = ProducedRecord(value, key=key, partition=0, timestamp=at)
        pipeline.broker.produce(pipeline.kafka_topic, [record])

    for second in range(5):
        send(second, 9, second)
    send(5, 1, 5)
    send(6, 1, None)
    send(7, 2, 5)
    pipeline.take_in()
    pipeline.kafka_topic += "-new"
    pipeline.broker.create_topic(pipeline.kafka_topic, 2)
    ordered_by(pipeline, column)
    send(8, 1, 6)  # its offset is lower than that of the delete
    send(9, 2, None)  # its offset is lower than that of the row
    pipeline.take_in()
    assert sorted(pipeline.table.to_arrow()["id"].to_pylist()) == [1, 9]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds
    send(10, 2, 5)
    send(11, 1, None)
    pipeline.take_in()
    assert sorted(pipeline.table.to_arrow()["id"].to_pylist()) == [2, 9]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


def test_strings_of_the_ordering_column_keep_their_format(new_pipeline):
    pipeline = new_pipeline(upserts=True)
    strings = {"id": {"type": "integer"}, "at": {"type": "string"}}
    pipeline.write_schema({"type": "object", "properties": strings})
    formats = "      timestamp-formats: {at: '%d.%m.%Y'}\n"
    for more in ("", formats):
        ordered_by(pipeline, "at", more)
        text = pipeline.file.read_text()
        pipeline.file.write_text(text.replace("      schema-file: schema.json\n", ""))
        pipeline.evolves = True
        pipeline.produce({"id": 1, "at": "03.02.2024"})
        if not more:
            pipeline.take_in()
    with pytest.raises(PipelineError, match="'at', so records would be ordered by strings of"):
        pipeline.take_in()
