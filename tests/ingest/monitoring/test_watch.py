"""A look at real brokers and tables."""

from __future__ import annotations

from pathlib import Path

from bayou.errors import PipelineError
from bayou.ingest.events import TopicStarted, TopicSummary
from bayou.ingest.monitoring import StatusStore
from bayou.ingest.monitoring.watch import Watch


def started(pipeline, positions):
    """What is told when its topic begins there, one record before the end."""
    return TopicStarted(
        topic="events",
        kafka_topic=pipeline.kafka_topic,
        table_path=pipeline.path,
        partitions=2,
        waiting=1,
        positions=positions,
    )


def test_a_look_finds_lag_freshness_files_and_dead_letters(small_pipeline):
    small_pipeline.produce({"id": 1}, b"no json")
    small_pipeline.take_in()
    small_pipeline.produce({"id": 2})
    store = StatusStore(small_pipeline.configuration)
    watch = Watch(small_pipeline.configuration, store, interval=10)
    watch.look()  # nothing runs: nobody is asked
    assert store.status().topics[0].waiting is None
    store.topic_started(started(small_pipeline, {0: 2, 1: 0}))
    watch.look()
    (topic,) = store.status().topics
    assert topic.lag == {0: 1, 1: 0}
    assert 0 < topic.freshness < 300
    assert (topic.files, topic.small_files, topic.letters_waiting) == (1, 1, 1)
    assert topic.letters_by_reason == {"not valid JSON": 1}
    assert store.status().watch_error is None


def test_the_lag_of_a_topic_that_failed_grows_on(small_pipeline):
    store = StatusStore(small_pipeline.configuration)
    watch = Watch(small_pipeline.configuration, store, interval=10)
    failed = TopicSummary(topic="events", table_path="t", error=PipelineError("no", topic="events"))
    store.topic_finished(failed)
    small_pipeline.produce({"id": 1})
    watch.look()  # it never began: nobody knows what its table has
    assert store.status().topics[0].waiting is None
    store.topic_started(started(small_pipeline, {0: 0, 1: 0}))
    store.topic_finished(failed)
    small_pipeline.produce({"id": 2})
    watch.look()
    (topic,) = store.status().topics
    assert (topic.state, topic.waiting, topic.checks) == ("failed", 2, 1)


def test_a_table_that_does_not_answer_is_told_until_it_is_looked_at_again(small_pipeline):
    small_pipeline.produce({"id": 1})
    small_pipeline.take_in()
    store = StatusStore(small_pipeline.configuration)
    watch = Watch(small_pipeline.configuration, store, interval=10)
    store.topic_started(started(small_pipeline, {0: 1, 1: 0}))
    commit = Path(small_pipeline.path) / "_delta_log" / f"{0:020}.json"
    kept = commit.read_bytes()
    for stray in commit.parent.glob("*.crc"):
        stray.unlink()
    commit.write_bytes(b"no commit")
    watch.look()
    said = store.status().watch_error
    assert said is not None
    watch.look()  # the brokers answer, the table isn't due yet
    assert store.status().watch_error == said
    commit.write_bytes(kept)
    watch._tables_due.clear()
    watch.look()
    assert store.status().watch_error is None


def test_a_running_topic_that_brokers_do_not_tell_about_is_named_and_not_counted_as_fresh(
    small_pipeline,
):
    small_pipeline.kafka_topic = "gone"
    small_pipeline.write_file()
    store = StatusStore(small_pipeline.configuration)
    store.topic_started(started(small_pipeline, {0: 2, 1: 0}))
    Watch(small_pipeline.configuration, store, interval=10).look()
    assert "'events'" in store.status().watch_error
    assert store.status().topics[0].checks == 0
