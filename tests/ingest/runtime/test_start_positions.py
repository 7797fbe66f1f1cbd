"""Records that Kafka lets go of before they are read: the topic stops, or goes on and says so."""

from __future__ import annotations

import base64
import random

import pytest

from bayou.errors import KafkaError, PipelineError
from bayou.ingest.inspection import plan_run, prove_offsets, topic_status_reports
from bayou.ingest.offsets import OffsetSpan, ranges_between
from support.in_process_pipeline import Heard, InProcessContext, new_topic_run

_CONTINUE = "      on-data-loss: continue\n"


def much():
    """More than the broker keeps of a partition (5 MiB)."""
    texts = (base64.b64encode(random.randbytes(400_000)).decode() for _ in range(20))
    return [{"id": n, "name": text} for n, text in enumerate(texts)]


@pytest.mark.parametrize("upserts", [False, True])
def test_records_that_are_gone_stop_the_topic_or_are_passed_over_once(small_pipeline, upserts):
    small_pipeline.upserts = upserts
    small_pipeline.write_file()
    small_pipeline.produce({"id": 100}, {"id": 101})
    small_pipeline.produce({"id": 102}, partition=1)
    small_pipeline.take_in()
    with pytest.raises(KafkaError, match="dropped"):
        small_pipeline.produce(*much())
    small_pipeline.produce({"id": 103}, partition=1)
    with pytest.raises(PipelineError, match="of partition 0 .* were removed by retention before"):
        small_pipeline.take_in()
    (plan,) = plan_run(small_pipeline.configuration, small_pipeline.configuration.topics)
    assert "on-data-loss: continue" in plan.error
    small_pipeline.more = _CONTINUE
    small_pipeline.write_file()
    (plan,) = plan_run(small_pipeline.configuration, small_pipeline.configuration.topics)
    first = plan.spans[0].start
    assert (plan.lost[0].start, plan.lost[0].end) == (2, first)
    heard = Heard()
    report = small_pipeline.take_in(heard)
    (lost,) = heard.lost
    assert (lost.topic, lost.spans) == ("events", plan.lost)
    kept = list(range(first - 2, 20))
    assert 0 < len(kept) < 20
    assert report.rows == len(kept) + 1
    ids = small_pipeline.table.to_arrow(columns=["id"]).column("id").to_pylist()
    assert sorted(ids) == [*kept, 100, 101, 102, 103]
    tags = [commit.get("tags") or {} for commit in small_pipeline.table.history()]
    assert [t["lostOffsets"] for t in tags if "lostOffsets" in t] == [f"0:2-{first}"]
    assert small_pipeline.take_in(heard).records == 0
    assert len(heard.lost) == 1


@pytest.mark.parametrize("upserts", [False, True])
def test_records_of_a_partition_that_was_never_read_are_not_passed_over_silently(
    small_pipeline, upserts
):
    small_pipeline.upserts = upserts
    small_pipeline.write_file()
    small_pipeline.produce({"id": 100})
    small_pipeline.take_in()  # partition 1 is empty
    with pytest.raises(KafkaError, match="dropped"):
        small_pipeline.produce(*much(), partition=1)
    with pytest.raises(PipelineError, match="of partition 1 .* were removed by retention before"):
        small_pipeline.take_in()
    (plan,) = plan_run(small_pipeline.configuration, small_pipeline.configuration.topics)
    assert "on-data-loss: continue" in plan.error
    (status,) = topic_status_reports(small_pipeline.configuration, (small_pipeline.topic,))
    first = status.partitions[1].start
    assert status.partitions[1].lost == first
    small_pipeline.more = _CONTINUE
    small_pipeline.write_file()
    heard = Heard()
    assert small_pipeline.take_in(heard).rows == 20 - first
    assert [dict(lost.spans) for lost in heard.lost] == [{1: OffsetSpan(start=0, end=first)}]
    assert small_pipeline.take_in(heard).records == 0
    assert len(heard.lost) == 1


@pytest.mark.parametrize("upserts", [False, True])
def test_a_clone_starts_partitions_that_have_no_rows_where_the_table_did(new_pipeline, upserts):
    pipeline = new_pipeline(upserts=upserts)
    for partition in (0, 1):
        pipeline.produce({"id": 1}, {"id": 2}, partition=partition)
    text = pipeline.file.read_text()
    latest = "      starting-offsets: latest\n      schema-file"
    pipeline.file.write_text(text.replace("      schema-file", latest))
    pipeline.take_in()
    pipeline.produce({"id": 3})
    assert pipeline.take_in().rows == 1
    pipeline.table.clone(f"{pipeline.path}_clone")
    pipeline.file.write_text(pipeline.file.read_text().replace("lake/events", "lake/events_clone"))
    pipeline.produce({"id": 4}, partition=1)
    assert pipeline.take_in().rows == 1  # not the two older records of partition 1
    assert prove_offsets(pipeline.configuration, pipeline.topic).holds


