"""What a run would do, told from the brokers, the tables, and a look at the first records.

What a run would write: a first commit of the sampled records, made in a folder of its own.
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
from bayou.ingest.background_task import all_at_once
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
    behind_lost,
    lost_offsets,
    starting_offsets,
    where_it_goes_on,
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
    """What a run would write, about; without dead letters, maintenance and statistics of upserts.

    Attributes:
        data_files: files of rows. A batch makes one for each Kafka partition and each table
            partition that its records fall into.
        data_bytes: of these, compressed; rows of a few thousand records compress less well than
            larger batches do.
        log_files: commits and checkpoints.
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
    """Write a sample as a commit does, and multiply.

    Args:
        rows: of the sample, by Kafka partition; each a task's.
        records: how many the run would take.
        commits: how many it would make.
        checkpoint_interval: commits between two checkpoints.
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
        written = [add for share in rows.values() for add in write_data(engine, state, share)]
    return RunCost(
        data_files=len(written) * commits,
        data_bytes=round(sum(add.size for add in written) / sampled * records),
        log_files=commits + commits // checkpoint_interval,
    )


_SAMPLE = 1_000
"""Records of each partition that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """What a run would do with a topic.

    Attributes:
        topic, kafka_topic, table_path: which.
        creates: the table would be made, for there is none.
        spans: what would be read of each partition.
        lost: what retention took of each before it was read; read on behind it by `on-data-loss`.
        commits: about how many, by batch-size.
        bytes: of the records' values, about, by the sample.
        sampled: records that were looked at.
        refused: reasons of those that would be dead letters, and how many of the sample.
        new_columns: columns that the schema file or the sampled records would add, with types.
        columns: columns of the table as it would be.
        unseen_masks: paths of masks that none of these columns is of.
        cost: what would be written, by the sample; None where there is none.
        error: why the topic would not run.
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
        """Offsets that would be read; gaps count."""
        return sum(max(0, span.end - span.start) for span in self.spans.values())


def plan_run(configuration: Configuration, topics: tuple[Topic, ...]) -> tuple[TopicPlan, ...]:
    """Look, and write nothing.

    Raises:
        ConfigurationError: a schema file isn't usable.
    """
    schemas = topic_schemas(configuration)
    described = all_at_once(lambda topic: _described(configuration, topic), topics)
    return tuple(
        _plan(configuration, topic, schemas[topic.key], kafka)
        for topic, kafka in zip(topics, described, strict=True)
    )


def _described(configuration: Configuration, topic: Topic) -> KafkaTopic | BayouError:
    """What the brokers say of a topic; brokers that are away say it of all at the same time."""
    properties = configuration.connector.kafka.client_properties()
    try:
        return describe_topic(topic.config.kafka_topic, properties)
    except Exception as fault:  # noqa: BLE001  # a topic ends no report of the others
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
        covered = where_it_goes_on(kafka, covered, existing=existing, fixed=fixed)
        lost = lost_offsets(kafka, covered)
        if topic.config.on_data_loss == "continue":
            covered = behind_lost(kafka, covered)
        begin = starting_offsets(kafka, covered, key=topic.key)
        ends = sorted(kafka.bounds.items())
        spans = {p: OffsetSpan(start=begin[p], end=s.end) for p, s in ends}
        plan = replace(plan, spans=spans, lost=lost)
        size = topic.config.processing.batch_size
        plan = replace(plan, commits=math.ceil(plan.records / size))
        return _sampled(configuration, topic, schema, target, plan)
    except Exception as fault:  # noqa: BLE001  # as in `_described`
        return replace(plan, error=topic_error(fault, topic.key).message)


def _sampled(
    configuration: Configuration,
    topic: Topic,
    schema: str | None,
    target: TargetTable,
    plan: TopicPlan,
) -> TopicPlan:
    record_format = topic_format(configuration, topic, schema)
    known = target.columns
    stated = topic_columns(topic, schema)
    policy = SchemaPolicy(topic, target, json_schema=schema, schema_columns=stated)
    columns = target.merged(known, stated)
    added = {field.name: field for field in columns if known.get(field.name) is None}
    sampled = list(_first_records(configuration, plan))
    while True:  # as a batch does it: again with the columns of new fields
        layout = policy.layout(columns)
        reader = RecordReader(policy.reading(layout, record_format, time.time_ns() // 1000))
        refused: dict[str, int] = {}
        good: dict[int, list[pa.RecordBatch]] = {}
        for partition, batch in sampled:
            for rows, letters in reader.read(batch):
                if rows is not None:
                    good.setdefault(partition, []).append(rows.select(layout.schema.names))
                for reason in () if letters is None else letters.column("reason").to_pylist():
                    refused[str(reason)] = refused.get(str(reason), 0) + 1
        if not reader.new_fields.fields:
            break
        wider = policy.widened(columns, reader.new_fields)
        added |= dict(additions(columns, wider))
        columns = wider
    count = sum(batch.num_rows for _, batch in sampled)
    size = sum(batch.column("value").nbytes for _, batch in sampled)
    cost = run_cost(
        _of_one_batch(good, plan, topic.config.processing.batch_size),
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
    """The first `_SAMPLE` records of each partition, fewer of large ones, and which it is."""
    properties = configuration.connector.kafka.client_properties()
    wanted = [
        (partition, OffsetSpan(start=span.start, end=min(span.end, span.start + _SAMPLE)))
        for partition, span in plan.spans.items()
        if not span.empty
    ]
    return sampled_records(properties, plan.kafka_topic, wanted)


def _of_one_batch(
    rows: Mapping[int, Sequence[pa.RecordBatch]], plan: TopicPlan, size: int
) -> dict[int, list[pa.RecordBatch]]:
    """What a batch of that many records, taken evenly from the partitions, has of sampled rows."""
    shares = {}
    for partition, batches in rows.items():
        span = plan.spans[partition]
        limit = math.ceil(size * (span.end - span.start) / plan.records)
        shares[partition] = pa.Table.from_batches(batches).slice(0, limit).to_batches()
    return shares
