"""Prepares a topic for a run: describes the Kafka topic, opens tables and finds start offsets."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from bayou.ingest.batch.expressions import unseen_fields
from bayou.ingest.batch.micro_batch import MicroBatchWriter
from bayou.ingest.batch.target.existing_rows import cover_existing_rows
from bayou.ingest.batch.target.foreign_files import check_folder
from bayou.ingest.batch.target.target_and_dead_letters import TopicTables
from bayou.ingest.batch.target.target_table import TargetTable
from bayou.ingest.broker import KafkaSource, describe_topic, first_start
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.dead_letters.table import DeadLetterTable
from bayou.ingest.events import RecordsLost, Reporter, TopicStarted
from bayou.ingest.offsets import (
    KafkaTopic,
    lost_offsets,
    resume_positions,
    skip_lost_offsets,
    starting_offsets,
)
from bayou.ingest.routing.routed_batch import RoutedBatchWriter
from bayou.ingest.schema.policy import unseen_masks
from bayou.ingest.schema.record_schema import RecordSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTopic:
    """A topic whose tables are open and whose start offsets are known.

    Attributes:
        positions: for each Kafka partition, the next offset to read.
        started: the event to report when the topic starts.
    """

    target: TargetTable
    writer: MicroBatchWriter
    kafka: KafkaTopic
    positions: Mapping[int, int]
    started: TopicStarted
    dead_letters: DeadLetterTable

    @property
    def planned_start(self) -> Mapping[int, int]:
        """The offset of each Kafka partition at which the topic's first batch starts.

        The result is empty if the target already has committed offsets.
        """
        return {} if self.target.covered else self.positions

    def record_start(self) -> None:
        """Record the `planned_start` in the dead letter table, after the first batch failed.

        A later run then notices if Kafka has deleted records before they were read.
        """
        if self.planned_start:
            self.dead_letters.record_start(self.planned_start, self.dead_letters.recorded_start())


def prepare_topic(
    configuration: Configuration,
    topic: Topic,
    schema: str | None,
    reporter: Reporter,
    change_lock: AbstractContextManager[Any] | None = None,
    *,
    before: PreparedTopic | None = None,
) -> PreparedTopic:
    """Describe the Kafka topic, open its tables and determine the start offsets.

    Args:
        schema: content of the topic's schema file; None if the topic has no schema file.
        change_lock: lock that topics with the same table hold while they change the table, to
            prevent repeated conflicts. None if no other topic writes to the table.
        before: the result of the previous call for this topic; None for the first call. Its
            `planned_start` is used again, unless the Kafka topic was recreated.
    """
    topic.check_table()
    connector = configuration.connector
    properties = connector.kafka.client_properties()
    kafka = describe_topic(topic.config.kafka_topic, properties)
    tables = TopicTables.of(topic, kafka, connector.storage.storage_options())
    record_schema = RecordSchema.of(configuration, topic, schema)
    source = KafkaSource.of(kafka, properties, key=topic.key)
    writer: MicroBatchWriter
    if topic.routes is None:
        writer = MicroBatchWriter(
            topic,
            tables,
            source,
            record_schema,
            on_retry=reporter.attempt_failed,
            change_lock=change_lock,
        )
    else:
        writer = RoutedBatchWriter(
            topic,
            tables,
            source,
            record_schema,
            kafka=kafka,
            on_retry=reporter.attempt_failed,
            change_lock=change_lock,
        )
    planned: Mapping[int, int] = {}
    if before is not None and before.kafka.topic_id == kafka.topic_id:
        planned = before.planned_start
    positions = _start_positions(
        topic, kafka, properties, tables, writer, planned=planned, reporter=reporter
    )
    target = tables.target
    applies = topic.config.destination.apply_table_changes
    differences = writer.table_differences()
    if differences and applies:
        writer.apply_definition()
    writer.record_checks()
    columns = target.merged(writer.columns, record_schema.columns)
    waiting = sum(max(0, kafka.bounds[p].end - offset) for p, offset in positions.items())
    return PreparedTopic(
        target=target,
        writer=writer,
        kafka=kafka,
        positions=positions,
        dead_letters=tables.dead_letters,
        started=TopicStarted(
            topic=topic.key,
            kafka_topic=kafka.name,
            table_path=target.path,
            partitions=len(kafka.bounds),
            waiting=waiting,
            positions=dict(positions),
            unseen_masks=unseen_masks(topic, columns),
            unseen_fields=() if target.version is None else unseen_fields(topic.config, columns),
            table_differences=differences,
            table_changed=bool(differences) and applies,
        ),
    )


def _start_positions(
    topic: Topic,
    kafka: KafkaTopic,
    properties: Mapping[str, str],
    tables: TopicTables,
    writer: MicroBatchWriter,
    *,
    planned: Mapping[int, int],
    reporter: Reporter,
) -> dict[int, int]:
    """Open the tables of `writer`, and return the start offset of each Kafka partition.

    The start offset of a partition is the first of these that exists:

    - The offset after the covered offset that the table has recorded.
    - The offset after the partition's last record that was migrated from files. If the table has
      recorded no covered offsets at all and `on-missing-offsets` is `from-rows`, the last row of
      the partition also counts.
    - The offset that `starting-offsets` selected in the topic's first run.
    - Offset 0, because the partition was created after the first run.

    Args:
        planned: the `planned_start` of the previous preparation. It is empty if this is the first
            preparation, or if the Kafka topic was recreated since the previous one.
    """
    target, dead_letters = tables.target, tables.dead_letters
    writer.open()
    check_folder(topic, tables.engine, target.snapshot)
    if cover_existing_rows(topic, kafka, target, tables.storage_options):
        writer.open()
    transactions = {} if target.snapshot is None else target.snapshot.transactions
    positions = resume_positions(kafka, transactions, dead_letters.transactions())
    if not positions:
        recorded = dead_letters.recorded_start()
        if planned:
            start: Mapping[int, int] = {**dict.fromkeys(kafka.bounds, 0), **planned}
        else:
            start = first_start(topic, kafka, properties, recorded)
        positions = dict(dead_letters.record_start(start, recorded))
    lost = lost_offsets(kafka, positions)
    if lost and topic.config.on_data_loss == "continue":
        reporter.records_lost(RecordsLost(topic=topic.key, spans=lost))
        positions = skip_lost_offsets(kafka, positions)
        target.start_at(starting_offsets(kafka, positions, key=topic.key))
        if target.version is not None:
            offsets = ", ".join(f"{p}:{s.start}-{s.end}" for p, s in sorted(lost.items()))
            target.cover({p: s.end - 1 for p, s in lost.items()}, {"lostOffsets": offsets})
            writer.open()
    starts = starting_offsets(kafka, positions, key=topic.key)
    target.start_at(starts)
    return starts
