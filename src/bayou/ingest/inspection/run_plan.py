"""Previews a run, based on the tables' offsets, the brokers' offsets and a sample of records.

The sampled records are written to a temporary folder, to estimate the files of the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from bayou.api import table
from bayou.errors import BayouError
from bayou.ingest.background_task import run_parallel
from bayou.ingest.batch.batch_bytes import record_limit
from bayou.ingest.batch.expressions import unseen_fields
from bayou.ingest.batch.record_reader import RecordReader
from bayou.ingest.batch.target.existing_rows import existing_offsets
from bayou.ingest.batch.target.foreign_files import check_folder
from bayou.ingest.batch.target.target_and_dead_letters import TopicTables
from bayou.ingest.batch.target.target_state import TargetState
from bayou.ingest.broker import describe_topic, first_start
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.decode import additions
from bayou.ingest.inspection.kafka_records import sampled_records
from bayou.ingest.inspection.routed_plan import RoutedTablePlan, routed_plan
from bayou.ingest.inspection.run_cost import RunCost, run_cost
from bayou.ingest.inspection.unconditional_commits import unconditional_commits
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    lost_offsets,
    recorded_start,
    resume_positions,
    skip_lost_offsets,
    starting_offsets,
)
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.schema.policy import SchemaPolicy, read_columns, unseen_masks
from bayou.ingest.schema.record_schema import RecordSchema
from bayou.ingest.topic_errors import topic_error

_SAMPLE = 1_000
"""Maximum number of records to sample from each Kafka partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """What a run would do with a topic.

    Attributes:
        spans: the offsets that the run would read from each partition.
        lost: the offsets that Kafka deleted before the pipeline read them, by partition.
        commits: approximate number of commits, computed from `batch-size` and `max-batch-bytes`.
        bytes: approximate total size of the values of all records to read, computed from the
            sample.
        sampled: number of sampled records.
        refused: for each reason, the number of sampled records that would become dead letters.
        new_columns: the type of each column that the schema file or the sampled records would add,
            by the column's path.
        columns: names of the columns that the table would have after the run.
        unseen_masks: paths in the setting `masks` for which the table would have no column after
            the run.
        unseen_fields: paths of fields that expressions read, but for which neither the table has a
            column nor a sampled record has a value.
        filters: whether `processing.where` filters records.
        filtered: number of sampled records that `processing.where` would filter out.
        table_differences: settings in the configuration, such as `cluster-by`, that the table
            doesn't match.
        table_changes: whether the run would change the table to match the settings in
            `table_differences`.
        tables: the tables of `route-by` to which the sampled records would be written.
        unconditional_commits: for each `engineInfo` of an unsafe engine, the newest version that
            the engine has committed to the table. An engine is unsafe if it doesn't use
            put-if-absent on S3 by default.
        cost: estimate of the files that the run would write; None if `error` is set.
        error: the message of the error because of which the plan is incomplete; None if there was
            none.
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
    unseen_fields: tuple[str, ...] = ()
    filters: bool = False
    filtered: int = 0
    table_differences: tuple[str, ...] = ()
    table_changes: bool = False
    tables: tuple[RoutedTablePlan, ...] = ()
    unconditional_commits: Mapping[str, int] = field(default_factory=dict)
    cost: RunCost | None = None
    error: str | None = None

    @property
    def records(self) -> int:
        """Number of offsets to read, including offsets without a record."""
        return sum(max(0, span.end - span.start) for span in self.spans.values())


def plan_run(configuration: Configuration, topics: tuple[Topic, ...]) -> tuple[TopicPlan, ...]:
    """Plan a run of topics without writing to their tables."""
    schemas = topic_schemas(configuration)
    described = run_parallel(lambda topic: _describe(configuration, topic), topics)
    return tuple(
        _plan(configuration, topic, schemas[topic.section], kafka)
        for topic, kafka in zip(topics, described, strict=True)
    )


def _describe(configuration: Configuration, topic: Topic) -> KafkaTopic | BayouError:
    """Describe a Kafka topic; return the error instead of raising it."""
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
        topic.check_table()
        if isinstance(kafka, BayouError):
            raise kafka
        options = configuration.connector.storage.storage_options()
        tables = TopicTables.of(topic, kafka, options)
        target = tables.target
        target.open()
        check_folder(topic, tables.engine, target.snapshot)
        plan = replace(
            plan,
            creates=target.version is None,
            table_differences=tuple(map(str, target.differences())),
            table_changes=topic.config.destination.apply_table_changes,
        )
        if target.snapshot is not None:
            history = table(topic.table_path, options).history
            plan = replace(
                plan, unconditional_commits=unconditional_commits(target.snapshot, history)
            )
        existing = existing_offsets(topic, kafka, target.covered, target.snapshot, options)
        transactions = {} if target.snapshot is None else target.snapshot.transactions
        letters = tables.dead_letters.transactions()
        positions = resume_positions(kafka, transactions, letters, existing)
        if not positions:
            properties = configuration.connector.kafka.client_properties()
            recorded = recorded_start(kafka, letters)
            positions = dict(first_start(topic, kafka, properties, recorded))
        lost = lost_offsets(kafka, positions)
        if topic.config.on_data_loss == "continue":
            positions = skip_lost_offsets(kafka, positions)
        starts = starting_offsets(kafka, positions, key=topic.key)
        bounds = sorted(kafka.bounds.items())
        spans = {p: OffsetSpan(start=starts[p], end=s.end) for p, s in bounds}
        plan = replace(plan, spans=spans, lost=lost)
        sampled = list(_first_records(configuration, plan))
        count = sum(batch.num_rows for _, batch in sampled)
        size = sum(batch.column("value").nbytes for _, batch in sampled)
        processing = topic.config.processing
        limit = record_limit(
            processing.batch_size, processing.max_batch_bytes, size / count if count else 0.0
        )
        plan = replace(
            plan,
            commits=math.ceil(plan.records / limit),
            bytes=round(size / count * plan.records) if count else 0,
            sampled=count,
            filters=processing.where is not None,
        )
        record_schema = RecordSchema.of(configuration, topic, schema)
        if topic.routes is None:
            return _with_rows(topic, record_schema, target, plan, sampled, limit=limit)
        routed = routed_plan(
            topic,
            kafka,
            tables,
            record_schema,
            sampled,
            records=plan.records,
            commits=plan.commits,
        )
        return replace(plan, **routed)
    except Exception as fault:  # noqa: BLE001  # a failure doesn't affect other topics
        return replace(plan, error=topic_error(fault, topic.key).message)


def _with_rows(
    topic: Topic,
    record_schema: RecordSchema,
    target: TargetState,
    plan: TopicPlan,
    sampled: Sequence[tuple[int, pa.RecordBatch]],
    *,
    limit: int,
) -> TopicPlan:
    known = target.columns
    policy = SchemaPolicy(topic, target, record_schema)
    columns = target.merged(known, read_columns(topic, record_schema.columns))
    added = {field.name: field for field in columns if known.get(field.name) is None}
    while True:  # as in a batch, repeat with columns for the new fields
        layout = policy.layout(columns)
        reader = RecordReader(policy.reading(layout, time.time_ns() // 1000))
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
    unstored = topic.config.processing.unstored
    added = {path: field for path, field in added.items() if field.name.lower() not in unstored}
    new = target.new_columns(layout)
    added |= {field.name: field for field in layout.derived if field.name in new}
    cost = run_cost(
        _limited_to_batch(good, plan, limit),
        layout,
        partition_columns=topic.config.destination.partition_columns,
        records=plan.records,
        commits=plan.commits,
        checkpoint_interval=target.checkpoint_interval,
    )
    return replace(
        plan,
        refused=dict(sorted(refused.items(), key=lambda item: -item[1])),
        new_columns={name: str(field.data_type) for name, field in added.items()},
        columns=layout.schema.names,
        unseen_masks=unseen_masks(topic, columns),
        unseen_fields=(
            unseen_fields(topic.config, columns) if plan.sampled or not plan.creates else ()
        ),
        filtered=reader.filtered,
        cost=cost,
    )


def _first_records(
    configuration: Configuration, plan: TopicPlan
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read up to `_SAMPLE` records of each Kafka partition; fewer if records are large.

    Yields pairs of a Kafka partition and a batch of its records.
    """
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
    """Return the first sampled rows of each Kafka partition, at most as many as a batch contains.

    A batch has `size` records. The number of records of each partition in a batch is proportional
    to the number of records that the run reads from the partition.
    """
    limited = {}
    for partition, batches in rows.items():
        span = plan.spans[partition]
        limit = math.ceil(size * (span.end - span.start) / plan.records)
        limited[partition] = pa.Table.from_batches(batches).slice(0, limit).to_batches()
    return limited
