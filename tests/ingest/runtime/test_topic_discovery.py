"""Topics that appear and disappear while a pipeline runs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bayou.errors import KafkaError, PipelineError
from bayou.ingest.config import load_configuration
from bayou.ingest.runtime import topic_discovery
from bayou.ingest.runtime.topic_discovery import TopicDiscovery
from support.waiting import wait_until


class Run:
    """A run of a topic; it is active from its preparation until `ended`."""

    def __init__(self, topic):
        self.topic = topic
        self.active = False
        self.error = None
        self.abandoned = False

    @property
    def has_work(self):
        return self.error is None

    def prepare(self, *, once):
        assert not once
        try:
            self.topic.check_table()
        except PipelineError as error:
            self.end(error)
        else:
            self.active = True

    def end(self, error=None):
        self.active = False
        self.error = error

    def abandon(self):
        self.abandoned = True


class Restarts:
    def __init__(self):
        self.preparing = set()
        self.canceled = []

    def cancel(self, key):
        if key in self.preparing:
            return False
        self.canceled.append(key)
        return True


@pytest.fixture
def brokers(monkeypatch):
    """The brokers: `names` are their topics, `error` is raised instead if it is set."""
    brokers = SimpleNamespace(names=set(), error=None, asked=0)

    def topic_names(properties):
        brokers.asked += 1
        if brokers.error is not None:
            raise brokers.error
        return set(brokers.names)

    monkeypatch.setattr(topic_discovery, "topic_names", topic_names)
    return brokers


@pytest.fixture
def discovery(tmp_path, brokers):
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "connector:\n  kafka: {bootstrap-servers: 'b:9092'}\n  topics:\n"
        "    p: {kafka-topic-pattern: 't.*', destination: {table-path: 'lake/{topic}'}}\n"
        "    named: {kafka-topic: n, destination: {table-path: 'lake/n'}}\n"
    )
    configuration = load_configuration(file, environment={})
    discovery = TopicDiscovery(configuration, Run, Restarts(), interval=0.0)
    runs = {"named": Run(configuration.topics[0])}
    return discovery, runs


def found(discovery, runs):
    """Wait for the next runs; add them to `runs`, and return their keys."""
    new = wait_until(lambda: discovery.prepared(runs))
    runs.update({run.topic.key: run for run in new})
    return sorted(run.topic.key for run in new)


def settled(discovery, runs, brokers):
    """Wait until the brokers have been asked twice, and nothing new was found."""
    asked = brokers.asked
    new = []
    wait_until(lambda: new.extend(discovery.prepared(runs)) or brokers.asked > asked + 1)
    assert new == []


def test_new_topics_are_prepared_once(discovery, brokers):
    discovery, runs = discovery
    settled(discovery, runs, brokers)
    brokers.names = {"t1", "other"}
    assert found(discovery, runs) == ["p/t1"]
    brokers.names = {"t1", "t2", "t3"}
    keys = found(discovery, runs)
    while len(keys) < 2:
        keys += found(discovery, runs)
    assert sorted(keys) == ["p/t2", "p/t3"]
    settled(discovery, runs, brokers)


def test_a_topic_that_was_deleted_is_started_when_it_is_there_again(discovery, brokers):
    discovery, runs = discovery
    brokers.names = {"t1"}
    found(discovery, runs)
    brokers.names = set()
    settled(discovery, runs, brokers)  # its run hasn't noticed yet
    brokers.names = {"t1"}
    settled(discovery, runs, brokers)
    brokers.names = set()
    runs["p/t1"].end(KafkaError("gone", topic="t1"))
    discovery._restarts.preparing.add("p/t1")
    settled(discovery, runs, brokers)
    assert discovery._restarts.canceled == []
    discovery._restarts.preparing.clear()
    settled(discovery, runs, brokers)
    assert discovery._restarts.canceled == ["p/t1"]
    brokers.names = {"t1"}
    assert found(discovery, runs) == ["p/t1"]


def test_brokers_that_do_not_answer_are_asked_again(discovery, brokers):
    discovery, runs = discovery
    brokers.error = KafkaError("no answer", topic=None)
    settled(discovery, runs, brokers)
    brokers.error = None
    brokers.names = {"t1"}
    assert found(discovery, runs) == ["p/t1"]


def test_a_topic_whose_table_is_taken_fails_and_the_others_start(discovery, brokers):
    discovery, runs = discovery
    brokers.names = {"t1", "t1_dead_letters"}
    keys = found(discovery, runs)
    while len(keys) < 2:
        keys += found(discovery, runs)
    assert runs["p/t1"].has_work
    assert "is the dead letter table of topic 'p/t1'" in runs["p/t1_dead_letters"].error.message


def test_a_topic_whose_dead_letters_have_a_topic_already_fails(discovery, brokers):
    discovery, runs = discovery
    brokers.names = {"t1_dead_letters"}
    assert found(discovery, runs) == ["p/t1_dead_letters"]
    brokers.names |= {"t1"}
    assert found(discovery, runs) == ["p/t1"]
    assert runs["p/t1_dead_letters"].has_work
    assert "t1_dead_letters is the dead letter table" in runs["p/t1"].error.message


def test_runs_that_were_never_started_are_abandoned(discovery, brokers):
    discovery, runs = discovery
    brokers.names = {"t1"}
    wait_until(lambda: discovery._poll(runs) or discovery._preparations)
    run = discovery._preparations["p/t1"].run
    discovery.end()
    assert run.abandoned
