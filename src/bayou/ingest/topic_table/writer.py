"""Records that don't come from Kafka, put into a topic's table as its own are.

Rows tell where they are from in the same columns: `_kafka_topic` is the topic's, and
`_kafka_partition` is `WRITTEN` or `MIGRATED`, below all of Kafka's, so that nobody takes
`_kafka_offset` for an offset: it numbers the records of a call, or of a file.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.api import SnapshotHandle
from bayou.engines import for_path
from bayou.errors import (
    CommitConflictError,
    ConcurrentTransactionError,
)
from bayou.ingest.batch.record_reader import RecordReader
from bayou.ingest.batch.rows import RowLayout
from bayou.ingest.batch.target_table import ENGINE_INFO, TargetTable
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.dead_letters.records import DEAD_LETTER_SCHEMA
from bayou.ingest.decode import merge_fields
from bayou.ingest.decode.formats import RecordDecoder
from bayou.ingest.events import BatchReport
from bayou.ingest.retries import pause_before
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.schema.policy import SchemaPolicy, told_in_history
from bayou.ingest.schema.topic_format import topic_columns, topic_format
from bayou.kernel import Engine, Operation, Snapshot, Table, delete_data_files, write_data
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.protocol.schema import StructType

__all__ = ["MIGRATED", "WRITTEN", "DirectWriter", "record_batch"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array

MIGRATED = -1
"""`_kafka_partition` of a row that was migrated."""

WRITTEN = -2
"""`_kafka_partition` of a row that was handed over by a program."""


class DirectWriter:
    """Writes records to one topic's table. Not for several threads at once.

    Args:
        records_of_topic: records are what the topic's own are; else JSON objects with the same
            fields.

    Raises:
        ConfigurationError: the topic's schema file isn't usable.
    """

    def __init__(
        self, configuration: Configuration, topic: Topic, *, records_of_topic: bool = False
    ) -> None:
        self._topic = topic
        schema = topic_schemas(replace(configuration, topics=(topic,)))[topic.key]
        storage_options = configuration.connector.storage.storage_options()
        self._engine: Engine = for_path(topic.table_path, storage_options)
        self._format = topic_format(configuration, topic, schema)
        self._debezium = records_of_topic and topic.config.decode == "debezium"
        if not records_of_topic:
            self._format = replace(self._format, name="json")
        self._target = TargetTable(self._engine, topic, None)
        self._policy = SchemaPolicy(
            topic,
            self._target,
            json_schema=schema,
            schema_columns=topic_columns(topic, schema),
        )

    def transactions(self) -> Mapping[str, int]:
        """The table's transaction identifiers; none where there is no table."""
        return self._target.transactions()

    def write(
        self, records: Sequence[pa.RecordBatch], transaction_ids: Mapping[str, int]
    ) -> BatchReport:
        """Put records into the table, dead letters first, in one commit each.

        Where another writer's commit wins it is done again, `max-retries` times. The table may be
        another by then: who is a dead letter stays one, whatever a second look would say, and who
        doesn't fit any more becomes one too.

        Args:
            records: columns of the Kafka source; see `record_batch`.
            transaction_ids: go into both commits; a target that has them already gets nothing, and
                dead letters that have them have those of an earlier attempt at these records.

        Raises:
            BayouError: it can't be done; what was written is deleted, unless it is the store that
                failed: it may be committed then.
        """
        began = time.monotonic()
        conflicts = 0
        refused = self._refused_before(records, transaction_ids)
        while True:
            found = self._read(_without(records, refused))
            try:
                self._write_letters(found.letters, transaction_ids)
                refused |= _places(found.letters)
                report = self._write_rows(found, transaction_ids)
                return replace(
                    report,
                    dead_letters=len(refused),
                    seconds=time.monotonic() - began,
                    conflicts=conflicts,
                )
            except ConcurrentTransactionError:
                raise
            except CommitConflictError:
                conflicts += 1
                if conflicts > self._topic.config.processing.max_retries:
                    raise
            time.sleep(pause_before(conflicts))

    def replay(
        self, records: Sequence[pa.RecordBatch], *, dry_run: bool
    ) -> tuple[pa.Table, BatchReport | None]:
        """Put records into the table that were refused before; nothing is refused again.

        Args:
            records: as of `write`.
            dry_run: write nothing.

        Returns:
            Those that don't fit, as dead letters; the report where anything was written.

        Raises:
            BayouError: as `write`.
        """
        conflicts = 0
        while True:
            found = self._read(records)
            schema = to_arrow_schema(DEAD_LETTER_SCHEMA)
            refused = pa.Table.from_batches(found.letters, schema)
            if dry_run or not found.rows:
                return refused, None
            try:
                return refused, self._write_rows(found, {})
            except CommitConflictError:
                conflicts += 1
                if conflicts > self._topic.config.processing.max_retries:
                    raise
            time.sleep(pause_before(conflicts))

    def _read(self, records: Sequence[pa.RecordBatch]) -> _Read:
        """As the table stands now."""
        self._target.open()
        columns = self._policy.columns()
        read_at = time.time_ns() // 1000
        while True:  # ends: every turn makes a column of a new field, or refuses its name
            layout = self._policy.layout(columns)
            reading = self._policy.reading(layout, self._format, read_at)
            reader = RecordReader(replace(reading, debezium=self._debezium))
            found = [pair for batch in records for pair in reader.read(batch)]
            if not reader.new_fields.fields:
                break
            columns = self._policy.widened(columns, merge_fields(StructType(), reader.new_fields))
        rows = [good for good, _ in found if good is not None]
        if self._topic.upsert_keys is not None:
            rows = [_before_kafka(good) for good in rows]
        return _Read(
            layout=layout,
            rows=rows,
            letters=[bad for _, bad in found if bad is not None],
            ignored=tuple(sorted(reader.ignored)),
        )

    def merge_schema(self, values: Sequence[bytes]) -> StructType:
        """Give the table a column for each field of some records; no rows.

        Returns:
            The table's schema.

        Raises:
            PipelineError: the schema policy has no new columns for the table.
        """
        self._target.open()
        columns = self._policy.columns()
        self._policy.without_limit()
        while True:
            layout = self._policy.layout(columns)
            plan = self._policy.plan(layout)
            new = RecordDecoder(self._format, plan).decode(pa.array(values, pa.binary())).new_fields
            if not new.fields:
                break
            columns = self._policy.widened(columns, new)
        if self._target.version is None or self._target.columns != layout.record:
            self._target.forget_earlier()
            transaction, _ = self._target.begin(layout, {})
            self._target.commit(transaction, (), {})
        return layout.schema

    def _write_rows(self, found: _Read, transaction_ids: Mapping[str, int]) -> BatchReport:
        rows, layout = found.rows, found.layout
        report = BatchReport(
            topic=self._topic.key,
            dead_letters=sum(bad.num_rows for bad in found.letters),
            ignored=found.ignored,
        )
        target = self._target
        if not rows and target.version is None:
            return report
        added = target.new_columns(layout)
        tags = told_in_history(report.ignored, () if target.version is None else added)
        if self._topic.upsert_keys is not None:
            gathered = pa.Table.from_batches(rows) if rows else target.no_rows(layout)
            winners = target.decide(gathered)
            done = target.upsert(winners, layout, {}, transaction_ids, tags=tags)
            return done.told(report, gathered.num_rows, added)
        transaction, added = target.begin(layout, {}, transaction_ids)
        adds = write_data(self._engine, transaction.transaction_state(self._engine), rows)
        with discard_unless_committed(lambda: target.discard(adds)):
            version = target.commit(transaction, adds, {}, tags=tags)
        if version is None:
            target.discard(adds)
            return report
        count = sum(batch.num_rows for batch in rows)
        return replace(report, rows=count, version=version, new_columns=added)

    def _refused_before(
        self, records: Sequence[pa.RecordBatch], transaction_ids: Mapping[str, int]
    ) -> set[tuple[int, int]]:
        """Partitions and offsets of the records that an earlier attempt made dead letters."""
        table = Table.for_path(self._engine, dead_letters_path(self._topic.table_path))
        ends = [pc.min_max(batch.column("offset")).as_py() for batch in records if batch.num_rows]
        if not (transaction_ids and ends and table.exists(self._engine)):
            return set()
        snapshot = table.latest_snapshot(self._engine)
        if _unknown(transaction_ids, snapshot):
            return set()
        low, high = min(e["min"] for e in ends), max(e["max"] for e in ends)
        letters = SnapshotHandle(self._engine, snapshot).to_arrow(
            columns=["partition", "offset"], filter=f"offset >= {low} AND offset <= {high}"
        )
        return _places(letters.to_batches()) & _places(records)

    def _write_letters(
        self, letters: Sequence[pa.RecordBatch], transaction_ids: Mapping[str, int]
    ) -> None:
        if not letters:
            return
        table = Table.for_path(self._engine, dead_letters_path(self._topic.table_path))
        if table.exists(self._engine):
            snapshot = table.latest_snapshot(self._engine)
            transaction_ids = _unknown(transaction_ids, snapshot)
            builder = snapshot.build_update_table_transaction(ENGINE_INFO, Operation.WRITE)
        else:
            builder = table.create_transaction_builder(
                self._engine, engine_info=ENGINE_INFO, operation=Operation.WRITE
            ).with_table_made()
        builder = builder.with_schema(DEAD_LETTER_SCHEMA)
        for application, version in transaction_ids.items():
            builder = builder.with_transaction_id(application, version)
        transaction = builder.build(self._engine)
        adds = write_data(self._engine, transaction.transaction_state(self._engine), letters)
        with discard_unless_committed(lambda: delete_data_files(self._engine, table.path, adds)):
            result = transaction.commit(self._engine, adds)
        if result.already_committed:
            delete_data_files(self._engine, table.path, adds)
        else:
            result.run_post_commit_hooks(self._engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Records as rows of a layout, and as dead letters."""

    layout: RowLayout
    rows: list[pa.RecordBatch]
    letters: list[pa.RecordBatch]
    ignored: tuple[str, ...]


def _unknown(transaction_ids: Mapping[str, int], snapshot: Snapshot) -> dict[str, int]:
    """Those that a table doesn't have yet."""
    known = snapshot.transactions
    return {app: number for app, number in transaction_ids.items() if known.get(app, -1) < number}


def _places(records: Iterable[pa.RecordBatch]) -> set[tuple[int, int]]:
    """The partition and offset of each record."""
    found: set[tuple[int, int]] = set()
    for batch in records:
        partitions: Any = batch.column("partition").to_pylist()
        offsets: Any = batch.column("offset").to_pylist()
        found.update(zip(partitions, offsets, strict=True))
    return found


def _without(
    records: Sequence[pa.RecordBatch], places: Collection[tuple[int, int]]
) -> Sequence[pa.RecordBatch]:
    """Records but for those at some places."""
    if not places:
        return records
    kept = []
    for batch in records:
        at = zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)
        kept.append(batch.filter(pa.array([place not in places for place in at], pa.bool_())))
    return kept


