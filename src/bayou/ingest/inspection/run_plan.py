"""Plans a run from the brokers, the tables and a sample of the first records.

The cost is estimated by writing the sampled records to a temporary folder.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from bayou.engines import for_path
from bayou.errors import BayouError
from bayou.ingest.background_task import run_parallel
from bayou.ingest.batch.existing_rows import existing_offsets
from bayou.ingest.batch.record_reader import RecordReader
from bayou.ingest.batch.rows import RowLayout
from bayou.ingest.batch.target_table import TargetTable
from bayou.ingest.broker import describe_topic
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.dead_letters.table import DeadLetterTable
from bayou.ingest.decode import additions
from bayou.ingest.inspection.kafka_records import sampled_records
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    lost_offsets,
    resume_positions,
    skip_lost_offsets,
    starting_offsets,
)
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.schema.policy import SchemaPolicy, unseen_masks
from bayou.ingest.schema.topic_format import topic_columns, topic_format
from bayou.ingest.topic_errors import topic_error
from bayou.kernel import Operation, Table, write_data
from bayou.version import ENGINE_INFO

__all__ = ["RunCost", "TopicPlan", "plan_run", "run_cost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """An estimate of what a run would write, without dead letters, maintenance and upsert rewrites.

    Attributes:
        data_files: number of data files. A batch writes one for each Kafka partition and each table
            partition of its records.
        data_bytes: compressed size of the data files; a sample compresses less well than a batch.
        log_files: number of commits and checkpoints.
    """

    data_files: int
    data_bytes: int
    log_files: int


def run_cost(
    rows: Mapping[int, Sequence[pa.RecordBatch]],
    layout: RowLayout,
    *,
    partition_columns: Sequence[str],
    records: int,
    commits: int,
    checkpoint_interval: int,
) -> RunCost:
    """Estimate the cost by writing a sample like one commit.

    Args:
        rows: rows of the sample by Kafka partition; each partition is a task.
        layout: the columns of the rows.
        partition_columns: the table's partition columns.
        records: number of records of the run.
        commits: number of commits of the run.
        checkpoint_interval: number of commits between checkpoints.
    """
    sampled = sum(batch.num_rows for batches in rows.values() for batch in batches)
    if not sampled or not commits:
        return RunCost(data_files=0, data_bytes=0, log_files=0)
    with tempfile.TemporaryDirectory(prefix="bayou-plan-") as folder:
        engine = for_path(folder)
        transaction = (
            Table.for_path(engine, folder)
            .create_transaction_builder(engine, engine_info=ENGINE_INFO, operation=Operation.WRITE)
            .with_schema(layout.schema)
            .with_partition_columns(tuple(partition_columns))
            .build(engine)
        )
        state = transaction.transaction_state(engine)
        adds = [add for batches in rows.values() for add in write_data(engine, state, batches)]
    return RunCost(
        data_files=len(adds) * commits,
        data_bytes=round(sum(add.size for add in adds) / sampled * records),
        log_files=commits + commits // checkpoint_interval,
    )


_SAMPLE = 1_000
"""Number of sampled records of each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """The plan of a topic.

    Attributes:
        topic: the topic's key in the configuration.
        kafka_topic: the name of the Kafka topic.
        table_path: the target table.
        creates: whether the run would create the table.
        spans: offsets of each partition that the run would read.
        lost: offsets of each partition that retention deleted before they were read.
        commits: approximate number of commits, from batch-size.
        bytes: approximate size of the records' values, from the sample.
        sampled: number of sampled records.
        refused: number of sampled records that would become dead letters, by reason.
        new_columns: columns that the schema file or the sampled records would add, with types.
        columns: columns of the resulting table.
        unseen_masks: paths of masks that match none of these columns.
        cost: estimate of what the run would write; None without an estimate.
        error: the error that would stop the topic.
    """

    topic: str
    kafka_topic: str
    table_path: str
    creates: bool = False
    spans: Mapping[int, OffsetSpan]
    lost: Mapping[int, OffsetSpan] = field(default_factory=dict)
    commits: int = 0
    bytes: int = 0
    sampled: int = 0
    refused: Mapping[str, int]
    new_columns: Mapping[str, str]
    columns: tuple[str, ...] = ()
    unseen_masks: tuple[str, ...] = ()
    cost: RunCost | None = None
    error: str | None = None

    @property
    def records(self) -> int:
        """Number of offsets to read, including gaps."""
        return sum(max(0, span.end - span.start) for span in self.spans.values())


def plan_run(configuration: Configuration, topics: tuple[Topic, ...]) -> tuple[TopicPlan, ...]:
    """Plan a run of topics without writing to their tables.

    Raises:
        ConfigurationError: a schema file is invalid.
    """
    schemas = topic_schemas(configuration)
    described = run_parallel(lambda topic: _describe(configuration, topic), topics)
    return tuple(
        _plan(configuration, topic, schemas[topic.key], kafka)
        for topic, kafka in zip(topics, described, strict=True)
    )


