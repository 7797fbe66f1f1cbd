"""Offsets of a table that has a topic's rows, but no transaction identifier that covers them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from bayou.api import SnapshotHandle
from bayou.errors import PipelineError
from bayou.ingest.batch.rows import KAFKA_COLUMNS
from bayou.ingest.batch.target_table import TargetTable
from bayou.ingest.config import Topic
from bayou.ingest.migration import migrated_offsets
from bayou.ingest.offsets import KafkaTopic, behind_lost, starting_offsets

__all__ = ["cover_existing_rows", "existing_offsets"]


def cover_existing_rows(
    topic: Topic, kafka: KafkaTopic, target: TargetTable, storage_options: dict[str, str]
) -> bool:
    """Have the table cover the offsets of its rows and of migrated records, where it doesn't yet.

    Args:
        target: opened.

    Returns:
        Whether anything was committed.

    Raises:
        PipelineError: Kafka can't go on there, or `on-missing-offsets` doesn't say what to do with
            the rows; nothing was done.
    """
    covered = target.covered
    new = existing_offsets(topic, kafka, covered, target.snapshot, storage_options)
    if not new:
        return False
    positions = covered | {p: o + 1 for p, o in new.items()}
    if topic.config.on_data_loss == "continue":
        positions = behind_lost(kafka, positions)
    starting_offsets(kafka, positions, key=topic.key)
    target.cover(new)
    return True


def existing_offsets(
    topic: Topic,
    kafka: KafkaTopic,
    covered: Mapping[int, int],
    snapshot: SnapshotHandle | None,
    storage_options: dict[str, str],
) -> dict[int, int]:
    """The last offset of each partition that rows or migrated records name and none covers yet.

    Args:
        covered: the next offsets that the table's transaction identifiers tell.
        snapshot: of the table, None where there is none.

    Raises:
        PipelineError: the table has rows of the topic and covers none of its partitions, and
            `on-missing-offsets` doesn't say what to do with them.
    """
    if snapshot is None:
        return {}
    found = {} if covered else _offsets_of_rows(topic, kafka, snapshot)
    migrated = migrated_offsets(topic, kafka, covered, storage_options)
    return {p: max(found.get(p, -1), migrated.get(p, -1)) for p in found.keys() | migrated.keys()}


def _offsets_of_rows(topic: Topic, kafka: KafkaTopic, snapshot: SnapshotHandle) -> dict[int, int]:
    wanted = topic.config.on_missing_offsets
    if wanted == "begin-anew" or set(KAFKA_COLUMNS.names) - set(snapshot.schema.names):
        return {}
    columns = ["_kafka_partition", "_kafka_offset"]
    # Rows that were migrated or that a program wrote have partitions below 0.
    condition = f"_kafka_topic = '{kafka.name}' AND _kafka_partition >= 0"
    lasts: dict[int, int] = {}
    with snapshot.to_batches(columns, condition) as batches:
        for batch in batches:
            if batch.num_rows and wanted == "fail":
                raise _missing(topic, kafka, snapshot.kernel.path)
            grouped: Any = pa.table(batch).group_by(columns[0]).aggregate([(columns[1], "max")])
            for row in grouped.to_pylist():
                partition, last = row[columns[0]], row[f"{columns[1]}_max"]
                if last is not None:
                    lasts[partition] = max(lasts.get(partition, -1), last)
    return lasts


def _missing(topic: Topic, kafka: KafkaTopic, path: str) -> PipelineError:
    setting = f"connector.topics.{topic.key}.on-missing-offsets"
    return PipelineError(
        f"topic {topic.key!r}: {path} has rows of the Kafka topic {kafka.name!r}, but no "
        "transaction identifier that tells which offsets they cover, as in a copy of rows or a "
        f"clone without identifiers. Set {setting}: from-rows to go on behind the last offset "
        "of the rows, or begin-anew to read the topic again beside them, or write to another "
        "table-path.",
        topic=topic.key,
    )
