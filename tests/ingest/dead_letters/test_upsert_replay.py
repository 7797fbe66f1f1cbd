"""Dead letters of a table of upserts: each counts as the record of its time that it is."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from bayou.ingest.batch.filter_history import filter_periods
from bayou.ingest.batch.target.target_upserts import TargetUpserts
from bayou.ingest.dead_letters import upsert_replay
from bayou.ingest.dead_letters.dead_letter_replay import replay_dead_letters
from bayou.ingest.dead_letters.upsert_replay import _with_timestamps
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
    assert (done.replayed, done.refused, done.skipped) == (3, 1, 0)
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


NO_TIME = 2**62  # milliseconds, after the year 9999


@pytest.mark.parametrize(
    "times",
    [
        (NO_TIME, NO_TIME, NO_TIME),
        (1_700_000_000_000, NO_TIME, 1_700_000_000_500),
        (NO_TIME, NO_TIME, 1_700_000_000_500),
        (1_700_000_000_000, NO_TIME, NO_TIME),
    ],
)
def test_a_letter_without_a_timestamp_replaces_nothing_newer(small_pipeline, times):
    small_pipeline.upserts = True
    small_pipeline.write_schema(STRICT)
    small_pipeline.write_file()
    records = [{"id": 1, "n": 1}, {"id": 1, "n": 2, "colour": "red"}, {"id": 1, "n": 3}]
    records += [{"id": 2, "n": 1}, {"id": 2, "n": 2, "colour": "red"}]
    for record, at in zip(records, (*times, *times[:2]), strict=True):
        value = json.dumps(record).encode()
        produced = ProducedRecord(value, partition=0, timestamp=at)
        small_pipeline.broker.produce(small_pipeline.kafka_topic, [produced])
    small_pipeline.take_in()
    before = rows(small_pipeline)
    assert (1, 3, None) in before
    fix_schema(small_pipeline)
    assert replay(small_pipeline).replayed == 2
    assert rows(small_pipeline) == [(1, 3, None), (2, 2, "red")]


@pytest.mark.parametrize("next_value", [b'{"id": 1, "n": 2}', None])
def test_a_letter_without_a_timestamp_is_older_than_the_next_record_of_its_key(
    small_pipeline, next_value
):
    small_pipeline.upserts = True
    small_pipeline.write_schema(STRICT)
    small_pipeline.write_file()

    def produce(value, at):
        record = ProducedRecord(value, key=b"1", partition=0, timestamp=at)
        small_pipeline.broker.produce(small_pipeline.kafka_topic, [record])
        small_pipeline.take_in()

    produce(b'{"id": 1, "n": 1, "colour": "red"}', NO_TIME)
    if next_value is None:
        produce(None, 1_700_000_000_000)
        fix_schema(small_pipeline)
        assert replay(small_pipeline).replayed == 1
        assert rows(small_pipeline) == []
    else:
        fix_schema(small_pipeline)
        assert replay(small_pipeline).replayed == 1
        produce(next_value, 1_700_000_000_000)
        assert rows(small_pipeline) == [(1, 2, None)]


def test_a_letter_with_a_timestamp_is_older_than_later_records_without_one(small_pipeline):
    small_pipeline.upserts = True
    small_pipeline.write_schema(STRICT)
    small_pipeline.write_file()
    for record, at in (({"id": 1, "n": 1, "colour": "red"}, 1000), ({"id": 1, "n": 2}, NO_TIME)):
        produced = ProducedRecord(json.dumps(record).encode(), partition=0, timestamp=at)
        small_pipeline.broker.produce(small_pipeline.kafka_topic, [produced])
        small_pipeline.take_in()
    fix_schema(small_pipeline)
    assert replay(small_pipeline).replayed == 1
    assert rows(small_pipeline) == [(1, 2, None)]


def test_letters_with_and_without_timestamps_that_are_not_adjacent_are_replayed(small_pipeline):
    small_pipeline.upserts = True
    small_pipeline.write_schema(STRICT)
    small_pipeline.write_file()
    records = [
        ({"id": 1, "n": 1, "colour": "red"}, NO_TIME),
        ({"id": 2, "n": 1}, 1),
        ({"id": 3}, 2),
    ]
    records.append(({"id": 4, "n": 1, "colour": "red"}, 3))
    for record, at in records:
        produced = ProducedRecord(json.dumps(record).encode(), partition=0, timestamp=at)
        small_pipeline.broker.produce(small_pipeline.kafka_topic, [produced])
    small_pipeline.take_in()
    fix_schema(small_pipeline)
    assert replay(small_pipeline).replayed == 2
    times = small_pipeline.table.to_arrow().select(["id", "_kafka_timestamp"]).to_pylist()
    assert {r["id"]: r["_kafka_timestamp"].timestamp() * 1000 for r in times} == {
        1: 1,
        2: 1,
        3: 2,
        4: 3,
    }


def test_only_the_nearest_rows_say_how_old_a_letter_is():
    kind = pa.timestamp("us", tz="UTC")
    positions = {"partition": pa.array([0, 0, 1, 2], pa.int32()), "offset": [5, 20, 5, 5]}
    letters = pa.table(
        {
            **positions,
            "timestamp": pa.array([None, 99, None, None], kind),
            "_ingestion_timestamp": pa.array([1000] * 4, kind),
        }
    )

    def part(partition, offsets, times):
        return pa.table(
            {
                "partition": pa.array([partition] * len(offsets), pa.int32()),
                "offset": offsets,
                "timestamp": pa.array(times, kind),
            }
        )

    parts = [part(0, [1, 9], [7, 70]), part(0, [4, 3], [50, 60]), part(1, [6, 8], [30, 20])]
    found = _with_timestamps(letters, parts).column("timestamp").cast(pa.int64()).to_pylist()
    assert found == [50, 99, 30, 0]


@pytest.mark.parametrize("returns", [False, True])
def test_a_letter_before_a_tombstone_does_not_return_whatever_its_order(small_pipeline, returns):
    small_pipeline.upserts = True
    small_pipeline.write_schema(STRICT)
    small_pipeline.write_file()
    text = small_pipeline.file.read_text()
    ordering = "ordering-column: n\n        delta-config"
    small_pipeline.file.write_text(text.replace("delta-config", ordering))
    small_pipeline.produce({"id": 1, "n": 1}, {"id": 1, "n": 7, "colour": "red"})
    small_pipeline.broker.produce(small_pipeline.kafka_topic, [ProducedRecord(None, b"1", 0)])
    small_pipeline.take_in()
    if returns:
        small_pipeline.produce({"id": 1, "n": 2})
        small_pipeline.take_in()
    before = rows(small_pipeline)
    assert before == ([(1, 2, None)] if returns else [])
    text = small_pipeline.file.read_text()
    small_pipeline.file.write_text(text.replace("evolution: false", "evolution: true"))
    assert replay(small_pipeline).replayed == 1
    assert rows(small_pipeline) == before
    assert small_pipeline.dead_letters.to_arrow().num_rows == 0


@pytest.mark.parametrize("kind", ["filtered", "debezium"])
def test_a_letter_with_a_higher_ordering_value_than_a_later_delete_is_a_row(small_pipeline, kind):
    """Only a tombstone without an ordering value deletes all that came before it."""
    pipeline = small_pipeline
    pipeline.upserts = True
    pipeline.more = (
        "      decode: debezium\n"
        if kind == "debezium"
        else "      processing: {where: id < 9, on-filtered: delete}\n"
    )

    def configure():
        pipeline.write_file()
        text = pipeline.file.read_text()
        pipeline.file.write_text(
            text.replace("key-columns: [id]", "key-columns: [id]\n        ordering-column: n")
        )

    gone = {"type": "boolean"}
    pipeline.more = pipeline.more.replace("id < 9", "'gone IS NULL OR NOT gone'")
    pipeline.write_schema({**STRICT, "properties": {**STRICT["properties"], "gone": gone}})
    configure()
    records = [{"id": 1, "n": 9, "colour": "red"}, {"id": 2, "n": 1}, {"id": 1, "n": 5}]
    if kind == "debezium":
        *rows_of, last = records
        values = [{"op": "c", "after": row} for row in rows_of] + [{"op": "d", "before": last}]
    else:
        values = [*records[:2], {**records[2], "gone": True}]
    pipeline.produce(*values)
    assert pipeline.take_in().dead_letters == 1
    pipeline.evolves = True
    pipeline.write_schema({**WIDER, "properties": {**WIDER["properties"], "gone": gone}})
    configure()
    assert replay(pipeline).replayed == 1
    assert rows(pipeline) == [(1, 9, "red"), (2, 1, None)]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


@pytest.mark.parametrize("batches", [1, 2])
def test_a_letter_before_a_tombstone_stays_away_however_batches_were_cut(small_pipeline, batches):
    pipeline = small_pipeline
    pipeline.upserts = True
    pipeline.write_schema(STRICT)
    pipeline.write_file()
    text = pipeline.file.read_text()
    pipeline.file.write_text(
        text.replace("delta-config", "ordering-column: n\n        delta-config")
    )
    pipeline.produce({"id": 1, "n": 5}, {"id": 1, "n": 9, "colour": "red"})
    pipeline.broker.produce(pipeline.kafka_topic, [ProducedRecord(None, b"1", 0)])
    if batches == 2:
        pipeline.take_in()
    pipeline.produce({"id": 1, "n": 7})
    pipeline.take_in()
    assert rows(pipeline) == [(1, 7, None)]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds
    text = pipeline.file.read_text()
    pipeline.file.write_text(text.replace("evolution: false", "evolution: true"))
    assert replay(pipeline).replayed == 1
    assert rows(pipeline) == [(1, 7, None)]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


def test_a_key_that_is_deleted_during_a_replay_stays_deleted(small_pipeline, monkeypatch):
    """The tombstone changes no row of the table, because the key's only record is a letter."""
    pipeline = small_pipeline
    pipeline.upserts = True
    pipeline.write_schema(STRICT)
    pipeline.write_file()
    pipeline.produce({"id": 1, "n": 1}, {"id": 2, "n": 1, "colour": "red"})
    pipeline.take_in()
    fix_schema(pipeline)
    pipeline.produce({"id": 3, "n": 1, "colour": "blue"})
    pipeline.take_in()
    upsert = TargetUpserts.upsert

    def delete_before(target, *args, **options):
        monkeypatch.setattr(TargetUpserts, "upsert", upsert)
        pipeline.broker.produce(pipeline.kafka_topic, [ProducedRecord(None, b"2", 0)])
        pipeline.take_in()
        return upsert(target, *args, **options)

    monkeypatch.setattr(TargetUpserts, "upsert", delete_before)
    monkeypatch.setattr("bayou.ingest.topic_table.direct_writer.retry_delay", lambda _: 0)
    assert replay(pipeline).replayed == 1
    assert rows(pipeline) == [(1, 1, None), (3, 1, "blue")]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


