"""Dead letters of a topic that was recreated on brokers without topic ids, beside earlier ones."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

import bayou
import bayou.ingest.broker
from bayou.errors import PipelineError
from bayou.ingest.dead_letters import append_replay, upsert_replay
from bayou.ingest.dead_letters.dead_letter_replay import delete_dead_letters, replay_dead_letters
from bayou.ingest.runtime import prepared_topic
from bayou.spark.kafka import EmbeddedBroker
from bayou.spark.kafka.embedded_broker import ProducedRecord

STRICT = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "kind": {"type": "string"}},
}
FIRST_TIME = 1_700_000_000_000


class NoTopicIdCheck:
    def __init__(self, *_args, **_options):
        pass

    def check_not_recreated(self):
        pass


@pytest.fixture
def recreated(new_pipeline, monkeypatch):
    """Return a function that takes in a topic, recreates it and takes in the new topic.

    The dead letters of the first topic stay beside the new table.
    """
    describe = prepared_topic.describe_topic
    monkeypatch.setattr(
        prepared_topic,
        "describe_topic",
        lambda *arguments: replace(describe(*arguments), cluster_id="cluster", topic_id=None),
    )
    monkeypatch.setattr(bayou.ingest.broker, "RecreatedTopicCheck", NoTopicIdCheck)

    def create(first, second, *, upserts=False, kafka_columns=False, routed=False):
        pipeline = new_pipeline(upserts=upserts)
        write = pipeline.write_file

        def write_file():
            write()
            text = pipeline.file.read_text()
            if kafka_columns:
                text = text.replace("      dest", "      kafka-columns: [timestamp]\n      dest")
            if routed:
                routes = "        route-by: {expression: kind, tables: {b: lake/other}}\n"
                text = text.replace("        delta-config:", f"{routes}        delta-config:")
            pipeline.file.write_text(text)

        pipeline.write_file = write_file
        pipeline.write_schema(STRICT)
        for number, records in enumerate((first, second)):
            with EmbeddedBroker({pipeline.kafka_topic: 1}) as broker:
                pipeline.broker = broker
                pipeline.write_file()
                times = range(1000 * number, 1000 * number + len(records))
                broker.produce(
                    pipeline.kafka_topic,
                    [
                        ProducedRecord(as_json(r), partition=0, timestamp=FIRST_TIME + t)
                        for r, t in zip(records, times, strict=True)
                    ],
                )
                pipeline.take_in()
            if number == 0:
                for path in (pipeline.folder / "lake").glob("events*"):
                    if not path.name.endswith("_dead_letters"):
                        shutil.rmtree(path)
        pipeline.evolves = True
        pipeline.write_file()
        return pipeline

    return create


def as_json(record):
    return json.dumps(record).encode()


def fits(number):
    return {"id": number}


def refused(number):
    return {"id": number, "color": "red"}


def replay(pipeline, **options):
    return replay_dead_letters(pipeline.configuration, pipeline.topic, **options)


def ids(pipeline):
    return sorted(pipeline.table.to_arrow()["id"].to_pylist())


def letters(pipeline):
    return sorted(
        (r["offset"], r["value"].decode()[7:8])
        for r in pipeline.dead_letters.to_arrow().to_pylist()
    )


def second_topic(pipeline):
    """Return a condition on dead letters that selects the second topic's."""
    last = max(pipeline.dead_letters.to_arrow()["_ingestion_timestamp"].to_pylist())
    return f"_ingestion_timestamp >= '{last.isoformat()}'"


FIRST = [refused(1), refused(2), fits(3)]
SECOND = [fits(4), refused(5), fits(6)]


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("upserts", [False, True])
def test_different_records_with_the_same_offset_are_refused(recreated, upserts, dry_run):
    pipeline = recreated(FIRST, SECOND, upserts=upserts)
    version = pipeline.table.snapshot().version
    with pytest.raises(PipelineError) as error:
        replay(pipeline, dry_run=dry_run)
    message = str(error.value)
    for part in (
        "events_dead_letters",
        "partition 0",
        "offset 1",
        "deleted and recreated",
        "_ingestion_timestamp",
        "bayou dlq drop",
    ):
        assert part in message
    assert pipeline.table.snapshot().version == version
    assert letters(pipeline) == [(0, "1"), (1, "2"), (1, "5")]


@pytest.mark.parametrize(
    ("kafka_columns", "routed"), [(False, False), (True, False), (False, True)]
)
@pytest.mark.parametrize("second_first", [False, True])
def test_the_letters_of_one_topic_are_replayed_with_a_condition(
    recreated, kafka_columns, second_first, routed
):
    pipeline = recreated(FIRST, SECOND, kafka_columns=kafka_columns, routed=routed)
    latest = second_topic(pipeline)
    conditions = [latest, latest.replace(">=", "<")]
    (first, second) = conditions if second_first else reversed(conditions)
    result = replay(pipeline, where=first)
    assert (result.replayed, result.already_rows, result.refused) == (
        1,
        0,
        0 if second_first else 1,
    )
    result = replay(pipeline, where=second)
    assert (result.replayed, result.already_rows) == (0, 0)
    assert result.reasons == {append_replay.OTHER_ROW: 2 if second_first else 1}
    assert ids(pipeline) == sorted([4, 5 if second_first else 2, 6])
    assert letters(pipeline) == [(0, "1"), (1, "2" if second_first else "5")]
    result = replay(pipeline)
    assert (result.replayed, result.already_rows, result.refused) == (0, 0, 2)
    assert len(letters(pipeline)) == 2