def _before_kafka(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of an upsert whose migrated ones are older than whatever Kafka brings.

    When a file was written, or copied, says nothing of when its records were.
    """
    at = rows.schema.get_field_index("_kafka_timestamp")
    migrated = pc.equal(rows.column("_kafka_partition"), MIGRATED)
    moments = rows.column(at)
    return rows.set_column(
        at, rows.schema.field(at), pc.if_else(migrated, pa.scalar(None, moments.type), moments)
    )


def record_batch(
    topic: str,
    values: Sequence[bytes | None],
    *,
    partition: int,
    first: int,
    timestamps: Iterable[int],
    keys: Sequence[bytes | None] | None = None,
) -> pa.RecordBatch:
    """Records in the columns of the Kafka source.

    Args:
        topic: the Kafka topic's name.
        partition: `WRITTEN` or `MIGRATED`.
        first: number of the first record, the others count on.
        timestamps: of each, microseconds since the epoch.
    """
    count = len(values)
    moments: Any = pa.array(timestamps, pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.nulls(count, pa.binary()) if keys is None else pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": pa.repeat(pa.scalar(topic), count),
            "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
            "offset": pa.array(range(first, first + count), pa.int64()),
            "timestamp": moments,
            "headers": pa.nulls(count, pa.binary()),
        }
    )
