"""The proof for tables of upserts: each key has the row that its records give it, or none.

An upsert keeps one record of a key, so that an offset without a row says nothing. What must be
there follows from the records: those that the brokers still have are read again and decided as a
batch decides them, on top of rows and deleted keys that stem from records which are gone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyroaring import BitMap64

from bayou.api import SnapshotHandle, table
from bayou.engines import for_path
from bayou.ingest.batch.record_reader import RecordReader
from bayou.ingest.batch.target_table import TargetTable
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import deleted_keys_path
from bayou.ingest.inspection.kafka_records import kafka_records
from bayou.ingest.inspection.seen_offsets import TopicOffsets
from bayou.ingest.offsets import KafkaTopic, OffsetSpan
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.schema.policy import SchemaPolicy
from bayou.ingest.schema.topic_format import topic_columns, topic_format
from bayou.ingest.upsert import DELETED, FORCED, UpsertKeys, key_numbers, last_of_each_key
from bayou.kernel.deletion_vectors.deleted_rows import bitmap

__all__ = ["KeyProof", "prove_keys"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array

_FOLD = 200_000
"""Records that wait until they are decided."""

_PARTITION, _OFFSET = "_kafka_partition", "_kafka_offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyProof:
    """What keys say of offsets; each by Kafka partition.

    Attributes:
        missing: records that count for their key, and whose row isn't there.
        stale: rows whose key a newer record has changed or deleted.
        double_keys: rows beyond the first of their key.
    """

    missing: Mapping[int, BitMap64] = field(default_factory=dict)
    stale: Mapping[int, BitMap64] = field(default_factory=dict)
    double_keys: int = 0


def prove_keys(
    configuration: Configuration,
    topic: Topic,
    kafka: KafkaTopic,
    *,
    snapshot: SnapshotHandle,
    starts: Mapping[int, int],
    covered: Mapping[int, int],
    letters: TopicOffsets,
) -> KeyProof:
    """Read what the topic has below the covered offsets, and compare.

    Memory holds key and order of each key.

    Args:
        snapshot: of the target.
        starts: for each partition whose records weren't all read the first offset that was.
        covered: for each partition the offset below which the target has everything.
        letters: what the dead letters have.

    Raises:
        KafkaError: the brokers don't answer.
        BayouError: the schema file doesn't fit the table.
    """
    keys = topic.upsert_keys
    assert keys is not None
    readable: dict[int, OffsetSpan] = {}
    for p, there in kafka.bounds.items():
        start = max(there.start, starts.get(p, 0))
        readable[p] = OffsetSpan(start=start, end=max(start, min(there.end, covered.get(p, 0))))
    names = [n for n in keys.all_columns if n in snapshot.schema.names]
    rows = snapshot.to_arrow(columns=names)
    records = _Records(configuration, topic, kafka, keys, rows.schema)
    deleted = _deleted(configuration, topic)
    expected = records.decided(_without(rows, readable), _without(deleted, readable), deleted)
    for part in records.read(readable, letters):
        expected = records.decided(expected, part, deleted)
    expected = expected.filter(pc.invert(expected.column(DELETED))).select(names)
    return _compared(keys, expected, rows, records.refused)


class _Records:
    """Records of the topic as rows of key and order."""

    def __init__(
        self,
        configuration: Configuration,
        topic: Topic,
        kafka: KafkaTopic,
        keys: UpsertKeys,
        schema: pa.Schema,
    ) -> None:
        options = configuration.connector.storage.storage_options()
        target = TargetTable(for_path(topic.table_path, options), topic, kafka)
        target.open()
        json_schema = topic_schemas(configuration)[topic.key]
        policy = SchemaPolicy(
            topic, target, json_schema=json_schema, schema_columns=topic_columns(topic, json_schema)
        )
        layout = policy.layout(policy.columns())
        record_format = topic_format(configuration, topic, json_schema)
        reading = policy.reading(layout, record_format, time.time_ns() // 1000)
        # Fields that came later, or that rows never had, are no part of a key.
        plan = replace(reading.plan, discover=False, ignore=True)
        self._reading = replace(reading, plan=plan)
        self._schema = pa.schema([*schema, pa.field(DELETED, pa.bool_())])
        self._keys = keys
        self._kafka = kafka
        self._properties = configuration.connector.kafka.client_properties()
        self.refused: dict[int, BitMap64] = {}

    def decided(self, before: pa.Table, more: pa.Table, deleted: pa.Table) -> pa.Table:
        """The rows that count of two sets of them, deletes among them.

        Args:
            deleted: keys as they were deleted: tombstones have their ordering values from there,
                too, for some came from rows that aren't Kafka's.
        """
        rows = pa.concat_tables([self._fitted(before), self._fitted(more)])
        nothing = rows.drop_columns([DELETED]).slice(0, 0)
        orderings = self._fitted(deleted).select(
            [n for n in nothing.column_names if n != "_kafka_timestamp"]
        )
        return last_of_each_key(self._keys, rows, nothing, orderings).drop_columns([FORCED])

    def read(self, readable: Mapping[int, OffsetSpan], letters: TopicOffsets) -> Iterator[pa.Table]:
        """Rows of a part of the topic, dead letters left out."""
        reader = RecordReader(self._reading)
        waiting: list[pa.RecordBatch] = []
        for partition, span in readable.items():
            if span.empty:
                continue
            dead = letters.of(partition).once
            known = pa.array(dead.to_array(), pa.int64()) if dead else None
            for batch in kafka_records(self._properties, self._kafka.name, [(partition, span)]):
                undecided = batch
                if known is not None:
                    decided = pc.is_in(batch.column("offset"), value_set=known)
                    undecided = batch.filter(pc.invert(decided))
                for rows, refused in reader.read(undecided):
                    if refused is not None:
                        at = self.refused.setdefault(partition, BitMap64())
                        at |= bitmap(refused.column("offset"))
                    if rows is not None:
                        waiting.append(rows.select(self._schema.names))
                if sum(batch.num_rows for batch in waiting) >= _FOLD:
                    yield pa.Table.from_batches(waiting)
                    waiting = []
        if waiting:
            yield pa.Table.from_batches(waiting)

    def _fitted(self, rows: pa.Table) -> pa.Table:
        """With the columns of this table's keys; rows without a flag are there."""
        count = rows.num_rows
        columns = []
        for wanted in self._schema:
            if wanted.name in rows.column_names:
                columns.append(rows.column(wanted.name).cast(wanted.type))
            elif wanted.name == DELETED:
                columns.append(pa.chunked_array([pa.repeat(pa.scalar(False), count)]))
            else:
                columns.append(pa.chunked_array([pa.nulls(count, wanted.type)]))
        return pa.Table.from_arrays(
            columns, schema=pa.schema([f.with_nullable(True) for f in self._schema])
        )