@pytest.mark.parametrize("upserts", [False, True])
def test_after_the_earlier_letters_are_dropped_the_others_are_replayed(recreated, upserts):
    pipeline = recreated(FIRST, SECOND, upserts=upserts)
    earlier = second_topic(pipeline).replace(">=", "<")
    assert delete_dead_letters(pipeline.configuration, pipeline.topic, where=earlier) == 2
    assert replay(pipeline).replayed == 1
    assert ids(pipeline) == [4, 5, 6]
    assert letters(pipeline) == []


def test_an_upsert_replays_both_topics_one_after_the_other(recreated):
    pipeline = recreated(FIRST, SECOND, upserts=True)
    latest = second_topic(pipeline)
    assert replay(pipeline, where=latest).replayed == 1
    assert letters(pipeline) == [(0, "1"), (1, "2")]
    assert replay(pipeline, where=latest.replace(">=", "<")).replayed == 2
    assert ids(pipeline) == [1, 2, 4, 5, 6]
    assert letters(pipeline) == []


@pytest.mark.parametrize(
    ("kafka_columns", "routed"), [(False, False), (True, False), (False, True)]
)
def test_letters_at_the_offset_of_another_record_s_row_are_kept(recreated, kafka_columns, routed):
    pipeline = recreated(
        FIRST, [fits(4), fits(5), refused(6)], kafka_columns=kafka_columns, routed=routed
    )
    result = replay(pipeline)
    assert (result.replayed, result.already_rows, result.refused) == (1, 0, 2)
    assert result.reasons == {append_replay.OTHER_ROW: 2}
    assert ids(pipeline) == [4, 5, 6]
    assert letters(pipeline) == [(0, "1"), (1, "2")]


@pytest.mark.parametrize("kafka_columns", [False, True])
def test_after_an_interrupted_replay_only_letters_whose_row_is_known_are_deleted(
    recreated, kafka_columns, monkeypatch
):
    pipeline = recreated(FIRST, SECOND, kafka_columns=kafka_columns)
    latest = second_topic(pipeline)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(append_replay.AppendReplay, "_delete_done", lambda _: None)
        assert replay(pipeline, where=latest).replayed == 1
    result = replay(pipeline, where=latest)
    known = int(kafka_columns)  # letters of both topics have the offset 1
    assert (result.replayed, result.already_rows, result.refused) == (0, known, 1 - known)
    kept = [] if kafka_columns else [(1, "5")]
    assert letters(pipeline) == [(0, "1"), (1, "2"), *kept]


@pytest.mark.parametrize("routed", [False, True])
def test_after_an_interrupted_replay_letters_at_the_offset_of_a_pipeline_s_row_are_kept(
    recreated, routed, monkeypatch
):
    pipeline = recreated(FIRST, [fits(4), fits(5), refused(6)], routed=routed)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(append_replay.AppendReplay, "_delete_done", lambda _: None)
        assert replay(pipeline).replayed == 1
    result = replay(pipeline)
    assert (result.replayed, result.already_rows, result.refused) == (0, 1, 2)
    assert result.reasons == {append_replay.OTHER_ROW: 2}
    assert ids(pipeline) == [4, 5, 6]
    assert letters(pipeline) == [(0, "1"), (1, "2")]


def test_fingerprints_are_compared_only_at_repeated_offsets(small_pipeline, monkeypatch):
    small_pipeline.write_schema(STRICT)
    small_pipeline.produce(refused(1), refused(2), refused(3))
    small_pipeline.take_in()
    small_pipeline.evolves = True
    small_pipeline.write_file()
    again = small_pipeline.dead_letters.to_arrow(filter="offset = 1")
    bayou.write(small_pipeline.dead_letters.table_uri, again, mode="append")
    counts = []
    original = append_replay.record_identity.fingerprints

    def counted(records):
        counts.append(records.num_rows)
        return original(records)

    monkeypatch.setattr(append_replay.record_identity, "fingerprints", counted)
    assert replay(small_pipeline).replayed == 3
    assert sum(counts) == 2
    assert small_pipeline.dead_letters.to_arrow().num_rows == 0


def test_upserts_without_repeated_offsets_compare_no_fingerprints(small_pipeline, monkeypatch):
    small_pipeline.upserts = True
    small_pipeline.write_schema(STRICT)
    small_pipeline.write_file()
    small_pipeline.produce(refused(1), refused(2))
    small_pipeline.take_in()
    small_pipeline.evolves = True
    small_pipeline.write_file()

    def not_called(_records):
        raise AssertionError

    monkeypatch.setattr(upsert_replay.record_identity, "fingerprints", not_called)
    assert replay(small_pipeline).replayed == 2
    assert small_pipeline.dead_letters.to_arrow().num_rows == 0
