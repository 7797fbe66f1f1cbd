"""Writes records of programs and files to the table of a Kafka topic, like records of the topic.

The rows have these metadata columns:

- `_kafka_topic` is the name of the Kafka topic.
- `_kafka_partition` is `WRITTEN` for a record of a program, and `MIGRATED` for a record of a file.
  Both are negative, so that these rows aren't confused with rows of Kafka records.
- `_kafka_offset` is the record's index in the call of `write` for a record of a program. For a
  record of a file, it is the record's sequence number in all migrations to the table.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bayou.api import SnapshotHandle
from bayou.engines import for_path
from bayou.errors import (
    BayouError,
    CommitConflictError,
    ConcurrentTransactionError,
    PipelineError,
)
from bayou.ingest.batch.record_reader import RecordReader
from bayou.ingest.batch.row_layout import RowLayout
from bayou.ingest.batch.target.target_table import TargetTable
from bayou.ingest.batch.target.target_upserts import TargetUpserts, empty_rows
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.dead_letters.records import DEAD_LETTER_SCHEMA
from bayou.ingest.decode import merge_fields
from bayou.ingest.decode.formats import RecordDecoder
from bayou.ingest.events import BatchReport
from bayou.ingest.retries import retry_delay
from bayou.ingest.schema.files import topic_schemas
from bayou.ingest.schema.policy import SchemaPolicy, commit_tags
from bayou.ingest.schema.record_schema import RecordSchema
from bayou.kernel import Engine, Operation, Snapshot, Table, delete_data_files, write_data
from bayou.kernel.arrow.arrays import arange
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.protocol.schema import StructType
from bayou.version import INGEST_ENGINE_INFO

MIGRATED = -1
"""`_kafka_partition` of migrated rows."""

WRITTEN = -2
"""`_kafka_partition` of rows that a program has written."""


class DirectWriter:
    """Writes records to one topic's table. Not thread-safe.

    Args:
        records_of_topic: whether the records are in the format of the Kafka topic's records. If
            False, they are JSON objects.
    """

    def __init__(
        self, configuration: Configuration, topic: Topic, *, records_of_topic: bool = False
    ) -> None:
        if topic.routes is not None:
            raise PipelineError(
                f"topic {topic.key!r}: only the pipeline can write the tables of a topic with "
                "route-by, because its records can go to different tables. Send the records to the "
                "Kafka topic, or use a section without route-by.",
                topic=topic.key,
            )
        self._topic = topic
        schema_file = topic_schemas(replace(configuration, topics=(topic,)))[topic.section]
        schema = RecordSchema.of(configuration, topic, schema_file)
        storage_options = configuration.connector.storage.storage_options()
        self._engine: Engine = for_path(topic.table_path, storage_options)
        self._debezium = records_of_topic and topic.config.decode == "debezium"
        if not records_of_topic:
            schema = replace(schema, format=replace(schema.format, name="json"))
        self._format = schema.format
        self._target = TargetTable(self._engine, topic, None)
        self._upserts = TargetUpserts(self._engine, topic, self._target)
        self._policy = SchemaPolicy(topic, self._target, schema)

    def transactions(self) -> Mapping[str, int]:
        """Return the table's transaction identifiers; empty if there is no table."""
        snapshot = self._target.latest_snapshot()
        return {} if snapshot is None else snapshot.transactions

    def write(
        self, records: Sequence[pa.RecordBatch], transaction_ids: Mapping[str, int]
    ) -> BatchReport:
        """Write records to the table: first a commit of dead letters, then a commit of rows.

        Conflicts are retried `max-retries` times. If another commit has changed the table's
        columns, a retry may find more dead letters. Dead letters of an earlier attempt remain dead
        letters.

        Args:
            records: batches with the columns of the Kafka source; see `record_batch`.
            transaction_ids: transaction identifiers of both commits. If a table already has these
                identifiers, an earlier call has committed to this table, and the commit is skipped.

        Raises:
            ConcurrentTransactionError: another process writes the same records.
            BayouError: the write failed. Data files are deleted, except after an error of the
                store, because they may have been committed.
        """
        began = time.monotonic()
        conflicts = 0
        refused, new_ids = self._refused_before(records, transaction_ids)
        while True:
            result = self._read(_without(records, refused))
            try:
                if result.dead_letters:
                    self._write_dead_letters(result.dead_letters, new_ids)
                    new_ids = {}
                refused |= _positions(result.dead_letters)
                report = self._write_rows(result, transaction_ids)
                return replace(
                    report,
                    dead_letters=len(refused),
                    seconds=time.monotonic() - began,
                    conflicts=conflicts,
                )
            except BayouError as error:
                conflicts += 1
                is_repeated = (
                    isinstance(error, CommitConflictError)
                    and not isinstance(error, ConcurrentTransactionError)
                    and conflicts <= self._topic.config.processing.max_retries
                )
                if is_repeated:
                    pass
                elif refused and not transaction_ids:
                    raise error.with_sentences(self._committed_before(len(refused))) from error
                else:
                    raise
            time.sleep(retry_delay(conflicts))

    def _committed_before(self, count: int) -> str:
        """Return sentences about the dead letters that were committed before an error.

        Args:
            count: number of dead letters.
        """
        one = count == 1
        return (
            f"{dead_letters_path(self._topic.table_path)}: {count} of the records "
            f"{'was' if one else 'were'} committed as {'a dead letter' if one else 'dead letters'} "
            f"before this error. Before you write {'it' if one else 'them'} again, delete the dead "
            f"letter{'' if one else 's'} with bayou dlq drop."
        )

    def replay(
        self, records: Sequence[pa.RecordBatch], *, dry_run: bool
    ) -> tuple[pa.Table, int, BatchReport | None]:
        """Write the records of dead letters, without writing new dead letters.

        Args:
            records: the records, with the columns of the Kafka source.
            dry_run: if true, the records are only decoded, and nothing is written.

        Returns:
            The dead letters of the records that still can't become rows, the number of records that
            `processing.where` filters out, and the report of the write. The report is None if
            nothing was written.
        """
        conflicts = 0
        while True:
            result = self._read(records)
            schema = to_arrow_schema(DEAD_LETTER_SCHEMA)
            refused = pa.Table.from_batches(result.dead_letters, schema)
            if dry_run or not result.rows:
                return refused, result.filtered, None
            try:
                return refused, result.filtered, self._write_rows(result, {})
            except CommitConflictError:
                conflicts += 1
                if conflicts > self._topic.config.processing.max_retries:
                    raise
            time.sleep(retry_delay(conflicts))

    def _read(self, records: Sequence[pa.RecordBatch]) -> _ReadResult:
        self._target.open()
        columns = self._policy.columns()
        read_at = time.time_ns() // 1000
        while True:  # terminates: each iteration adds columns for new fields or refuses them
            layout = self._policy.layout(columns)
            reading = self._policy.reading(layout, read_at)
            reader = RecordReader(replace(reading, debezium=self._debezium))
            pairs = [pair for batch in records for pair in reader.read(batch)]
            if not reader.new_fields.fields:
                break
            columns = self._policy.widened(columns, merge_fields(StructType(), reader.new_fields))
        rows = [good for good, _ in pairs if good is not None]
        if self._topic.upsert_keys is not None:
            rows = [_before_kafka(good) for good in rows]
        return _ReadResult(
            layout=layout,
            rows=rows,
            dead_letters=[bad for _, bad in pairs if bad is not None],
            ignored=tuple(sorted(reader.ignored)),
            filtered=reader.filtered,
        )

    def filtered(self, records: pa.RecordBatch) -> int:
        """Return the number of records that `processing.where` filters out."""
        return self._read([records]).filtered

    def merge_schema(self, values: Sequence[bytes]) -> StructType:
        """Add a column to the table for each new field of records; return the table's schema."""
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
        is_known = self._target.columns == layout.record and not self._target.new_columns(layout)
        if self._target.version is None or not is_known:
            if self._topic.upsert_keys is not None:
                self._upserts.clear_deleted_keys()
            transaction, _ = self._target.begin(layout, {})
            self._target.commit(transaction, (), {})
        return layout.schema

    def _write_rows(self, result: _ReadResult, transaction_ids: Mapping[str, int]) -> BatchReport:
        rows, layout = result.rows, result.layout
        report = BatchReport(
            topic=self._topic.key,
            dead_letters=sum(bad.num_rows for bad in result.dead_letters),
            ignored=result.ignored,
            filtered=result.filtered,
        )
        target = self._target
        if not rows and target.version is None:
            return report
        added = target.new_columns(layout)
        tags = commit_tags(report, () if target.version is None else added)
        if self._topic.upsert_keys is not None:
            all_rows = pa.Table.from_batches(rows) if rows else empty_rows(layout)
            winners = self._upserts.last_of_each_key(all_rows)
            upserted = self._upserts.upsert(winners, layout, {}, transaction_ids, tags=tags)
            return upserted.add_to_report(report, all_rows.num_rows, added)
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
    ) -> tuple[set[tuple[int, int]], Mapping[str, int]]:
        """Return the records that an earlier attempt has already written as dead letters.

        A dead letter counts only if it has the same key and value as the record. A dead letter with
        the same offset can also be from an earlier migration, to a table that was deleted.

        Returns:
            The (partition, offset) pairs of these records, and the transaction identifiers that the
            dead letter table doesn't have yet. Both are from one version of the table. If another
            process has written dead letters since then, a commit that sets these identifiers
            conflicts.
        """
        table = Table.for_path(self._engine, dead_letters_path(self._topic.table_path))
        ends = [pc.min_max(batch.column("offset")).as_py() for batch in records if batch.num_rows]
        if not (transaction_ids and ends and table.exists(self._engine)):
            return set(), transaction_ids
        snapshot = table.latest_snapshot(self._engine)
        if new_ids := _unknown(transaction_ids, snapshot):
            return set(), new_ids
        low, high = min(e["min"] for e in ends), max(e["max"] for e in ends)
        dead_letters = SnapshotHandle(self._engine, snapshot).to_arrow(
            columns=_RECORD, filter=f"partition < 0 AND offset >= {low} AND offset <= {high}"
        )
        return _positions(_in_both(records, dead_letters.to_batches())), {}

    def _write_dead_letters(
        self, dead_letters: Sequence[pa.RecordBatch], transaction_ids: Mapping[str, int]
    ) -> None:
        table = Table.for_path(self._engine, dead_letters_path(self._topic.table_path))
        if table.exists(self._engine):
            snapshot = table.latest_snapshot(self._engine)
            builder = snapshot.build_update_table_transaction(INGEST_ENGINE_INFO, Operation.WRITE)
        else:
            builder = table.create_transaction_builder(
                self._engine, engine_info=INGEST_ENGINE_INFO, operation=Operation.WRITE
            ).with_table_created()
        builder = builder.with_schema(DEAD_LETTER_SCHEMA)
        for application, version in transaction_ids.items():
            builder = builder.with_transaction_id(application, version)
        transaction = builder.build(self._engine)
        adds = write_data(self._engine, transaction.transaction_state(self._engine), dead_letters)
        with discard_unless_committed(lambda: delete_data_files(self._engine, table.path, adds)):
            result = transaction.commit(self._engine, adds)
        if result.already_committed:
            delete_data_files(self._engine, table.path, adds)
            raise ConcurrentTransactionError(
                f"{table.path}: another process has committed dead letters of these "
                "records. Write these records from only one process.",
                table=table.path,
                winning_version=result.version,
            )
        result.run_post_commit_hooks(self._engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadResult:
    """The rows and the dead letters of decoded records. The rows have the columns of `layout`."""

    layout: RowLayout
    rows: list[pa.RecordBatch]
    dead_letters: list[pa.RecordBatch]
    ignored: tuple[str, ...]
    filtered: int


def _unknown(transaction_ids: Mapping[str, int], snapshot: Snapshot) -> dict[str, int]:
    known = snapshot.transactions
    return {app: number for app, number in transaction_ids.items() if known.get(app, -1) < number}


def _positions(records: Iterable[pa.RecordBatch]) -> set[tuple[int, int]]:
    positions: set[tuple[int, int]] = set()
    for batch in records:
        partitions: Any = batch.column("partition").to_pylist()
        offsets: Any = batch.column("offset").to_pylist()
        positions.update(zip(partitions, offsets, strict=True))
    return positions


_RECORD = ["partition", "offset", "key", "value"]


def _in_both(
    records: Iterable[pa.RecordBatch], dead_letters: Iterable[pa.RecordBatch]
) -> list[pa.RecordBatch]:
    """Return the records for which there is a dead letter with the same offset, key and value.

    Timestamps aren't compared, because the file of a migrated record may have another timestamp
    now.
    """
    known = {record for batch in dead_letters for record in _contents(batch)}
    return [
        batch.filter(pa.array([record in known for record in _contents(batch)], pa.bool_()))
        for batch in records
    ]


def _contents(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(batch.column(name).to_pylist() for name in _RECORD), strict=True)


def _without(
    records: Sequence[pa.RecordBatch], excluded: Collection[tuple[int, int]]
) -> Sequence[pa.RecordBatch]:
    if not excluded:
        return records
    result = []
    for batch in records:
        at = zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)
        result.append(batch.filter(pa.array([p not in excluded for p in at], pa.bool_())))
    return result


