"""Where Kafka goes on behind the records that were migrated."""

from __future__ import annotations

from bayou.ingest.config import Topic
from bayou.ingest.migration.ledger import Ledger
from bayou.ingest.offsets import KafkaTopic, behind_lost, starting_offsets
from bayou.ingest.target_table import TargetTable

__all__ = ["cover_migrated"]


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
    if target.version is None or not kafka.bounds.keys() - covered.keys():
        return False
    migrated = Ledger(topic.table_path, storage_options).offsets()
    new = {p: o for p, o in migrated.items() if p in kafka.bounds and p not in covered}
    if not new:
        return False
    positions = covered | {p: o + 1 for p, o in new.items()}
    if topic.config.on_data_loss == "continue":
        positions = behind_lost(kafka, positions)
    starting_offsets(kafka, positions, key=topic.key)
    target.cover(new)
    return True
