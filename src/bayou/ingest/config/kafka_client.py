"""Whether the Kafka client takes the properties of a configuration; no broker is asked."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from bayou.errors import ArgumentError
from bayou.spark.kafka.client import Complaints, make_admin
from bayou.spark.kafka.properties import parse_properties

__all__ = ["client_refusal"]


def client_refusal(properties: Mapping[str, str]) -> str | None:
    """Why librdkafka can't be set up with these properties; None where it can.

    Without confluent-kafka nothing is known, and None given.
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        return None
    try:
        # No address is looked up and nothing is sent: the client is let go at once.
        parsed = parse_properties({"bootstrap.servers": "localhost", **properties})
        make_admin(parsed, Complaints(parsed))
    except ArgumentError as error:
        return _in_words_of_the_file(error.message)
    return None


def _in_words_of_the_file(message: str) -> str:
    return (
        message.replace("What stands behind kafka. in an option", "What stands here")
        .replace("Option kafka.", "")
        .replace("kafka.", "")
        .replace("Write startingOffsets", "Write starting-offsets at the topic")
        .rstrip(".")
    )
