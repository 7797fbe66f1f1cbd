"""What events and looks add up to."""

from __future__ import annotations

import pytest

from bayou.errors import PipelineError, StorageError
from bayou.ingest.config import load_configuration
from bayou.ingest.events import (
    AttemptFailed,
    BatchReport,
    MaintenanceReport,
    RecordsLost,
    TopicStarted,
    TopicSummary,
)
from bayou.ingest.maintenance import LastRuns
from bayou.ingest.monitoring import Listeners, StatusStore
from bayou.ingest.monitoring.metrics import exposition
from bayou.ingest.offsets import OffsetSpan


class Clock:
    now = 1_000.0
    set_by = 0.0

    def __call__(self):
        return self.now + self.set_by

    def steady(self):
        return self.now - 500.0


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'h:1'}\n  topics:\n"
        "    a: {kafka-topic: a, destination: {table-path: a}, slo: {freshness-seconds: 30}}\n"
        "    b: {kafka-topic: b, destination: {table-path: b}}\n"
    )
    return StatusStore(load_configuration(file, environment={}), clock, clock.steady)


def started(topic="a", **positions):
    return TopicStarted(
        topic=topic,
        kafka_topic=topic,
        table_path=topic,
        partitions=1,
        waiting=0,
        positions={int(p[1:]): o for p, o in positions.items()},
    )


def batch(start, end, **facts):
    facts = {"rows": end - start, "version": 0, **facts}
    return BatchReport(topic="a", spans={0: OffsetSpan(start=start, end=end)}, **facts)


def topic(store, key="a"):
    return next(t for t in store.status().topics if t.topic == key)


def test_nothing_is_ready_before_every_topic_started(store):
    assert not store.status().ready
    store.topic_started(started("a"))
    assert not store.status().ready
    store.topic_started(started("b"))
    assert store.status().ready


def test_a_failed_topic_is_named_with_its_reason(store):
    store.topic_started(started("a"))
    store.topic_started(started("b"))
    error = PipelineError("it broke", topic="a")
    store.topic_finished(TopicSummary(topic="a", table_path="a", error=error))
    status = store.status()
    assert (status.ready, status.healthy) == (False, True)
    assert (topic(store).state, topic(store).error) == ("failed", "it broke")
    store.topic_finished(TopicSummary(topic="b", table_path="b", error=error))
    assert not store.status().healthy


def test_lag_and_freshness_follow_what_waits(store, clock):
    store.topic_started(started(p0=10))
    store.set_end_offsets("a", {0: 10}, {})
    assert (topic(store).waiting, topic(store).freshness) == (0, 0.0)
    clock.now += 10
    store.set_end_offsets("a", {0: 25}, {})
    clock.now += 5
    assert topic(store).waiting == 15
    assert topic(store).freshness == 15.0  # it came after the first look, at most so old
    store.batch_committed(batch(10, 25))
    assert (topic(store).waiting, topic(store).freshness) == (0, 0.0)


def test_freshness_is_the_age_of_the_oldest_that_waits_not_of_the_newest(store, clock):
    store.topic_started(started(p0=0))
    for end in range(0, 60, 10):
        store.set_end_offsets("a", {0: end}, {})
        clock.now += 10
    assert topic(store).freshness == 60.0
    store.batch_committed(batch(0, 30))
    assert topic(store).freshness == 30.0


def test_records_that_waited_before_the_start_are_as_old_as_they_say(store, clock):
    store.topic_started(started(p0=5))
    assert store.unknown_arrivals("a", {0: 9}) == {0: 5}
    store.set_end_offsets("a", {0: 9}, {0: clock.now - 500})
    assert topic(store).freshness == 500.0
    assert store.unknown_arrivals("a", {0: 9}) == {}
    store.batch_committed(batch(5, 9))
    assert topic(store).freshness == 0.0


def test_looks_that_miss_the_objective_are_counted(store, clock):
    store.topic_started(started(p0=0))
    store.set_end_offsets("a", {0: 0}, {})
    store.set_end_offsets("a", {0: 5}, {})
    clock.now += 31
    store.set_end_offsets("a", {0: 5}, {})
    assert (topic(store).checks, topic(store).misses) == (3, 1)
    assert topic(store).late


def test_retries_count_when_they_are_made(store):
    store.topic_started(started(p0=0))
    error = StorageError("away", path="x")
    for retry, conflict in enumerate((True, False), 1):
        store.attempt_failed(
            AttemptFailed(
                topic="a",
                what="batch",
                retry=retry,
                of=3,
                pause=0.5,
                conflict=conflict,
                error=error,
            )
        )
    assert (topic(store).retries, topic(store).conflicts) == (2, 1)


def test_offsets_that_were_lost_add_up_and_count_once_however_often_they_are_told(store):
    for start, end in ((5, 7), (5, 7), (5, 10), (20, 24)):
        span = OffsetSpan(start=start, end=end)
        store.records_lost(RecordsLost(topic="a", spans={0: span, 1: span}))
    assert topic(store).lost == 18
    assert b'bayou_lost_offsets_total{topic="a"} 18.0' in exposition(store.status())


def test_batches_add_up(store, clock):
    store.topic_started(started(p0=0))
    clock.now += 10
    store.batch_committed(batch(0, 100, seconds=0.2, bytes=5))
    store.batch_committed(batch(100, 150, seconds=400, dead_letters=3, version=None))
    found = topic(store)
    assert (found.rows, found.batches, found.dead_letters) == (150, 2, 3)
    assert (found.bytes, found.version) == (5, 0)
    assert found.batch_seconds.counts[1] == found.batch_seconds.counts[-1] == 1
    assert found.rows_per_second == 15.0
    assert [c.rows for c in store.status().commits] == [50, 100]