def _deleted(configuration: Configuration, topic: Topic) -> pa.Table:
    """The keys that were deleted."""
    options = configuration.connector.storage.storage_options()
    handle = table(deleted_keys_path(topic.table_path), options)
    columns = {_PARTITION: pa.array([], pa.int32()), _OFFSET: pa.array([], pa.int64())}
    rows = handle.to_arrow() if handle.exists() else pa.table(columns)
    flags = pa.repeat(pa.scalar(True), rows.num_rows)
    return rows.append_column(DELETED, pa.chunked_array([flags]))


def _without(rows: pa.Table, readable: Mapping[int, OffsetSpan]) -> pa.Table:
    """Those that stem from no record that can be read."""
    known: Any = pa.repeat(pa.scalar(False), rows.num_rows)
    partitions, offsets = rows.column(_PARTITION), rows.column(_OFFSET)
    for partition, span in readable.items():
        within = pc.and_(
            pc.greater_equal(offsets, span.start), pc.less(offsets, max(span.start, span.end))
        )
        known = pc.or_(known, pc.and_(pc.equal(partitions, partition), within))
    return rows.filter(pc.invert(pc.fill_null(known, False)))


def _compared(
    keys: UpsertKeys, expected: pa.Table, rows: pa.Table, refused: Mapping[int, BitMap64]
) -> KeyProof:
    both = pa.concat_tables([expected.cast(rows.schema), rows])
    ids = key_numbers([both.column(c) for c in keys.columns])
    if ids is None or not both.num_rows:
        return KeyProof()
    wanted, there = ids.slice(0, expected.num_rows), ids.slice(expected.num_rows)
    doubles = len(there) - len(pc.unique(there))
    found = pc.index_in(wanted, value_set=there)
    missing = expected.filter(pc.invert(_same(expected, rows.take(found))))
    due = pc.index_in(there, value_set=wanted)
    stale = rows.filter(pc.invert(_same(rows, expected.take(due))))
    # Rows of records that today's schema file refuses tell nothing.
    by_partition = {
        partition: offsets - refused.get(partition, BitMap64())
        for partition, offsets in _offsets(stale).items()
    }
    return KeyProof(
        missing=_offsets(missing),
        stale={p: offsets for p, offsets in by_partition.items() if offsets},
        double_keys=doubles,
    )


def _same(ours: pa.Table, others: pa.Table) -> Any:
    """Whether rows stem from the same record."""
    parts = [pc.equal(ours.column(c), others.column(c)) for c in (_PARTITION, _OFFSET)]
    return pc.fill_null(pc.and_(*parts), False)


def _offsets(rows: pa.Table) -> dict[int, BitMap64]:
    partitions = rows.column(_PARTITION)
    return {
        partition: bitmap(
            rows.column(_OFFSET).filter(pc.equal(partitions, partition)).combine_chunks()
        )
        for partition in pc.unique(partitions).to_pylist()
    }