def _describe(configuration: Configuration, topic: Topic) -> KafkaTopic | BayouError:
    """Describe a Kafka topic; called in parallel, so that timeouts don't add up."""
    properties = configuration.connector.kafka.client_properties()
    try:
        return describe_topic(topic.config.kafka_topic, properties)
    except Exception as fault:  # noqa: BLE001  # a failure doesn't affect other topics
        return topic_error(fault, topic.key)


def _plan(
    configuration: Configuration, topic: Topic, schema: str | None, kafka: KafkaTopic | BayouError
) -> TopicPlan:
    plan = TopicPlan(
        topic=topic.key,
        kafka_topic=topic.config.kafka_topic,
        table_path=topic.table_path,
        spans={},
        refused={},
        new_columns={},
    )
    try:
        if isinstance(kafka, BayouError):
            raise kafka
        options = configuration.connector.storage.storage_options()
        engine = for_path(topic.table_path, options)
        target = TargetTable(engine, topic, kafka)
        target.open()
        plan = replace(plan, creates=target.version is None)
        covered = target.covered
        existing = existing_offsets(topic, kafka, covered, target.snapshot, options)
        latest = topic.config.starting_offsets == "latest"
        fixed = DeadLetterTable(engine, topic, kafka).known_start() if latest else None
        covered = resume_positions(kafka, covered, existing=existing, recorded_start=fixed)
        lost = lost_offsets(kafka, covered)
        if topic.config.on_data_loss == "continue":
            covered = skip_lost_offsets(kafka, covered)
        starts = starting_offsets(kafka, covered, key=topic.key)
        bounds = sorted(kafka.bounds.items())
        spans = {p: OffsetSpan(start=starts[p], end=s.end) for p, s in bounds}
        plan = replace(plan, spans=spans, lost=lost)
        size = topic.config.processing.batch_size
        plan = replace(plan, commits=math.ceil(plan.records / size))
        return _with_sample(configuration, topic, schema, target, plan)
    except Exception as fault:  # noqa: BLE001  # a failure doesn't affect other topics
        return replace(plan, error=topic_error(fault, topic.key).message)


def _with_sample(
    configuration: Configuration,
    topic: Topic,
    schema: str | None,
    target: TargetTable,
    plan: TopicPlan,
) -> TopicPlan:
    record_format = topic_format(configuration, topic, schema)
    known = target.columns
    schema_columns = topic_columns(topic, schema)
    policy = SchemaPolicy(topic, target, json_schema=schema, schema_columns=schema_columns)
    columns = target.merged(known, schema_columns)
    added = {field.name: field for field in columns if known.get(field.name) is None}
    sampled = list(_first_records(configuration, plan))
    while True:  # as in a batch: repeat with columns for new fields
        layout = policy.layout(columns)
        reader = RecordReader(policy.reading(layout, record_format, time.time_ns() // 1000))
        refused: dict[str, int] = {}
        good: dict[int, list[pa.RecordBatch]] = {}
        for partition, batch in sampled:
            for rows, dead in reader.read(batch):
                if rows is not None:
                    good.setdefault(partition, []).append(rows.select(layout.schema.names))
                for reason in () if dead is None else dead.column("reason").to_pylist():
                    refused[str(reason)] = refused.get(str(reason), 0) + 1
        if not reader.new_fields.fields:
            break
        wider = policy.widened(columns, reader.new_fields)
        added |= dict(additions(columns, wider))
        columns = wider
    count = sum(batch.num_rows for _, batch in sampled)
    size = sum(batch.column("value").nbytes for _, batch in sampled)
    cost = run_cost(
        _limited_to_batch(good, plan, topic.config.processing.batch_size),
        layout,
        partition_columns=topic.config.destination.partition_columns,
        records=plan.records,
        commits=plan.commits,
        checkpoint_interval=target.checkpoint_interval,
    )
    return replace(
        plan,
        bytes=round(size / count * plan.records) if count else 0,
        sampled=count,
        refused=dict(sorted(refused.items(), key=lambda item: -item[1])),
        new_columns={name: str(field.data_type) for name, field in added.items()},
        columns=layout.schema.names,
        unseen_masks=unseen_masks(topic, columns),
        cost=cost,
    )


def _first_records(
    configuration: Configuration, plan: TopicPlan
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the first `_SAMPLE` records of each partition with its number, fewer if large."""
    properties = configuration.connector.kafka.client_properties()
    spans = [
        (partition, OffsetSpan(start=span.start, end=min(span.end, span.start + _SAMPLE)))
        for partition, span in plan.spans.items()
        if not span.empty
    ]
    return sampled_records(properties, plan.kafka_topic, spans)


def _limited_to_batch(
    rows: Mapping[int, Sequence[pa.RecordBatch]], plan: TopicPlan, size: int
) -> dict[int, list[pa.RecordBatch]]:
    """Limit the sampled rows of each partition to its part of a batch of this size."""
    limited = {}
    for partition, batches in rows.items():
        span = plan.spans[partition]
        limit = math.ceil(size * (span.end - span.start) / plan.records)
        limited[partition] = pa.Table.from_batches(batches).slice(0, limit).to_batches()
    return limited
