"""Where a run begins: behind what the table covers, and what is said where that isn't so simple."""

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
    """Open a topic's tables; for each partition the offset that is read first.

    Kafka goes on behind what was migrated from files, and with `on-missing-offsets: from-rows`
    behind rows that no transaction identifier covers. With `starting-offsets: latest` partitions
    that no commit covers begin at the end that was there at the first start.

    Args:
        kafka: the topic as the broker tells it now.
        writer: of these tables; it is opened.
        reporter: is told of records that are gone, where the topic goes on without them.

    Raises:
        PipelineError: the tables can't take this topic's records, or stand where it has nothing.
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
            told = ", ".join(f"{p}:{s.start}-{s.end}" for p, s in sorted(lost.items()))
            target.cover({p: s.end - 1 for p, s in lost.items()}, {"lostOffsets": told})
            writer.open()
        covered = behind_lost(kafka, covered)
    return starting_offsets(kafka, covered, key=topic.key)
