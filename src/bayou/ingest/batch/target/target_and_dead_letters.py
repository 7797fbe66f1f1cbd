"""The tables of a topic: its target and its dead letters."""

from __future__ import annotations

from dataclasses import dataclass

from bayou.engines import for_path
from bayou.ingest.batch.target.target_table import TargetTable
from bayou.ingest.config import Topic
from bayou.ingest.dead_letters.table import DeadLetterTable
from bayou.ingest.offsets import KafkaTopic
from bayou.kernel.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTables:
    """The target and the dead letter table of one topic; both are in the same object store."""

    target: TargetTable
    dead_letters: DeadLetterTable
    engine: Engine
    storage_options: dict[str, str]

    @classmethod
    def of(cls, topic: Topic, kafka: KafkaTopic, storage_options: dict[str, str]) -> TopicTables:
        """Create the table objects of a topic, without reading the tables."""
        engine = for_path(topic.table_path, storage_options)
        return cls(
            target=TargetTable(engine, topic, kafka),
            dead_letters=DeadLetterTable(engine, topic, kafka),
            engine=engine,
            storage_options=storage_options,
        )
