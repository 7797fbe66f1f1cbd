"""The start offsets of a run: after the offsets that the table covers."""

from __future__ import annotations

from bayou.ingest.batch.existing_rows import cover_existing_rows
from bayou.ingest.batch.micro_batch import MicroBatchWriter
from bayou.ingest.batch.target_table import TargetTable
from bayou.ingest.config import Topic
from bayou.ingest.dead_letters.table import DeadLetterTable
from bayou.ingest.events import RecordsLost, Reporter
from bayou.ingest.offsets import (
    KafkaTopic,
    behind_lost,
    lost_offsets,
    starting_offsets,
    where_it_goes_on,
)

__all__ = ["start_positions"]


def start_positions(
    topic: Topic,
    kafka: KafkaTopic,
    *,
    writer: MicroBatchWriter,
    target: TargetTable,
    dead_letters: DeadLetterTable,
    storage_options: dict[str, str],
    reporter: Reporter,
) -> dict[int, int]:
    """Open a topic's tables and return the first offset to read for each partition.

    The stream starts after the records migrated from files and, with
    `on-missing-offsets: from-rows`, after existing rows without a transaction identifier. With
    `starting-offsets: latest`, partitions that no commit covers start at the end offset of the
    first start.

    Args:
        topic: the topic's configuration.
        kafka: the current description of the Kafka topic.
        writer: the writer of the tables; it is opened.
        target: the target table.
        dead_letters: the dead letter table.
        storage_options: the options of the object store.
        reporter: receives lost records if the topic continues without them.

    Raises:
        PipelineError: the tables don't accept this topic's records, or their offsets don't exist
            in the topic.
    """
    covered = writer.open()
    if cover_existing_rows(topic, kafka, target, storage_options):
        covered = writer.open()
    fixed = dead_letters.known_start() if topic.config.starting_offsets == "latest" else None
    first = not covered
    covered = where_it_goes_on(kafka, covered, fixed=fixed)
    if fixed is not None and first:
        covered = dead_letters.fix_start(covered)
    lost = lost_offsets(kafka, covered)
    if lost and topic.config.on_data_loss == "continue":
        reporter.records_lost(RecordsLost(topic=topic.key, spans=lost))
        if target.version is not None:
            ranges = ", ".join(f"{p}:{s.start}-{s.end}" for p, s in sorted(lost.items()))
            target.cover({p: s.end - 1 for p, s in lost.items()}, {"lostOffsets": ranges})
            writer.open()
        covered = behind_lost(kafka, covered)
    return starting_offsets(kafka, covered, key=topic.key)
