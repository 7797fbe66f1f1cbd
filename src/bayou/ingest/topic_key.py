"""Keys of topics, which identify topics in messages, metrics, commands and the state path.

A section of `connector.topics` with one topic has the key of the section. Each topic of a section
with several topics has the key `SECTION/KAFKA-TOPIC`. Keys of sections contain no slash.
"""

from __future__ import annotations


def topic_key(section: str, kafka_topic: str) -> str:
    """Return the identifier of a topic whose section has several topics."""
    return f"{section}/{kafka_topic}"


def section_key(topic: str) -> str:
    """Return the key of a topic's section, from the topic's key."""
    return topic.partition("/")[0]
