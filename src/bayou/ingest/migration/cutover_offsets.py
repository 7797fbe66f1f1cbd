"""Where Kafka goes on behind the records that were migrated."""

from __future__ import annotations

from collections.abc import Mapping

from bayou.ingest.config import Topic
from bayou.ingest.migration.ledger import Ledger
from bayou.ingest.offsets import KafkaTopic

__all__ = ["migrated_offsets"]


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