def test_a_replay_during_a_batch_is_a_conflict_that_the_batch_retries(small_pipeline, monkeypatch):
    pipeline = small_pipeline
    pipeline.upserts = True
    pipeline.write_schema(STRICT)
    pipeline.write_file()
    pipeline.produce({"id": 1, "n": 1}, {"id": 2, "n": 1, "colour": "red"})
    pipeline.take_in()
    fix_schema(pipeline)
    pipeline.produce({"id": 3, "n": 1, "colour": "blue"})
    pipeline.take_in()
    upsert = TargetUpserts.upsert

    def replay_before(target, *args, **options):
        monkeypatch.setattr(TargetUpserts, "upsert", upsert)
        replay(pipeline)
        return upsert(target, *args, **options)

    monkeypatch.setattr(TargetUpserts, "upsert", replay_before)
    monkeypatch.setattr("bayou.ingest.batch.micro_batch.retry_delay", lambda _: 0)
    pipeline.broker.produce(pipeline.kafka_topic, [ProducedRecord(None, b"2", 0)])
    assert pipeline.take_in().conflicts == 1
    assert rows(pipeline) == [(1, 1, None), (3, 1, "blue")]


def test_the_latest_of_two_tombstones_counts_whatever_their_timestamps(small_pipeline):
    pipeline = small_pipeline
    pipeline.upserts = True
    pipeline.write_schema(STRICT)
    pipeline.write_file()
    text = pipeline.file.read_text()
    ordering = "ordering-column: n\n        delta-config"
    pipeline.file.write_text(text.replace("delta-config", ordering))
    start = 1_700_000_000_000

    def send(value, at):
        record = ProducedRecord(value, b"1", 0, timestamp=start + at)
        pipeline.broker.produce(pipeline.kafka_topic, [record])

    send(b'{"id": 1, "n": 1}', 0)
    send(None, 6000)
    pipeline.take_in()
    send(b'{"id": 1, "n": 3, "colour": "red"}', 8000)
    send(None, 4000)
    send(b'{"id": 1, "n": 2}', 7000)
    pipeline.take_in()
    text = pipeline.file.read_text()
    pipeline.file.write_text(text.replace("evolution: false", "evolution: true"))
    assert replay(pipeline).replayed == 1
    assert rows(pipeline) == [(1, 2, None)]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


