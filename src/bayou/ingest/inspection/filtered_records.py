"""Finds the records that the pipeline filtered out, by reading them from Kafka again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from pyroaring import BitMap64

from bayou.engines import for_path
from bayou.ingest.batch.filter_history import FilterPeriod, split_by_period, updated_periods
from bayou.ingest.batch.record_reader import RecordReader, RecordReading
from bayou.ingest.batch.target.target_state import TargetState
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.offsets import KafkaTopic, OffsetSpan
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.schema.policy import SchemaPolicy
from bayou.ingest.schema.record_schema import RecordSchema
from bayou.kernel.arrow.compute import pc
from bayou.kernel.deletion_vectors.deleted_rows import to_bitmap


class FilterHistory:
    """The conditions `where` that a topic has had so far.

    For each condition, the history has the offsets of the records to which the condition applied.

    Args:
        properties: the properties of the topic's table.
        covered: for each Kafka partition, the next offset to read, as recorded by the table.
    """

    def __init__(
        self,
        configuration: Configuration,
        topic: Topic,
        kafka: KafkaTopic,
        properties: Mapping[str, str],
        covered: Mapping[int, int],
    ) -> None:
        self._configuration = configuration
        self._topic = topic
        self._kafka = kafka
        self._schema_file = topic_schemas(configuration)[topic.section]
        self._periods = updated_periods(topic, properties, covered)
        self._readings: dict[int, RecordReading] = {}

    @property
    def has_filters(self) -> bool:
        """Whether the topic has ever had a condition `where`."""
        return any(period.where is not None for period in self._periods)

    def readings(
        self, partition: int, span: OffsetSpan
    ) -> Iterator[tuple[OffsetSpan, RecordReading]]:
        """Split a range of offsets into parts with the same condition `where`.

        Yields each part, and the settings for decoding the records of the part.
        """
        for part, index in split_by_period(self._periods, partition, span):
            yield part, self._reading(index)

    def filtered(self, partition: int, records: pa.RecordBatch) -> BitMap64:
        """Return the offsets of the records that were filtered out.

        A batch evaluates the condition `where` for each record. A replay of dead letters evaluates
        it again for their records, and the condition may have changed since the batch. A record was
        filtered out if the condition wasn't TRUE in the batch, or wasn't TRUE in the replay.

        Args:
            records: records of one partition, with the columns of the Kafka source.
        """
        filtered = BitMap64()
        offsets = records.column("offset")
        for index, period in enumerate(self._periods):
            if period.where is None:
                continue
            applied = pc.greater_equal(offsets, period.starts.get(partition, 0))
            if index + 1 < len(self._periods):
                end = self._periods[index + 1].starts.get(partition, 0)
                applied = pc.and_(applied, pc.less(offsets, end))
            for start, end in period.replays.get(partition, []):
                within = pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end))
                applied = pc.or_(applied, within)
            candidates = records.filter(applied)
            # Don't validate the records: the schema file may have changed since they were filtered.
            reading = self._reading(index)
            reading = replace(
                reading,
                plan=replace(reading.plan, json_schema=None),
                format=replace(reading.format, json_schema=None),
            )
            for source, decoded, _ in RecordReader(reading).decode(candidates):
                filtered |= to_bitmap(source.column("offset").take(decoded.filtered))
        return filtered

    def _reading(self, index: int) -> RecordReading:
        """Return the settings for decoding records of a period with the same condition `where`.

        Args:
            index: the index of the period in the topic's `FilterPeriod`s, oldest first; -1 for the
                time before the first condition.
        """
        if index not in self._readings:
            period = FilterPeriod() if index < 0 else self._periods[index]
            topic = period.topic(self._topic)
            options = self._configuration.connector.storage.storage_options()
            target = TargetState(for_path(topic.table_path, options), topic, self._kafka)
            target.read()
            schema = RecordSchema.of(self._configuration, topic, self._schema_file)
            policy = SchemaPolicy(topic, target, schema)
            layout = policy.layout(policy.columns())
            reading = policy.reading(layout, time.time_ns() // 1000)
            # Ignore fields without a column, unless the condition reads them.
            where = reading.expressions.where
            plan = replace(
                reading.plan,
                discover=False,
                ignore=True,
                needed=frozenset() if where is None else where.unseen,
                inputs=frozenset(),
            )
            self._readings[index] = replace(reading, plan=plan)
        return self._readings[index]
