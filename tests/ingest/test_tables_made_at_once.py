"""Tables that another process makes between the look at whether they are there and the commit."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from bayou.errors import CommitConflictError, PipelineError
from bayou.ingest.batch.target import target_and_dead_letters
from bayou.ingest.config.table_paths import ledger_path
from bayou.ingest.migration.ledger import Ledger, Part
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.runtime import prepared_topic
from bayou.spark.kafka.embedded_broker import ProducedRecord
from support.in_process_pipeline import InProcessContext, take_in
from support.rivals import EngineWithRival


def part(source):
    return Part(
        source=source,
        batch=0,
        file="a.json",
        size=1,
        skipped=0,
        records=1,
        first=0,
        complete=True,
        checksum="",
    )


def test_of_two_first_batches_of_migrations_the_ledger_refuses_one(tmp_path):
    path = str(tmp_path / "events")
    log = f"{ledger_path(path)}/_delta_log"
    ledger, rival = Ledger(path, {}), Ledger(path, {})

    def rival_adds():
        rival.add([part("rival")], 0)

    ledger._engine = EngineWithRival(ledger._engine, log, rival_adds, looks=1)
    with pytest.raises(CommitConflictError):
        ledger.add([part("mine")], 0)
    state = ledger.read()
    assert ([p.source for p in state.parts], state.commits) == (["rival"], 1)
    assert len(list((tmp_path / "events_migration").glob("*.parquet"))) == 1


@pytest.mark.parametrize("upserts", [False, True])
@pytest.mark.parametrize("looks", range(3))
def test_two_pipelines_that_make_a_table_at_once_double_nothing(
    new_pipeline, monkeypatch, upserts, looks
):
    pipeline = new_pipeline(upserts=upserts)
    pipeline.produce({"id": 1}, {"id": 2}, b"bad", {"id": 3}, {"id": 1})
    log = f"{pipeline.path}/_delta_log"
    made = target_and_dead_letters.for_path

    def rival():
        monkeypatch.setattr(target_and_dead_letters, "for_path", made)
        monkeypatch.setattr(prepared_topic, "describe_topic", as_it_began)
        pipeline.take_in()

    describe = prepared_topic.describe_topic

    def as_it_began(name, properties):
        return replace(describe(name, properties), bounds={0: OffsetSpan(start=0, end=2)})

    def engine(path, options):
        return EngineWithRival(made(path, options), log, rival, looks=looks)

    monkeypatch.setattr(target_and_dead_letters, "for_path", engine)
    monkeypatch.setattr("bayou.ingest.batch.micro_batch.retry_delay", lambda _: 0)
    with suppress(PipelineError):  # "run one copy only"
        pipeline.take_in()
    monkeypatch.setattr(prepared_topic, "describe_topic", describe)
    pipeline.take_in()
    ids = sorted(pipeline.table.to_arrow()["id"].to_pylist())
    assert ids == ([1, 2, 3] if upserts else [1, 1, 2, 3])
    assert pipeline.dead_letters.to_arrow()["value"].to_pylist() == [b"bad"]


def test_of_two_first_runs_that_begin_at_the_end_the_first_one_says_where(
    new_pipeline, monkeypatch
):
    pipeline = new_pipeline()
    pipeline.more = "      starting-offsets: latest\n"
    pipeline.write_file()
    pipeline.produce({"id": 1}, {"id": 2})
    made, describe = target_and_dead_letters.for_path, prepared_topic.describe_topic

    def as_it_began(name, properties):
        return replace(describe(name, properties), bounds={0: OffsetSpan(start=0, end=1)})

    def rival():
        monkeypatch.setattr(target_and_dead_letters, "for_path", made)
        monkeypatch.setattr(prepared_topic, "describe_topic", as_it_began)
        pipeline.take_in()

    def engine(path, options):
        log = f"{pipeline.path}_dead_letters/_delta_log"
        return EngineWithRival(made(path, options), log, rival, looks=3)

    monkeypatch.setattr(target_and_dead_letters, "for_path", engine)
    pipeline.take_in()
    assert pipeline.table.to_arrow()["id"].to_pylist() == [2]


def test_deleted_keys_of_a_table_that_another_pipeline_has_made_are_kept(new_pipeline, monkeypatch):
    class LateSession(InProcessContext):
        def parallelize(self, values, slices):
            if not ran:
                ran.append(True)
                pipeline.broker.produce(pipeline.kafka_topic, [gone])
                pipeline.take_in()
            return super().parallelize(values, slices)

    pipeline, ran = new_pipeline(upserts=True), []
    pipeline.produce({"id": 1}, {"id": 2})
    gone = ProducedRecord(None, key=b"1", partition=0, timestamp=LATER)
    monkeypatch.setattr("bayou.ingest.batch.micro_batch.retry_delay", lambda _: 0)
    with suppress(PipelineError):  # "run one copy only"
        take_in(pipeline.file, session=LateSession())
    old = ProducedRecord(b'{"id": 1}', partition=1, timestamp=LATER - 1)
    pipeline.broker.produce(pipeline.kafka_topic, [old])
    pipeline.take_in()
    assert pipeline.table.to_arrow()["id"].to_pylist() == [2]


LATER = 4_000_000_000_000
"""Milliseconds since the epoch, later than the records that get the time of now."""
