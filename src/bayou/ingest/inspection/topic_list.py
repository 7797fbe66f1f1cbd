"""The topics that a configuration names, and those that the brokers have."""

from __future__ import annotations

from dataclasses import dataclass

from bayou.errors import KafkaError
from bayou.ingest.broker import describe_topic, topic_names
from bayou.ingest.config import Configuration

__all__ = ["ListedTopic", "list_topics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTopic:
    """A Kafka topic.

    Attributes:
        kafka_topic: its name at the brokers.
        topic, table_path: its name in the configuration and its table, None where it isn't there.
        partitions, offsets: how many the brokers have, None where they have no such topic.
    """

    kafka_topic: str
    topic: str | None = None
    table_path: str | None = None
    partitions: int | None = None
    offsets: int | None = None


def list_topics(configuration: Configuration, *, every: bool = False) -> list[ListedTopic]:
    """Those of the configuration in its order; with `every` then the others of the brokers.

    Internal ones, whose names begin with `__`, are left out.

    Raises:
        KafkaError: no broker answers.
    """
    properties = configuration.connector.kafka.client_properties()
    there = topic_names(properties)
    named: list[tuple[str, str | None, str | None]] = [
        (t.config.kafka_topic, t.key, t.table_path) for t in configuration.topics
    ]
    if every:
        known = {name for name, _, _ in named}
        named += [(n, None, None) for n in sorted(there - known) if not n.startswith("__")]
    found = []
    for name, key, path in named:
        partitions = offsets = None
        if name in there:
            try:
                bounds = describe_topic(name, properties).bounds
                partitions, offsets = len(bounds), sum(s.end - s.start for s in bounds.values())
            except KafkaError as error:
                if error.topic is None:
                    raise  # of no topic in particular: the brokers have gone away
        found.append(
            ListedTopic(
                kafka_topic=name,
                topic=key,
                table_path=path,
                partitions=partitions,
                offsets=offsets,
            )
        )
    return found
