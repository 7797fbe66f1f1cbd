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
from bayou.spark.kafka.options import TopicSelection, parse_options
from bayou.spark.kafka.planning import resolve_position

PARTITION = TopicPartition("t", 0)


class Admin:
    """Answers by errors, so many times, before it answers."""

    def __init__(self, *errors):
        self.errors = list(errors)

    def poll(self, timeout):
        return 0

    def list_offsets(self, asked, **_):
        return {partition: self._answer(SimpleNamespace(offset=7)) for partition in asked}

    def list_topics(self, **_):
        return SimpleNamespace(topics={})

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


def test_a_partition_that_its_leader_does_not_know_yet_is_asked_for_again():
    unknown = ClientError.UNKNOWN_TOPIC_OR_PART
    assert cluster(unknown, unknown).latest([PARTITION]) == {PARTITION: 7}
    assert cluster(unknown, timeout=0).latest([PARTITION]) == {}


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


@pytest.mark.parametrize("timestamp", [None, 5])
def test_a_start_is_no_start_without_each_partition(timestamp):
    unknown = ClientError.UNKNOWN_TOPIC_OR_PART  # of a leader that is new
    options = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "startingOffsets": "latest"}
    if timestamp is not None:
        options["startingTimestamp"] = str(timestamp)
    parsed = parse_options(options)
    start = parsed.stream_start()
    with pytest.raises(KafkaError, match=r"topic 't' partition 0: .* report no offsets\. "):
        resolve_position(start, [PARTITION], cluster(unknown, timeout=0), parsed, "startingOffsets")
    assert resolve_position(start, [PARTITION], cluster(), parsed, "startingOffsets") == {
        PARTITION: 7
    }


def test_an_offset_that_the_client_does_not_know_is_asked_for_again():
    class Disconnected(Admin):
        def list_offsets(self, asked, **_):
            if not self.errors:
                return super().list_offsets(asked)
            self.errors.pop()
            unknown = Future()
            unknown.set_result(SimpleNamespace(offset=-1001))
            return dict.fromkeys(asked, unknown)

    found = cluster()
    found._admin = Disconnected("once", "twice")
    assert found.latest([PARTITION]) == {PARTITION: 7}
    found._admin = Disconnected("once")
    assert found.earliest([PARTITION]) == {PARTITION: 7}


def test_a_partition_without_a_leader_hides_no_others():
    lost = TopicPartition("lost", 1)

    class OneLeaderless(Admin):
        def list_offsets(self, asked, **_):
            if any(p.topic == "lost" for p in asked):
                self.errors = [ClientError._TIMED_OUT] * len(asked)
            return super().list_offsets(asked)

        def list_topics(self, **_):
            leaders = {"lost": {0: 2, 1: -1}, "t": {0: 2}}
            return SimpleNamespace(
                topics={
                    topic: SimpleNamespace(
                        partitions={n: SimpleNamespace(leader=at) for n, at in of.items()}
                    )
                    for topic, of in leaders.items()
                }
            )

    found = cluster(timeout=0.3)
    found._admin = OneLeaderless()
    with pytest.raises(KafkaError, match="'lost' partition 1: .* report no offsets") as raised:
        found.latest([PARTITION, lost])
    assert raised.value.topic == "lost"


@pytest.mark.parametrize("servers", ["127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2", "no.invalid:9092"])
def test_refused_connections_are_an_error_long_before_the_timeout(servers):
    an_hour = 3600.0
    cluster = KafkaCluster(parse_properties({"bootstrap.servers": servers}), an_hour)
    with pytest.raises(KafkaError, match=r"no answer within 1 s \(.*(refused|resolve)"):
        cluster.partitions(TopicSelection(topics=("t",)))


def test_a_cluster_that_has_answered_is_waited_for(broker):
    properties = parse_properties({"bootstrap.servers": broker.bootstrap_servers})
    broker.create_topic("waited")
    cluster = KafkaCluster(properties, 4.0)
    (partition,) = cluster.partitions(TopicSelection(topics=("waited",)))
    cluster._client_errors.refused = True
    cluster._created -= 60  # as if it had been open for a minute
    assert cluster.latest([partition]) == {partition: 0}
