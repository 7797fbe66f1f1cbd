"""A topic that is opened again after a failure."""

from __future__ import annotations

import pytest

from bayou.errors import KafkaError, StorageError
from bayou.ingest.progress import AttemptFailed
from bayou.ingest.schemas import topic_schemas
from bayou.ingest.topic_run import TopicRun


class Listener:
    """What is told of failures; the rest isn't of interest."""

    def __init__(self) -> None:
        self.failures: list[AttemptFailed] = []

    def attempt_failed(self, event):
        self.failures.append(event)

    def topic_started(self, event):
        pass

    def topic_finished(self, event):
        pass


@pytest.fixture
def run(small_pipeline):
    small_pipeline.produce({"id": 1})
    small_pipeline.take_in()
    configuration, topic = small_pipeline.configuration, small_pipeline.topic
    listener = Listener()
    found = TopicRun(configuration, topic, topic_schemas(configuration)[topic.key], listener)
    found.prepare(once=False)
    found.begin_turns()
    yield found, listener, small_pipeline
    found.abandon()


def test_a_store_that_fails_for_a_while_is_asked_again(run):
    run, listener, pipeline = run
    log = pipeline.folder / "lake" / "events" / "_delta_log"
    log.rename(log.with_name("aside"))
    log.symlink_to(log)
    assert run.turn(None, None) == 0.5
    (failure,) = listener.failures
    assert (failure.what, type(failure.error)) == ("query", StorageError)
    log.unlink()
    log.with_name("aside").rename(log)
    assert run.turn(None, None) is None
    assert run.active
    assert run.finish().error is None


class Failed:
    """A query that brokers have failed a moment ago."""

    active = False

    def failure(self):
        return KafkaError("no answer")

    def stop(self):
        """There is nothing to stop."""


def test_told_to_end_in_the_moment_of_a_failure_that_would_be_retried_it_ends_well(run):
    run, _, _ = run
    run._query = Failed()
    assert run.finish().error is None


def test_a_failure_that_would_not_be_retried_is_that_of_the_topic(run):
    run, _, pipeline = run
    run._failures = pipeline.topic.config.processing.max_retries
    run._query = Failed()
    assert isinstance(run.finish().error, KafkaError)


def test_an_end_from_before_the_topic_was_opened_again_leads_nowhere_back(run):
    run, _, _ = run
    before = run.position
    assert before[0] == 1
    assert run.turn(None, {0: 0, 1: 0}) is None
    assert run.position == before
