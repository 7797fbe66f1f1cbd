"""Verifies that an upsert's table has the last row of each key, and no rows of deleted keys.

The table has only one row for each key, so an offset without a row isn't an error. Instead, the
verification computes the expected rows in the same way as the pipeline. It starts with the rows and
the deleted keys whose records Kafka no longer has. Then it applies the records that Kafka still
has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from bayou.api import SnapshotHandle, table
from bayou.api.rows.read import PlannedRead
from bayou.engines import for_path
from bayou.ingest.batch.record_reader import RecordReader
from bayou.ingest.batch.record_timestamps import RecordTimes
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import deleted_keys_path
from bayou.ingest.inspection.filtered_records import FilterHistory
from bayou.ingest.inspection.kafka_records import kafka_records
from bayou.ingest.offsets import KafkaTopic, OffsetSpan
from bayou.ingest.offsets_of_rows import TopicOffsets
from bayou.ingest.upsert import (
    BARE,
    DELETED,
    FORCED,
    SUPERSEDED,
    UpsertKeys,
    key_numbers,
    last_of_each_key,
)
from bayou.kernel.arrow.compute import pc
from bayou.kernel.deletion_vectors.deleted_rows import to_bitmap

_MERGE_ROWS = 200_000
"""Number of records to collect before they are merged into the expected rows."""

_TOPIC, _PARTITION, _OFFSET = "_kafka_topic", "_kafka_partition", "_kafka_offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyProof:
    """The result of `prove_keys`.

    Attributes:
        missing: for each Kafka partition, offsets of records whose rows are missing in the table.
        stale: for each Kafka partition, offsets of rows that a newer record should have replaced or
            deleted.
        duplicate_keys: the number of rows minus the number of distinct keys.
    """

    missing: Mapping[int, BitMap64] = field(default_factory=dict)
    stale: Mapping[int, BitMap64] = field(default_factory=dict)
    duplicate_keys: int = 0


def prove_keys(
    configuration: Configuration,
    topic: Topic,
    kafka: KafkaTopic,
    *,
    snapshot: SnapshotHandle,
    starts: Mapping[int, int],
    covered: Mapping[int, int],
    letters: TopicOffsets,
    history: FilterHistory,
) -> KeyProof:
    """Compare the table of an upsert with the topic's records up to the recorded offsets.

    The key columns and the ordering columns of all rows must fit in memory.

    Args:
        starts: for each Kafka partition, the offset at which the pipeline started to read. A
            partition that isn't in this dict was read from its first offset.
        covered: for each partition, the next offset to read, as recorded by the table.
        letters: offsets of dead letters, whose records have no rows.
        history: the conditions `where` that filtered the records.
    """
    keys = topic.upsert_keys
    assert keys is not None
    readable: dict[int, OffsetSpan] = {}
    for p, bounds in kafka.bounds.items():
        start = max(bounds.start, starts.get(p, 0))
        readable[p] = OffsetSpan(start=start, end=max(start, min(bounds.end, covered.get(p, 0))))
    names = [n for n in keys.all_columns if n in snapshot.schema.names]
    engine = for_path(topic.table_path, configuration.connector.storage.storage_options())
    rows = PlannedRead.plan(
        engine, snapshot.kernel, names, None, None, time_zone=topic.time_zone
    ).to_arrow()
    records = _Records(configuration, kafka, history, keys, rows.schema)
    deleted = _deleted_keys(configuration, topic)
    expected = records.last_rows(
        _without_readable(rows, kafka.name, readable),
        _without_readable(deleted, kafka.name, readable),
        deleted,
    )
    for part in records.read(readable, letters):
        expected = records.last_rows(expected, part, deleted)
    expected = expected.filter(pc.invert(expected.column(DELETED))).select(names)
    return _compare(keys, expected, rows, records.refused)


class _Records:
    """Reads a topic's records as rows with only the key columns, ordering columns and `DELETED`.

    Attributes:
        refused: for each partition, offsets of records that would become dead letters with the
            current schema.
    """

    def __init__(
        self,
        configuration: Configuration,
        kafka: KafkaTopic,
        history: FilterHistory,
        keys: UpsertKeys,
        schema: pa.Schema,
    ) -> None:
        self._history = history
        self._schema = pa.schema([*schema, pa.field(DELETED, pa.bool_())])
        self._keys = keys
        self._kafka = kafka
        self._properties = configuration.connector.kafka.client_properties()
        self.refused: dict[int, BitMap64] = {}

    def last_rows(self, before: pa.Table, after: pa.Table, deleted: pa.Table) -> pa.Table:
        """Return the last row of each key. The column `DELETED` is true if the row deletes the key.

        Args:
            before: rows of earlier records.
            after: rows of later records.
            deleted: the table of deleted keys, which stores the ordering value of each tombstone.
                This value can't always be computed from the records in Kafka.
        """
        rows = pa.concat_tables([self._cast(before), self._cast(after)])
        empty = rows.drop_columns([DELETED]).slice(0, 0)
        orderings = self._cast(deleted).select(
            [n for n in empty.column_names if n != "_kafka_timestamp"]
        )
        last = last_of_each_key(self._keys, rows, empty, orderings)
        last = last.filter(pc.invert(last.column(SUPERSEDED)))
        return last.drop_columns([FORCED, BARE, SUPERSEDED])

    def read(self, readable: Mapping[int, OffsetSpan], letters: TopicOffsets) -> Iterator[pa.Table]:
        """Yield the rows of the records in ranges of offsets, except the records of dead letters.

        Args:
            readable: the range of offsets to read from each partition.
            letters: the offsets of dead letters.
        """
        waiting: list[pa.RecordBatch] = []
        times = RecordTimes({p: span.start for p, span in readable.items()}, {})
        parts = (
            (partition, span, reading)
            for partition, whole in readable.items()
            for span, reading in self._history.readings(partition, whole)
        )
        for partition, span, reading in parts:
            reader = RecordReader(reading)
            dead = letters.of(partition).once
            known = pa.array(dead.to_array(), pa.int64()) if dead else None
            for batch in kafka_records(self._properties, self._kafka.name, [(partition, span)]):
                candidates = times.fill(batch)
                if known is not None:
                    is_dead = pc.is_in(batch.column("offset"), value_set=known)
                    candidates = candidates.filter(pc.invert(is_dead))
                for rows, refused in reader.read(candidates):
                    if refused is not None:
                        at = self.refused.setdefault(partition, BitMap64())
                        at |= to_bitmap(refused.column("offset"))
                    if rows is not None:
                        waiting.append(rows.select(self._schema.names))
                if sum(batch.num_rows for batch in waiting) >= _MERGE_ROWS:
                    yield pa.Table.from_batches(waiting)
                    waiting = []
        if waiting:
            yield pa.Table.from_batches(waiting)

    def _cast(self, rows: pa.Table) -> pa.Table:
        """Convert rows to the columns and types that `read` yields.

        If `DELETED` is missing, it is added with the value false. Any other missing column is added
        with nulls.
        """
        count = rows.num_rows
        columns = []
        for key_field in self._schema:
            if key_field.name in rows.column_names:
                columns.append(rows.column(key_field.name).cast(key_field.type))
            elif key_field.name == DELETED:
                columns.append(pa.chunked_array([pa.repeat(pa.scalar(False), count)]))
            else:
                columns.append(pa.chunked_array([pa.nulls(count, key_field.type)]))
        return pa.Table.from_arrays(
            columns, schema=pa.schema([f.with_nullable(True) for f in self._schema])
        )


def _deleted_keys(configuration: Configuration, topic: Topic) -> pa.Table:
    """Read the table of deleted keys, and add the column `DELETED` with the value true."""
    options = configuration.connector.storage.storage_options()
    handle = table(deleted_keys_path(topic.table_path), options)
    columns = {_PARTITION: pa.array([], pa.int32()), _OFFSET: pa.array([], pa.int64())}
    rows = handle.to_arrow() if handle.exists() else pa.table(columns)
    flags = pa.repeat(pa.scalar(True), rows.num_rows)
    return rows.append_column(DELETED, pa.chunked_array([flags]))


def _without_readable(rows: pa.Table, topic: str, readable: Mapping[int, OffsetSpan]) -> pa.Table:
    """Remove the rows whose records a Kafka topic still has.

    Args:
        topic: the name of the Kafka topic.
        readable: the range of offsets that Kafka still has, by partition.
    """
    known: Any = pa.repeat(pa.scalar(False), rows.num_rows)
    partitions, offsets = rows.column(_PARTITION), rows.column(_OFFSET)
    for partition, span in readable.items():
        within = pc.and_(
            pc.greater_equal(offsets, span.start), pc.less(offsets, max(span.start, span.end))
        )
        known = pc.or_(known, pc.and_(pc.equal(partitions, partition), within))
    if _TOPIC in rows.column_names:  # deleted keys that an earlier version stored have no topic
        known = pc.and_(known, pc.fill_null(pc.equal(rows.column(_TOPIC), topic), True))
    return rows.filter(pc.invert(pc.fill_null(known, False)))


def _compare(
    keys: UpsertKeys, expected: pa.Table, rows: pa.Table, refused: Mapping[int, BitMap64]
) -> KeyProof:
    both = pa.concat_tables([expected.cast(rows.schema), rows])
    ids = key_numbers([both.column(c) for c in keys.columns])
    if ids is None or not both.num_rows:
        return KeyProof()
    expected_ids, row_ids = ids.slice(0, expected.num_rows), ids.slice(expected.num_rows)
    duplicates = len(row_ids) - len(pc.unique(row_ids))
    row_indices = pc.index_in(expected_ids, value_set=row_ids)
    missing = expected.filter(pc.invert(_same_record(expected, rows.take(row_indices))))
    expected_indices = pc.index_in(row_ids, value_set=expected_ids)
    stale = rows.filter(pc.invert(_same_record(rows, expected.take(expected_indices))))
    # Rows of records that the current schema file refuses aren't checked.
    by_partition = {
        partition: offsets - refused.get(partition, BitMap64())
        for partition, offsets in _offsets(stale).items()
    }
    return KeyProof(
        missing=_offsets(missing),
        stale={p: offsets for p, offsets in by_partition.items() if offsets},
        duplicate_keys=duplicates,
    )


def _same_record(left: pa.Table, right: pa.Table) -> Any:
    partition, offset, topic = (
        pc.equal(left.column(c), right.column(c)) for c in (_PARTITION, _OFFSET, _TOPIC)
    )
    return pc.fill_null(pc.and_(pc.and_(partition, offset), topic), False)


def _offsets(rows: pa.Table) -> dict[int, BitMap64]:
    partitions = rows.column(_PARTITION)
    return {
        partition: to_bitmap(
            rows.column(_OFFSET).filter(pc.equal(partitions, partition)).combine_chunks()
        )
        for partition in pc.unique(partitions).to_pylist()
    }
