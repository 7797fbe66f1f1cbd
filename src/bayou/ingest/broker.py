"""What the pipeline asks the broker before it starts: partitions, their bounds, identities."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.errors import ArgumentError, KafkaError
from bayou.ingest.offsets import KafkaTopic, OffsetSpan
from bayou.spark.kafka.cluster import KafkaCluster
from bayou.spark.kafka.options import TopicSelection
from bayou.spark.kafka.properties import parse_properties

__all__ = ["describe_topic"]


def describe_topic(name: str, properties: Mapping[str, str]) -> KafkaTopic:
    """Describe a topic.

    Args:
        name: the topic.
        properties: librdkafka's properties, `bootstrap.servers` among them.

    Raises:
        KafkaError: no broker answers, there is no such topic, or a property isn't usable.
    """
    try:
        cluster = KafkaCluster(parse_properties(properties))
        cluster_id, topic_id = cluster.identity(name)
    except ArgumentError as error:
        raise KafkaError(f"connector.kafka isn't usable: {error.message}", topic=name) from error
    if cluster_id is None:
        raise KafkaError(
            f"The brokers {properties['bootstrap.servers']} don't tell a cluster id, by which a "
            "table knows which cluster its offsets belong to; use Kafka 0.10.1 or newer.",
            topic=name,
        )
    partitions = cluster.partitions(TopicSelection(topics=(name,)))
    earliest, latest = cluster.earliest(partitions), cluster.latest(partitions)
    bounds = {
        p.partition: OffsetSpan(start=earliest[p], end=latest[p])
        for p in partitions
        if p in earliest and p in latest
    }
    return KafkaTopic(name=name, cluster_id=cluster_id, topic_id=topic_id, bounds=bounds)
