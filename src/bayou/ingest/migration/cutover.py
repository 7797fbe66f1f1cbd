"""Where Kafka goes on behind the records that were migrated."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.ingest.config import Topic
from bayou.ingest.migration.ledger import Ledger
from bayou.ingest.offsets import KafkaTopic, behind_lost, starting_offsets
from bayou.ingest.target_table import TargetTable

__all__ = ["cover_migrated", "migrated_offsets"]


def cover_migrated(
    topic: Topic, kafka: KafkaTopic, target: TargetTable, storage_options: dict[str, str]
) -> bool:
    """Have the table cover the offsets that migrated records named, where it covers none yet.

    Args:
        target: opened.

    Returns:
        Whether anything was committed.

    Raises:
        PipelineError: Kafka can't go on there; nothing was done.
    """
    covered = target.covered
    new = {}
    if target.version is not None:
        new = migrated_offsets(topic, kafka, covered, storage_options)
    if not new:
        return False
    positions = covered | {p: o + 1 for p, o in new.items()}
    if topic.config.on_data_loss == "continue":
        positions = behind_lost(kafka, positions)
    starting_offsets(kafka, positions, key=topic.key)
    target.cover(new)
    return True


def migrated_offsets(
    topic: Topic, kafka: KafkaTopic, covered: Mapping[int, int], storage_options: dict[str, str]
) -> dict[int, int]:
    """The last offset that migrated records name, of each partition that isn't covered yet.

    Args:
        covered: the next offsets of the target, which is there.
    """
    if not kafka.bounds.keys() - covered.keys():
        return {}
    migrated = Ledger(topic.table_path, storage_options).offsets()
    return {p: o for p, o in migrated.items() if p in kafka.bounds and p not in covered}
