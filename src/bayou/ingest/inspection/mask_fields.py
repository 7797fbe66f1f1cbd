"""Masks whose field isn't in the table; with a schema file the configuration is refused for it."""

from __future__ import annotations

from bayou.api import table as open_table
from bayou.errors import StorageError
from bayou.ingest.background_task import Errand
from bayou.ingest.batch.rows import record_part
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.schema.policy import unseen_masks
from bayou.ingest.schema.topic_format import topic_columns

__all__ = ["masks_without_field"]

_PATIENCE = 10.0


def masks_without_field(configuration: Configuration) -> dict[str, tuple[str, ...]]:
    """The paths of such masks by topic; of a topic without a table nothing is known.

    Raises:
        BayouError: a table can't be opened, or its store takes more than ten seconds to answer.
    """
    asked = [t for t in configuration.topics if t.config.masks and t.schema_file is None]
    found: dict[str, tuple[str, ...]] = {}

    def look() -> None:
        for topic in asked:
            found[topic.key] = _unseen(configuration, topic)

    errand = Errand(look)
    if not errand.wait(_PATIENCE):
        raise StorageError("the store doesn't answer", path=asked[0].table_path)
    errand.finish()
    return {key: paths for key, paths in found.items() if paths}


def _unseen(configuration: Configuration, topic: Topic) -> tuple[str, ...]:
    columns = topic_columns(topic, None)
    handle = open_table(topic.table_path, configuration.connector.storage.storage_options())
    if handle.exists():
        there = handle.snapshot()
        columns = record_part(there.schema, there.partition_columns, topic.more_columns)
    return unseen_masks(topic, columns)
