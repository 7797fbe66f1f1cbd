"""What planning asks of brokers that are busy with something else for a moment."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from uuid import UUID

import pytest
from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException

from bayou.errors import KafkaError
from bayou.spark.kafka.client import parse_properties
from bayou.spark.kafka.cluster import KafkaCluster
from bayou.spark.kafka.offsets import TopicPartition

PARTITION = TopicPartition("t", 0)


class Admin:
    """Answers by errors, so many times, before it answers."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def poll(self, timeout):
        return 0

    def list_offsets(self, asked, **_):
        return {partition: self._answer(SimpleNamespace(offset=7)) for partition in asked}

    def describe_topics(self, topics, **_):
        id_ = UUID(int=3)
        topic_id = SimpleNamespace(
            get_most_significant_bits=lambda: id_.int >> 64,
            get_least_significant_bits=lambda: id_.int & (1 << 64) - 1,
        )
        return {"t": self._answer(SimpleNamespace(topic_id=topic_id))}

    def _answer(self, value):
        answer = Future()
        if self.errors:
            answer.set_exception(KafkaException(ClientError(self.errors.pop(0))))
        else:
            answer.set_result(value)
        return answer


def cluster(*errors, timeout=30.0):
    found = KafkaCluster(parse_properties({"bootstrap.servers": "127.0.0.1:1"}), timeout)
    found._admin = Admin(*errors)
    return found


@pytest.mark.parametrize(
    "error",
    [
        ClientError.FENCED_LEADER_EPOCH,
        ClientError.UNKNOWN_LEADER_EPOCH,
        ClientError.LEADER_NOT_AVAILABLE,
        ClientError.NOT_LEADER_FOR_PARTITION,
        ClientError.OFFSET_NOT_AVAILABLE,
        ClientError._TIMED_OUT,
    ],
)
def test_what_passes_is_asked_again(error):
    assert cluster(error, error).latest([PARTITION]) == {PARTITION: 7}
    assert cluster(error, error).topic_id("t") is not None


def test_what_does_not_pass_within_the_timeout_is_no_answer():
    busy = cluster(*[ClientError.FENCED_LEADER_EPOCH] * 9, timeout=0.0)
    with pytest.raises(KafkaError, match="no answer within"):
        busy.latest([PARTITION])
    with pytest.raises(KafkaError, match="no answer within"):
        busy.topic_id("t")


def test_what_never_passes_is_told_at_once():
    refused = ClientError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="report no offsets"):
        cluster(refused).latest([PARTITION])
    with pytest.raises(KafkaError, match="topic 't': the brokers .* can't describe it"):
        cluster(refused).topic_id("t")


def test_a_partition_without_a_leader_is_named_where_others_are_told():
    lost = TopicPartition("lost", 1)

    class Half(Admin):
        def list_offsets(self, asked, **_):
            answers = super().list_offsets([p for p in asked if p.topic == "t"])
            self.errors = [ClientError._NOENT]
            return answers | super().list_offsets([p for p in asked if p.topic == "lost"])

    found = cluster(timeout=0.2)
    found._admin = Half()
    with pytest.raises(
        KafkaError, match=r"topic 'lost' partition 1: .* report no offsets"
    ) as raised:
        found.latest([PARTITION, lost])
    assert raised.value.topic == "lost"
