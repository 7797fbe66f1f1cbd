"""A topic whose broker was queried and whose tables were opened: where a run starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayou.engines import for_path
from bayou.ingest.batch.existing_rows import cover_existing_rows
from bayou.ingest.batch.micro_batch import MicroBatchWriter
from bayou.ingest.batch.target_table import TargetTable
from bayou.ingest.broker import RecreatedTopicCheck, describe_topic
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
from bayou.ingest.schema.policy import unseen_masks
from bayou.ingest.schema.topic_format import topic_columns, topic_format

__all__ = ["PreparedTopic", "prepare_topic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTopic:
    """What the broker and the tables say about a topic at one moment.

    Attributes:
        target: the topic's table, opened.
        writer: writes its micro-batches.
        positions: the next offset to read, for each partition.
        waiting: number of records that the table doesn't have yet.
        started: the event that reports the start of the topic.
    """

    target: TargetTable
    writer: MicroBatchWriter
    positions: Mapping[int, int]
    waiting: int
    started: TopicStarted


def prepare_topic(
    configuration: Configuration, topic: Topic, schema: str | None, reporter: Reporter
) -> PreparedTopic:
    """Describe a topic on the broker, open its tables and determine where to continue.

    Args:
        schema: content of the topic's JSON schema file.
        reporter: receives lost records and attempts that failed.

    Raises:
        KafkaError: no broker answers, or the topic doesn't exist.
        PipelineError: the tables can't take records of this topic.
    """
    connector = configuration.connector
    properties = connector.kafka.client_properties()
    kafka = describe_topic(topic.config.kafka_topic, properties)
    storage_options = connector.storage.storage_options()
    engine = for_path(topic.table_path, storage_options)
    target = TargetTable(engine, topic, kafka)
    dead_letters = DeadLetterTable(engine, topic, kafka)
    columns = topic_columns(topic, schema)
    writer = MicroBatchWriter(
        topic=topic,
        engine=engine,
        watch=RecreatedTopicCheck(kafka, properties, key=topic.key),
        target=target,
        dead_letters=dead_letters,
        json_schema=schema,
        schema_columns=columns,
        storage_options=storage_options,
        kafka_options={
            "subscribe": kafka.name,
            **{f"kafka.{name}": value for name, value in properties.items()},
        },
        record_format=topic_format(configuration, topic, schema),
        on_retry=reporter.attempt_failed,
    )
    positions = start_positions(
        topic,
        kafka,
        writer=writer,
        target=target,
        dead_letters=dead_letters,
        storage_options=storage_options,
        reporter=reporter,
    )
    waiting = sum(max(0, kafka.bounds[p].end - offset) for p, offset in positions.items())
    return PreparedTopic(
        target=target,
        writer=writer,
        positions=positions,
        waiting=waiting,
        started=TopicStarted(
            topic=topic.key,
            kafka_topic=kafka.name,
            table_path=target.path,
            partitions=len(kafka.bounds),
            waiting=waiting,
            positions=dict(positions),
            unseen_masks=unseen_masks(topic, target.merged(target.columns, columns)),
        ),
    )


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
    """Open a topic's tables and return the first offset to read, for each partition.

    Records that were migrated from files are skipped, and with `on-missing-offsets: from-rows` also
    records whose rows no transaction identifier covers. With `starting-offsets: latest` a partition
    that no commit covers starts at the end that it had at the first start.

    Args:
        kafka: the topic as the broker describes it now.
        writer: writes to these tables; it is opened.
        reporter: receives records that were lost, where the topic continues without them.

    Raises:
        PipelineError: the tables can't take records of this topic, or cover offsets that it lacks.
    """
    covered = writer.open()
    if cover_existing_rows(topic, kafka, target, storage_options):
        covered = writer.open()
    fixed = dead_letters.known_start() if topic.config.starting_offsets == "latest" else None
    is_first_start = not covered
    covered = resume_positions(kafka, covered, recorded_start=fixed)
    if fixed is not None and is_first_start:
        covered = dead_letters.fix_start(covered)
    lost = lost_offsets(kafka, covered)
    if lost and topic.config.on_data_loss == "continue":
        reporter.records_lost(RecordsLost(topic=topic.key, spans=lost))
        if target.version is not None:
            offsets = ", ".join(f"{p}:{s.start}-{s.end}" for p, s in sorted(lost.items()))
            target.cover({p: s.end - 1 for p, s in lost.items()}, {"lostOffsets": offsets})
            writer.open()
        covered = skip_lost_offsets(kafka, covered)
    return starting_offsets(kafka, covered, key=topic.key)