def test_partitions_without_rows_start_where_they_were_when_rows_were_covered(new_pipeline):
    pipeline = new_pipeline()
    pipeline.produce({"id": 1}, {"id": 2})
    pipeline.take_in()
    pipeline.table.clone(f"{pipeline.path}_clone", transaction_identifiers=False)
    text = pipeline.file.read_text().replace("lake/events", "lake/events_clone")
    from_rows = "      on-missing-offsets: from-rows\n      schema-file"
    pipeline.file.write_text(text.replace("      schema-file", from_rows))
    assert pipeline.take_in().records == 0
    with pytest.raises(KafkaError, match="dropped"):
        pipeline.produce(*much(), partition=1)
    with pytest.raises(PipelineError, match="of partition 1 .* were removed by retention before"):
        pipeline.take_in()


@pytest.mark.parametrize("start", ["latest", "{0: 1, 1: 0}"])
def test_a_first_batch_with_dead_letters_follows_the_recorded_start(small_pipeline, start):
    """Both are committed to the dead letter table by one run."""
    small_pipeline.produce({"id": 0})
    more = f"      starting-offsets: {start}\n      schema-file"
    small_pipeline.file.write_text(
        small_pipeline.file.read_text().replace("      schema-file", more)
    )
    run = new_topic_run(small_pipeline.configuration, small_pipeline.topic, Heard())
    run.prepare(once=False)
    small_pipeline.produce({"id": 1}, b"{", {"id": 2})
    spans = ranges_between(run.position, {0: 4, 1: 0})
    report = run._prepared.writer.process(InProcessContext(), spans)
    assert (report.rows, report.dead_letters) == (2, 1)
    small_pipeline.produce(b"{")
    assert small_pipeline.take_in().dead_letters == 1


def _fill(pipeline):
    """Produce more to partition 0 than the broker keeps, so that its first records are gone."""
    with pytest.raises(KafkaError, match="dropped"):
        pipeline.produce(*much())


class _Failing:
    """A Spark session without which no batch succeeds."""

    @property
    def sparkContext(self):  # noqa: N802  # Spark's name
        raise PipelineError("no session")


def _begin(pipeline):
    """Prepare the first run of a topic that starts at `earliest` and has records."""
    pipeline.produce({"id": 100}, {"id": 101})
    heard = Heard()
    heard.topic_started = heard.topic_finished = lambda _: None
    run = new_topic_run(pipeline.configuration, pipeline.topic, heard)
    run.prepare(once=False)
    run.start(None)
    return run


@pytest.mark.parametrize("upserts", [False, True])
def test_records_that_are_gone_before_the_first_batch_stop_the_topic(new_pipeline, upserts):
    pipeline = new_pipeline(upserts=upserts)
    run = _begin(pipeline)
    _fill(pipeline)
    session = InProcessContext()
    session.setJobDescription = lambda _: None
    end = {0: 3, 1: 0}
    assert run.run_batch(session, end) is not None  # Kafka no longer has the records
    run.run_batch(session, end)
    error = run.finish().error
    assert "of partition 0" in str(error)
    assert "were removed by retention before" in str(error)
    with pytest.raises(PipelineError, match="of partition 0 .* were removed by retention before"):
        pipeline.take_in()  # also in the next process
    pipeline.more = _CONTINUE
    pipeline.write_file()
    (plan,) = plan_run(pipeline.configuration, pipeline.configuration.topics)
    first = plan.spans[0].start
    assert dict(plan.lost) == {0: OffsetSpan(start=0, end=first)}
    heard = Heard()
    assert pipeline.take_in(heard).rows == 22 - first
    assert [dict(lost.spans) for lost in heard.lost] == [plan.lost]
    assert pipeline.take_in(heard).records == 0
    assert len(heard.lost) == 1


def test_the_start_of_a_first_batch_that_fails_is_recorded(small_pipeline):
    run = _begin(small_pipeline)
    run.run_batch(_Failing(), {0: 2, 1: 0})
    assert run.finish().error is not None
    _fill(small_pipeline)
    with pytest.raises(PipelineError, match="offsets 0 to .* were removed by retention before"):
        small_pipeline.take_in()


def test_a_restarted_topic_starts_where_it_was_planned(small_pipeline):
    run = _begin(small_pipeline)
    run.end(KafkaError("the brokers don't answer"))
    run.finish()
    _fill(small_pipeline)
    again = new_topic_run(small_pipeline.configuration, small_pipeline.topic, Heard(), before=run)
    again.prepare(once=False)
    assert not again.has_work
    again._reporter.topic_finished = lambda _: None
    assert "were removed by retention before" in str(again.finish().error)


def test_earliest_takes_what_is_there_at_the_first_start(small_pipeline):
    _fill(small_pipeline)
    assert 0 < small_pipeline.take_in().rows < 20
    assert small_pipeline.take_in().records == 0