def test_records_of_an_upsert_count_by_what_became_of_them(store):
    for _ in range(2):
        store.batch_committed(batch(0, 10, rows=3, deleted=2, superseded=5))
    found = topic(store)
    assert (found.rows, found.deleted, found.superseded) == (6, 4, 10)
    metrics = exposition(store.status())
    assert b'bayou_deleted_rows_total{topic="a"} 4.0' in metrics
    assert b'bayou_superseded_total{topic="a"} 10.0' in metrics


def test_maintenance_that_is_told_late_does_not_turn_the_version_back(store):
    table = topic(store).table_path
    store.batch_committed(batch(0, 1, version=5))
    for path, version in ((table, 3), (f"{table}_deleted_keys", 9)):
        store.maintenance_finished(
            MaintenanceReport(
                topic="a", task="optimize", table_path=path, started=0.0, version=version
            )
        )
        assert topic(store).version == 5


def test_maintenance_that_an_earlier_process_failed_at_is_known_while_it_is_asked_for(tmp_path):
    file = tmp_path / "p.yaml"
    text = (
        "connector:\n  state-path: state\n  topics:\n    a: {kafka-topic: a, destination: "
        "{table-path: a, delta-config: {enable-vacuum: true}}}\n"
    )
    file.write_text(text)
    configuration = load_configuration(file, environment={})
    for task in ("vacuum", "optimize"):  # the latter isn't enabled any more
        LastRuns(configuration.state_path, "a").keep(
            MaintenanceReport(
                topic="a",
                task=task,
                table_path="a",
                started=100.0,
                result="failed",
                error=StorageError("no space", path="a"),
            )
        )
    status = StatusStore(configuration).status()
    (run,) = status.topics[0].maintenance
    assert (run.task, run.at, run.result, run.runs) == ("vacuum", 100.0, "failed: no space", 0)
    metrics = exposition(status)
    assert b'bayou_maintenance_ok{task="vacuum",topic="a"} 0.0' in metrics
    assert b'bayou_maintenance_runs_total{task="vacuum",topic="a"} 0.0' in metrics


@pytest.mark.parametrize("days", [-400, -0.04, 0.04, 400])
def test_a_clock_that_jumps_changes_no_age_and_no_rate(store, clock, days):
    store.topic_started(started(p0=0))
    store.set_end_offsets("a", {0: 0}, {})
    clock.now += 20
    store.batch_committed(batch(0, 100))
    store.set_end_offsets("a", {0: 105}, {})
    clock.set_by = days * 24 * 3600
    clock.now += 20
    store.set_end_offsets("a", {0: 105}, {})
    found = topic(store)
    assert (found.freshness, found.rows_per_second) == (40.0, 2.5)
    assert (found.checks, found.misses) == (3, 1)
    status = store.status()
    assert (status.at, status.at - status.began) == (clock(), 40.0)
    assert clock() - found.last_commit == 20.0  # by the clock that whoever asks has
    assert [round(clock() - s.at) for s in found.samples] == [40, 20, 0, 0]
    assert clock() - status.commits[0].at == 20.0


def test_records_that_waited_before_the_start_keep_their_age_after_a_jump(store, clock):
    store.topic_started(started(p0=5))
    clock.set_by = 5_000.0
    store.set_end_offsets("a", {0: 9}, {0: clock() - 500})
    assert topic(store).freshness == 500.0


def test_memory_is_bounded(store, clock):
    store.topic_started(started(p0=0))
    for number in range(2_000):
        clock.now += 1
        store.set_end_offsets("a", {0: number}, {})
        store.batch_committed(batch(number, number + 1))
    samples = topic(store).samples
    assert len(samples) <= 361
    assert samples[-1].at - samples[0].at > 1_900  # up to an hour, however many batches there are
    assert len(store.status().commits) == 50


def test_a_long_stall_takes_bounded_memory_and_stays_as_old_as_it_is(store, clock):
    store.topic_started(started(p0=0))
    store.set_end_offsets("a", {0: 0}, {})
    for number in range(1, 3_001):
        clock.now += 1
        store.set_end_offsets("a", {0: number}, {})
    assert topic(store).freshness == 3_000.0
    assert len(store._topics["a"].partitions[0].arrivals) <= 1_024
    store.batch_committed(batch(0, 3_000))
    assert topic(store).freshness == 0.0


def test_listeners_that_know_few_events_hear_those(store):
    heard = []

    class Curious:
        def topic_started(self, event):
            heard.append(event)

        batch_committed = topic_finished = migrated = topic_started
        maintenance_finished = topic_started

        def something_new(self, event):
            heard.append(event)

    listeners = Listeners(store, Curious())
    listeners.something_new("news")
    listeners.nobody_listens("silence")
    listeners.topic_started(started("a"))
    assert heard == ["news", started("a")]


def test_a_topic_of_a_pattern_that_cannot_be_run_is_shown_beside_the_others(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'h:1'}\n  topics:\n"
        "    s: {kafka-topic-pattern: ev.*, destination: {table-path: 'lake/{topic}'}}\n"
    )
    configuration = load_configuration(file, environment={})
    store = StatusStore(configuration.with_matching({"ev", "ev_dead_letters"}))
    error = PipelineError("topic 's/ev_dead_letters': table-path", topic="s/ev_dead_letters")
    store.topic_finished(TopicSummary(topic=error.topic, table_path="x", error=error))
    store.topic_started(started("s/ev"))
    states = {topic.topic: topic.state for topic in store.status().topics}
    assert states == {"s/ev": "running", "s/ev_dead_letters": "failed"}
