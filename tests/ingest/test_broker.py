"""Where topics end, asked for many at once."""

from __future__ import annotations

import pytest

from bayou.errors import KafkaError
from bayou.ingest.broker import TopicEndOffsets, describe_topic
from bayou.spark.kafka.offsets import TopicPartition


class Cluster:
    """Tells about all topics but those that it refuses, the first time or later."""

    def __init__(self, *, hidden=(), without_leader=()):
        self.hidden, self.without_leader = hidden, without_leader

    def partitions(self, selection):
        self._refuse(selection.topics, self.hidden)
        return [TopicPartition(name, 0) for name in selection.topics if name != "deleted"]

    def latest(self, partitions):
        self._refuse([p.topic for p in partitions], self.without_leader)
        return dict.fromkeys(partitions, 7)

    def _refuse(self, names, refused):
        for name in names:
            if name in refused:
                raise KafkaError("not told", topic=name)


def ends(**refused):
    found = TopicEndOffsets({"bootstrap.servers": "127.0.0.1:1"})
    found._cluster = Cluster(**refused)
    return found


@pytest.mark.parametrize("refused", [{"hidden": ["b"]}, {"without_leader": ["b"]}])
def test_a_topic_that_brokers_do_not_tell_about_hides_no_other(refused):
    asked = ends(**refused)
    for _ in range(2):
        assert asked.latest(["a", "b", "c", "deleted"]) == {"a": {0: 7}, "c": {0: 7}}


def test_a_topic_that_may_be_seen_again_is_found():
    asked = ends(hidden=["b"])
    assert asked.latest(["b"]) == {}
    asked._cluster.hidden = ()
    asked.reload_partitions()
    assert asked.latest(["b"]) == {"b": {0: 7}}


def test_a_topic_that_comes_later_is_found_at_once():
    asked = ends()
    assert asked.latest(["a"]) == {"a": {0: 7}}
    assert asked.latest(["a", "b"]) == {"a": {0: 7}, "b": {0: 7}}
    assert asked.latest([]) == {}


def test_a_topic_that_is_asked_for_later_is_told_at_once():
    asked = ends()
    assert asked.latest(["a"]) == {"a": {0: 7}}
    assert asked.latest(["a", "b"]) == {"a": {0: 7}, "b": {0: 7}}
    assert asked.latest([]) == {}


def test_a_topic_is_still_known_after_a_request_without_it():
    asked = ends()
    both = {"a": {0: 7}, "b": {0: 7}}
    assert asked.latest(["a", "b"]) == both
    assert asked.latest(["a"]) == {"a": {0: 7}}
    assert asked.latest(["a", "b"]) == both


def test_brokers_that_do_not_answer_are_an_error_for_all():
    asked = ends()

    def silent(selection):
        raise KafkaError("No answer")

    asked._cluster.partitions = silent
    with pytest.raises(KafkaError, match="No answer"):
        asked.latest(["a", "b"])


class Forgetful(Cluster):
    """A cluster of which one broker starts: it knows a topic, and not each partition."""

    def __init__(self, *, told, bounds):
        super().__init__()
        self.told, self.bounds = told, bounds

    def identity(self, name):
        return "cluster", "id"

    def partitions(self, selection):
        return [TopicPartition(name, p) for name in selection.topics for p in self.told]

    def earliest(self, partitions):
        return {p: 0 for p in partitions if p.partition in self.bounds}

    def latest(self, partitions):
        return {p: 7 for p in partitions if p.partition in self.bounds}


@pytest.mark.parametrize(
    ("told", "bounds", "reason"),
    [
        ([0, 1], [0], "but report no offsets of its partition 1"),
        ([], [], "but report no partitions"),
    ],
)
def test_a_partition_that_a_starting_broker_does_not_know_is_no_recreated_topic(
    monkeypatch, told, bounds, reason
):
    monkeypatch.setattr(
        "bayou.ingest.broker.KafkaCluster", lambda _: Forgetful(told=told, bounds=bounds)
    )
    with pytest.raises(KafkaError, match=reason):
        describe_topic("t", {"bootstrap.servers": "127.0.0.1:1"})