def test_a_condition_of_a_batch_during_a_replay_stays_recorded(small_pipeline, monkeypatch):
    """Both change the property with the conditions that filtered the table's records."""
    pipeline = small_pipeline
    pipeline.upserts = True
    pipeline.write_schema(STRICT)
    pipeline.write_file()
    pipeline.produce({"id": 1, "n": 1}, {"id": 10, "n": 1, "colour": "red"})
    assert pipeline.take_in().dead_letters == 1
    pipeline.more = "      processing: {where: id < 9}\n"
    fix_schema(pipeline)
    topic, configuration = pipeline.topic, pipeline.configuration
    properties = upsert_replay.filter_properties

    def changed_meanwhile(*arguments):
        monkeypatch.undo()
        changed = properties(*arguments)
        pipeline.more = "      processing: {where: id < 5}\n"
        pipeline.write_file()
        pipeline.produce({"id": 2, "n": 1}, {"id": 6, "n": 1})
        assert pipeline.take_in().filtered == 1
        return changed

    monkeypatch.setattr(upsert_replay, "filter_properties", changed_meanwhile)
    assert replay_dead_letters(configuration, topic).filtered == 1
    periods = filter_periods(topic, pipeline.table.snapshot().kernel.properties)
    assert [period.where for period in periods] == ["id < 5", "id < 9"]
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds
