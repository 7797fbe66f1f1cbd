"""The two tables of a topic, opened with the configuration's storage settings."""

from __future__ import annotations

from dataclasses import dataclass

from bayou.api import TableHandle, table
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.related_tables import dead_letters_path

__all__ = ["TopicTables"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTables:
    """Handles on a topic's target and on its dead letters; neither need be there yet."""

    target: TableHandle
    dead_letters: TableHandle

    @classmethod
    def of(cls, configuration: Configuration, topic: Topic) -> TopicTables:
        """Nothing is read yet."""
        options = configuration.connector.storage.storage_options()
        return cls(
            target=table(topic.table_path, options),
            dead_letters=table(dead_letters_path(topic.table_path), options),
        )
