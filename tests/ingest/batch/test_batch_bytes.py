"""Batches that are limited by the bytes of their records."""

from __future__ import annotations

import pytest

from bayou.errors import ConfigurationError
from bayou.ingest.batch.batch_bytes import record_limit, shorten_spans
from bayou.ingest.events import Reporter
from bayou.ingest.inspection import plan_run
from bayou.ingest.offsets import OffsetSpan, is_start
from bayou.ingest.runtime.prepared_topic import prepare_topic
from bayou.ingest.schema.files import topic_schemas
from support.in_process_pipeline import InProcessContext, new_topic_run

KILOBYTE = "x" * 1000


class Context(InProcessContext):
    """A session without the names of jobs."""

    def setJobDescription(self, _):  # noqa: N802
        """Nothing."""


class Listener(Reporter):
    """Keeps the reports of batches."""

    def __init__(self):
        self.reports = []

    def batch_committed(self, report):
        self.reports.append(report)

    def topic_started(self, event):
        pass

    def topic_finished(self, event):
        pass


@pytest.fixture
def limited(new_pipeline):
    def make(limit, **options):
        pipeline = new_pipeline(**options)
        pipeline.more = f"      processing: {{max-batch-bytes: {limit}, max-retries: 0}}\n"
        pipeline.write_file()
        return pipeline

    return make


def run_until(pipeline, end):
    """Run batches as the scheduler does; return their reports."""
    listener = Listener()
    configuration, topic = pipeline.configuration, pipeline.topic
    run = new_topic_run(configuration, topic, listener)
    run.prepare(once=False)
    run.start(None)
    limits = []
    for _ in range(100):
        limits.append(run.batch_limit)
        if not run.active or run.position == end:
            break
        assert run.run_batch(Context(), end) is None
    assert run.finish().error is None
    return listener.reports, limits


def test_no_batch_is_larger_and_no_record_is_lost_or_doubled(limited):
    pipeline = limited("10kb")
    pipeline.produce(*({"id": n, "name": KILOBYTE} for n in range(40)))
    pipeline.produce(*({"id": n} for n in range(100, 140)), partition=1)
    reports, _ = run_until(pipeline, {0: 40, 1: 40})
    assert all(0 < report.record_bytes <= 10 << 10 for report in reports)
    assert sum(report.records for report in reports) == 80
    assert len(reports) < 12
    ids = pipeline.table.to_arrow(columns=["id"]).column("id").to_pylist()
    assert sorted(ids) == [*range(40), *range(100, 140)]
    transactions = pipeline.table.snapshot().transactions
    covered = {k: v for k, v in transactions.items() if not is_start(k)}
    assert sorted(v for k, v in covered.items() if k.startswith("kafka/")) == [39, 39]


def test_the_size_of_the_last_records_sets_the_number_of_the_next(limited):
    pipeline = limited(10_000)
    pipeline.produce(*({"id": n, "name": KILOBYTE} for n in range(30)))
    reports, limits = run_until(pipeline, {0: 30, 1: 0})
    assert limits[0] == 100_000
    assert limits[1] == 8
    assert [report.records for report in reports][:2] == [8, 8]


def test_a_record_larger_than_the_limit_is_a_batch_of_its_own(limited):
    pipeline = limited(100)
    pipeline.produce({"id": 1, "name": KILOBYTE}, {"id": 2, "name": KILOBYTE}, {"id": 3})
    reports, _ = run_until(pipeline, {0: 3, 1: 0})
    assert [report.records for report in reports] == [1, 1, 1]


def test_dead_letters_of_a_batch_that_was_repeated_are_written_once(limited):
    pipeline = limited(3_000)
    pipeline.produce(*(KILOBYTE.encode() for _ in range(6)))
    reports, _ = run_until(pipeline, {0: 6, 1: 0})
    assert sum(report.dead_letters for report in reports) == 6
    assert pipeline.dead_letters.to_arrow().num_rows == 6
    files = list((pipeline.folder / "lake" / "events_dead_letters").rglob("*.parquet"))
    assert len(files) == len([report for report in reports if report.dead_letters])


def test_an_upsert_is_limited_likewise(limited):
    pipeline = limited("10kb", upserts=True)
    pipeline.produce(*({"id": n % 5, "name": KILOBYTE + str(n)} for n in range(40)))
    reports, _ = run_until(pipeline, {0: 40, 1: 0})
    assert all(report.record_bytes <= 10 << 10 for report in reports)
    names = pipeline.table.to_arrow(columns=["name"]).column("name").to_pylist()
    assert sorted(names) == sorted(KILOBYTE + str(n) for n in range(35, 40))


def test_a_batch_that_is_repeated_after_its_commit_continues_behind_it(limited):
    pipeline = limited(5_000)
    pipeline.produce(*({"id": n, "name": KILOBYTE} for n in range(12)))
    first = pipeline.take_in()
    whole = {0: OffsetSpan(start=0, end=12)}
    assert first.spans[0].end < 12
    configuration, topic = pipeline.configuration, pipeline.topic
    schema = topic_schemas(configuration)[topic.key]
    writer = prepare_topic(configuration, topic, schema, Listener()).writer
    second = writer.process(Context(), whole)
    assert second.spans[0].start == first.spans[0].end
    assert pipeline.table.to_arrow().num_rows == first.rows + second.rows


def test_the_plan_counts_commits_by_bytes(limited):
    pipeline = limited(10_000)
    pipeline.produce(*({"id": n, "name": KILOBYTE} for n in range(80)))
    (plan,) = plan_run(pipeline.configuration, pipeline.configuration.topics)
    assert plan.commits == 10


@pytest.mark.parametrize("limit", ["0", "-1", "ten", "1.5gb"])
def test_a_limit_that_is_no_size_is_refused(limited, limit):
    with pytest.raises(ConfigurationError, match=r"processing\.max-batch-bytes"):
        _ = limited(limit).configuration


def test_a_limit_of_records_counts_beside_the_limit_of_bytes():
    assert record_limit(100, None, 50.0) == 100
    assert record_limit(100, 1000, 0.0) == 100
    assert record_limit(100, 1000, 50.0) == 18
    assert record_limit(5, 1000, 50.0) == 5
    assert record_limit(100, 10, 50.0) == 1


def test_each_partition_keeps_an_offset_of_a_shortened_batch():
    spans = {0: OffsetSpan(start=0, end=90), 1: OffsetSpan(start=5, end=15)}
    assert shorten_spans(spans, 10) == {
        0: OffsetSpan(start=0, end=9),
        1: OffsetSpan(start=5, end=6),
    }
    assert shorten_spans({0: OffsetSpan(start=3, end=4)}, 1) is None
