"""Keys of topics, which identify topics in messages, metrics, commands and the state path.

If a section of `connector.topics` has one topic, the key of the topic is the key of the section. If
it has several topics, their keys are `SECTION/KAFKA-TOPIC`. The key of a section contains no slash.
"""

from __future__ import annotations


def topic_key(section: str, kafka_topic: str) -> str:
    """Return the key of a topic whose section has several topics."""
    return f"{section}/{kafka_topic}"


def section_key(topic: str) -> str:
    """Return the key of a topic's section; `topic` is the key of the topic."""
    return topic.partition("/")[0]