def _before_kafka(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Set the timestamps of migrated rows to null, so that records from Kafka are newer.

    A migrated row has the timestamp of its file, which can be later than the time of the record.
    """
    at = rows.schema.get_field_index("_kafka_timestamp")
    migrated = pc.equal(rows.column("_kafka_partition"), MIGRATED)
    timestamps = rows.column(at)
    without = pc.if_else(migrated, pa.scalar(None, timestamps.type), timestamps)
    return rows.set_column(at, rows.schema.field(at), without)


def record_batch(
    topic: str,
    values: Sequence[bytes | None],
    *,
    partition: int,
    first: int,
    timestamps: Iterable[int],
    keys: Sequence[bytes | None] | None = None,
) -> pa.RecordBatch:
    """Return records as a batch with the columns of the Kafka source.

    Args:
        partition: `WRITTEN` or `MIGRATED`.
        first: the offset of the first record. Each record has the offset after the previous record.
        timestamps: the timestamp of each record, in microseconds since the epoch.
        keys: the Kafka key of each record; None if no record has a key.
    """
    count = len(values)
    timestamp_column: Any = pa.array(timestamps, pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.nulls(count, pa.binary()) if keys is None else pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": pa.repeat(pa.scalar(topic), count),
            "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
            "offset": arange(first, first + count),
            "timestamp": timestamp_column,
            "headers": pa.nulls(count, pa.binary()),
        }
    )
