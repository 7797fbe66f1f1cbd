"""Dead letters of a table of upserts: each counts as the record of its time that it is."""

from __future__ import annotations

import pytest

from bayou.ingest.dead_letters.dead_letter_replay import replay_dead_letters
from bayou.ingest.inspection import prove_offsets
from bayou.spark.kafka.embedded_broker import ProducedRecord

STRICT = {"type": "object", "properties": {"id": {"type": "integer"}, "n": {"type": "integer"}}}
WIDER = {
    "type": "object",
    "properties": {**STRICT["properties"], "colour": {"type": "string"}},
}


@pytest.fixture
def pipeline(small_pipeline):
    """Rows 1 to 3, and letters that would be newer than row 1 and older than row 2."""
    small_pipeline.upserts = True
    small_pipeline.write_schema(STRICT)
    small_pipeline.write_file()
    small_pipeline.produce({"id": 1, "n": 1}, {"id": 3, "n": 1})
    small_pipeline.produce({"id": 2, "n": 1, "colour": "red"}, {"id": 2, "n": 2})
    small_pipeline.produce({"id": 1, "n": 3, "colour": "blue"}, b"no json")
    small_pipeline.produce({"id": 4, "n": 4, "colour": "grey"})
    report = small_pipeline.take_in()
    assert (report.rows, report.dead_letters) == (3, 4)
    return small_pipeline


def replay(pipeline, **options):
    return replay_dead_letters(pipeline.configuration, pipeline.topic, **options)


def rows(pipeline):
    found = pipeline.table.to_arrow().to_pylist()
    return sorted((r["id"], r["n"], r.get("colour")) for r in found)


def fix_schema(pipeline):
    pipeline.evolves = True
    pipeline.write_schema(WIDER)
    pipeline.write_file()


def test_letters_that_fit_by_now_are_upserted_in_the_order_of_records(pipeline):
    before = rows(pipeline)
    fix_schema(pipeline)
    told = replay(pipeline, dry_run=True)
    assert (told.replayed, told.refused, told.version) == (3, 1, None)
    assert rows(pipeline) == before
    done = replay(pipeline)
    assert (done.replayed, done.refused, done.left) == (3, 1, 0)
    assert rows(pipeline) == [(1, 3, "blue"), (2, 2, None), (3, 1, None), (4, 4, "grey")]
    left = pipeline.dead_letters.to_arrow().to_pylist()
    assert [letter["value"] for letter in left] == [b"no json"]


def test_a_replay_that_is_done_twice_changes_nothing_more(pipeline):
    fix_schema(pipeline)
    letters = pipeline.dead_letters.to_arrow()
    replay(pipeline)
    after = rows(pipeline)
    known = pipeline.dead_letters.to_arrow().num_rows
    pipeline.dead_letters.restore(0)  # as if it had been killed before it took them out
    assert pipeline.dead_letters.to_arrow().num_rows == letters.num_rows
    replay(pipeline)
    assert rows(pipeline) == after
    assert pipeline.dead_letters.to_arrow().num_rows == known


def test_a_condition_chooses_letters(pipeline):
    fix_schema(pipeline)
    offset = [r["offset"] for r in pipeline.dead_letters.to_arrow().to_pylist()]
    done = replay(pipeline, where=f"offset = {max(offset)}")
    assert (done.replayed, done.refused) == (1, 0)
    assert (4, 4, "grey") in rows(pipeline)


def test_a_tombstone_that_comes_late_deletes_nothing_newer(small_pipeline):
    """In a topic that begins with tombstones, before any record says what a key is."""
    small_pipeline.upserts = small_pipeline.evolves = True
    small_pipeline.write_file()
    text = small_pipeline.file.read_text().replace("      schema-file: schema.json\n", "")
    text = text.replace("key-columns: [id]", "key-columns: [id]\n        ordering-column: n")
    small_pipeline.file.write_text(text)
    tombstones = [ProducedRecord(None, key=b'{"id": %d}' % n, partition=0) for n in (1, 2, 3)]
    small_pipeline.broker.produce(small_pipeline.kafka_topic, tombstones)
    assert small_pipeline.take_in().dead_letters == 3
    small_pipeline.produce({"id": 1, "n": 1}, {"id": 2, "n": 1})
    small_pipeline.broker.produce(
        small_pipeline.kafka_topic, [ProducedRecord(None, key=b'{"id": 2}', partition=0)]
    )
    small_pipeline.take_in()
    assert replay(small_pipeline).replayed == 3
    small_pipeline.produce({"id": 2, "n": 1}, {"id": 3, "n": 5})
    small_pipeline.take_in()
    assert rows(small_pipeline) == [(1, 1, None), (2, 1, None), (3, 5, None)]
    assert prove_offsets(small_pipeline.configuration, small_pipeline.topic).holds
