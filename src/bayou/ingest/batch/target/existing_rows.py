"""Commits the offsets of the rows that a table already has when the pipeline is first started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bayou.api import SnapshotHandle
from bayou.errors import PipelineError
from bayou.ingest.batch.metadata_columns import KAFKA_COLUMNS
from bayou.ingest.config import Topic
from bayou.ingest.migration import migrated_offsets
from bayou.ingest.offsets import KafkaTopic, skip_lost_offsets, starting_offsets

if TYPE_CHECKING:  # `bayou status` doesn't need it, and it takes long to import
    from bayou.ingest.batch.target.target_table import TargetTable


def cover_existing_rows(
    topic: Topic, kafka: KafkaTopic, target: TargetTable, storage_options: dict[str, str]
) -> bool:
    """Commit the offsets of existing rows and migrated records.

    The topic then doesn't read these records from Kafka. Returns whether there were such offsets.
    """
    covered = target.covered
    new = existing_offsets(topic, kafka, covered, target.snapshot, storage_options)
    if not new:
        return False
    positions = covered | {p: o + 1 for p, o in new.items()}
    if topic.config.on_data_loss == "continue":
        positions = skip_lost_offsets(kafka, positions)
    # Before the commit: raises an error if Kafka doesn't have one of the offsets.
    starts = starting_offsets(kafka, positions, key=topic.key)
    target.start_at({p: start for p, start in starts.items() if p not in positions})
    target.cover(new)
    return True


def existing_offsets(
    topic: Topic,
    kafka: KafkaTopic,
    covered: Mapping[int, int],
    snapshot: SnapshotHandle | None,
    storage_options: dict[str, str],
) -> dict[int, int]:
    """For each partition, return the last Kafka offset of existing rows and migrated records.

    The offsets of rows are used only if `covered` is empty. The offsets of migrated records are
    used only for partitions that aren't in `covered`.

    Args:
        covered: the next offset to read of each partition, as committed to the table.
    """
    if snapshot is None:
        return {}
    rows = {} if covered else _offsets_of_rows(topic, kafka, snapshot)
    migrated = migrated_offsets(topic, kafka, covered, storage_options)
    return {p: max(rows.get(p, -1), migrated.get(p, -1)) for p in rows.keys() | migrated.keys()}


def _offsets_of_rows(topic: Topic, kafka: KafkaTopic, snapshot: SnapshotHandle) -> dict[int, int]:
    policy = topic.config.on_missing_offsets
    if policy == "begin-anew" or set(KAFKA_COLUMNS.names) - set(snapshot.schema.names):
        return {}
    columns = ["_kafka_partition", "_kafka_offset"]
    # Rows that were migrated or written by a program have negative partitions.
    condition = f"_kafka_topic = '{kafka.name}' AND _kafka_partition >= 0"
    last_offsets: dict[int, int] = {}
    with snapshot.to_batches(columns, condition) as batches:
        for batch in batches:
            if batch.num_rows and policy == "fail":
                raise _missing_offsets_error(topic, kafka, snapshot.kernel.path)
            grouped: Any = pa.table(batch).group_by(columns[0]).aggregate([(columns[1], "max")])
            for row in grouped.to_pylist():
                partition, last = row[columns[0]], row[f"{columns[1]}_max"]
                if last is not None:
                    last_offsets[partition] = max(last_offsets.get(partition, -1), last)
    return last_offsets


def _missing_offsets_error(topic: Topic, kafka: KafkaTopic, path: str) -> PipelineError:
    setting = f"connector.topics.{topic.section}.on-missing-offsets"
    return PipelineError(
        f"topic {topic.key!r}: {path} has rows of the Kafka topic {kafka.name!r}, but no "
        "transaction identifier with their offsets. This happens if rows are copied, or if a "
        "clone doesn't copy transaction identifiers. To resume after the last offset of the "
        f"rows, set {setting}: from-rows. To keep the rows and read the topic again from its "
        f"start, set {setting}: begin-anew. Or set another table-path.",
        topic=topic.key,
    )
