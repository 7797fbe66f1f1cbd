"""Keys of topics: the names of topics in messages, metrics, commands and the state path.

If a section of `connector.topics` has one topic, the key of the topic is the YAML key of the
section. If a section has several topics, their keys are `SECTION/KAFKA-TOPIC`. The YAML key of a
section contains no slash.
"""

from __future__ import annotations


def topic_key(section: str, kafka_topic: str) -> str:
    """Return the key of a topic in a section with several topics."""
    return f"{section}/{kafka_topic}"


def section_key(topic: str) -> str:
    """Return the YAML key of the section that has a topic.

    Args:
        topic: the key of the topic.
    """
    return topic.partition("/")[0]
