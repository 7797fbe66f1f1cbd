"""Replays dead letters of a topic whose records are appended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from bayou.api import SnapshotHandle, TableHandle, table
from bayou.api.conditions import combine_with_and
from bayou.engines import for_path
from bayou.errors import PipelineError, SchemaError
from bayou.ingest.batch.expressions import needed_fields
from bayou.ingest.batch.filter_history import filter_properties
from bayou.ingest.batch.metadata_columns import feed_columns
from bayou.ingest.batch.record_reader import RecordReader, RecordReading
from bayou.ingest.batch.row_layout import RowLayout
from bayou.ingest.batch.target.stored_columns import input_properties, record_columns_of
from bayou.ingest.batch.target.target_checks import check_keys, check_not_restored
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.dead_letters import record_identity
from bayou.ingest.dead_letters.record_identity import OTHER_ROW, RECORD, at_offsets, identities
from bayou.ingest.decode import Decoded, DecodePlan, leaf_count, merge_fields
from bayou.ingest.migration import migrated_end
from bayou.ingest.offsets import OffsetSpan, covered_offsets
from bayou.ingest.offsets_of_rows import TopicOffsets
from bayou.ingest.routing.former_tables import registered_snapshots
from bayou.ingest.schema.new_columns import with_new_columns, within_limit
from bayou.ingest.schema.policy import (
    check_masks,
    read_columns,
    row_expressions,
    row_layout,
)
from bayou.ingest.schema.record_schema import RecordSchema
from bayou.ingest.topic_table.direct_writer import MIGRATED
from bayou.kernel import Operation, Table, delete_data_files, write_data
from bayou.kernel.arrow.arrays import arange
from bayou.kernel.arrow.compute import pc
from bayou.kernel.data_writer.data_writer import uses_partition_folders
from bayou.kernel.engine import Engine
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.kernel.transaction.schema_evolution import merge_schemas
from bayou.protocol.schema import StructField, StructType
from bayou.version import ENGINE_INFO


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The result of a replay.

    Attributes:
        replayed: number of dead letters that became rows.
        already_rows: number of dead letters whose rows the target already has, from an interrupted
            replay.
        filtered: number of dead letters whose records `processing.where` filters out now; they are
            deleted without becoming rows.
        refused: number of dead letters that still can't become rows. They remain in the dead letter
            table, with their original reasons.
        reasons: for each reason why this replay refused dead letters, the number of these dead
            letters.
        skipped: number of dead letters whose offset or migrated batch the target hasn't recorded
            yet. They remain in the dead letter table, because the pipeline or the migration will
            process their records again.
        version: the latest version of the target that the replay committed; None if nothing was
            committed.
    """

    topic: str
    replayed: int = 0
    already_rows: int = 0
    filtered: int = 0
    refused: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    version: int | None = None


WRITTEN_BY_PROGRAM = (
    "the record was written by a program. Write the corrected record again, and drop the dead "
    "letter with bayou dlq drop"
)
"""The reason for not replaying a dead letter of a record that a program wrote."""

_APPLICATION = "bayou-replay/"
"""Prefix of the `appId`s of a replay's transaction identifiers."""


class AppendReplay:
    """One attempt to replay dead letters.

    It reads one version of the target and one version of the dead letter table.
    """

    _no_replay = WRITTEN_BY_PROGRAM

    def __init__(
        self, configuration: Configuration, topic: Topic, schema: str | None, where: str | None
    ) -> None:
        options = configuration.connector.storage.storage_options()
        self._topic = topic
        self._storage_options = options
        self._name = topic.config.kafka_topic
        self._schema = RecordSchema.of(configuration, topic, schema)
        self._engine: Engine = for_path(topic.table_path, options)
        self._target: TableHandle = table(topic.table_path, engine=self._engine)
        letters_path = dead_letters_path(topic.table_path)
        self._letters_engine: Engine = for_path(letters_path, options)
        self._dead_letters = table(letters_path, engine=self._letters_engine)
        self._where = combine_with_and(f"topic = '{self._name}'", where)
        self._selects_all = where is None
        self._letters = TopicOffsets(MIGRATED)
        self._repeated: record_identity.Offsets = {}  # of all dead letters of the topic
        self._other_rows: record_identity.Offsets = {}
        self._run_id = -1  # transaction identifier and `_ingestion_timestamp` of the rows
        self._interrupted: frozenset[int] = frozenset()  # run ids of interrupted replays
        self._last_read = -1  # latest `_ingestion_timestamp` of the dead letters
        self._reserved: frozenset[str] = frozenset()  # names that columns can't have
        self._within = OffsetSpan(start=0, end=0)  # contains all offsets in `_letters`
        self._version: int | None = None
        self._reasons: dict[str, int] = {}
        self._done: list[pa.RecordBatch] = []
        self._replayed = self._already_rows = self._filtered = self._refused = self._skipped = 0

    def run(self, *, dry_run: bool) -> ReplayResult:
        if not self._target.exists():
            raise PipelineError(
                f"topic {self._topic.key!r}: there is no table at {self._target.table_uri}. "
                "Run the pipeline first.",
                topic=self._topic.key,
            )
        if not self._dead_letters.exists():
            return self._result(None)
        dead_letters = self._dead_letters.snapshot()
        snapshot = self._target.snapshot()
        check_keys(self._topic, snapshot.kernel)
        # Check now: if the replay added a row at the last recorded offset, `missing_last_rows`
        # could no longer detect a RESTORE.
        target = Table.for_path(self._engine, self._target.table_uri)
        check_not_restored(self._engine, target, self._topic, snapshot.kernel, None)
        self._version = self._add_rows(dead_letters, snapshot, dry_run=dry_run)
        if not dry_run:
            self._delete_done()
        return self._result(self._version)

    def _result(self, version: int | None) -> ReplayResult:
        return ReplayResult(
            topic=self._topic.key,
            replayed=self._replayed,
            already_rows=self._already_rows,
            filtered=self._filtered,
            refused=self._refused,
            reasons=dict(self._reasons),
            skipped=self._skipped,
            version=version,
        )

    def _add_rows(
        self, dead_letters: SnapshotHandle, snapshot: SnapshotHandle, *, dry_run: bool
    ) -> int | None:
        covered = covered_offsets(self._name, snapshot.transactions)
        ends = self._ends(snapshot, covered)
        options = self._storage_options
        former = registered_snapshots(self._topic, snapshot, options)
        row_offsets = self._row_offsets(dead_letters, (snapshot, *former), ends)
        self._reserved = feed_columns(snapshot.kernel.properties)
        columns = self._columns(dead_letters, snapshot, ends, row_offsets)
        layout = self._layout(columns, snapshot)
        builder = (
            snapshot.kernel.build_update_table_transaction(ENGINE_INFO, Operation.WRITE)
            .with_schema_evolution(True)
            .with_schema(layout.schema)
            .with_table_properties(
                {
                    **input_properties(layout, snapshot.kernel.properties),
                    **filter_properties(
                        self._topic,
                        snapshot.kernel.properties,
                        covered,
                        self._kafka_ranges,
                    ),
                }
            )
            .with_operation_parameters(
                {"mode": "Append", "replayedFrom": self._dead_letters.table_uri}
            )
        )
        for application, version in self._transaction_ids(dead_letters, snapshot).items():
            builder = builder.with_transaction_id(application, version)
        transaction = builder.build(self._engine)
        folders = uses_partition_folders(snapshot.kernel.properties, snapshot.partition_columns)
        rows = self._rows(dead_letters, ends, row_offsets, layout, folders=folders)
        if dry_run:
            for _ in rows:
                pass
            return None
        adds = write_data(self._engine, transaction.transaction_state(self._engine), rows)
        if not adds and not self._filtered:
            return None
        with discard_unless_committed(
            lambda: delete_data_files(self._engine, self._target.table_uri, adds)
        ):
            result = transaction.commit(self._engine, adds)
        result.run_post_commit_hooks(self._engine)
        return result.version

    def _ends(self, snapshot: SnapshotHandle, covered: Mapping[int, int]) -> Mapping[int, int]:
        """Return, for each partition, the offset below which dead letters can be replayed.

        For a Kafka partition, this is the next offset that the pipeline reads. Migrated records
        have the partition `MIGRATED` and a sequence number as offset; see `migrated_end`.
        """
        end = migrated_end(self._topic, snapshot.transactions, self._storage_options)
        return {**covered, MIGRATED: end}

    @property
    def _kafka_ranges(self) -> dict[int, tuple[OffsetSpan, ...]]:
        """Ranges of the dead letters' Kafka offsets, by partition.

        Migrated records have no Kafka offset, and aren't included.
        """
        return {p: ranges for p, ranges in self._letters.ranges().items() if p >= 0}

    def _transaction_ids(
        self, dead_letters: SnapshotHandle, table: SnapshotHandle | None
    ) -> dict[str, int]:
        """Return the transaction identifiers for the replay's commit to the target.

        One identifier has the id of the dead letter table in its `appId`, and the run id as its
        version. This version may replace the run id of an interrupted replay. In that case, a
        second identifier records the replaced run id, so that the next replay knows the rows of
        both replays.
        """
        application = self._application(dead_letters.kernel.table_id)
        replaced = -1 if table is None else table.transactions.get(application, -1)
        ids = {application: self._run_id}
        if replaced in self._interrupted:
            ids[self._application(str(replaced))] = replaced
        return ids

    def _application(self, replay: str) -> str:
        return f"{_APPLICATION}{replay}/{self._name}"

    def _run_ids(self, table: SnapshotHandle) -> list[int]:
        """Return the run ids that a table has recorded for replays of the topic.

        The dead letter table's id in an `appId` is ignored: a clone of this table has another id,
        but the same transaction identifiers.
        """
        return [
            version
            for application, version in table.transactions.items()
            if application.startswith(_APPLICATION) and application.endswith(f"/{self._name}")
        ]

    def _row_offsets(
        self,
        dead_letters: SnapshotHandle,
        tables: Sequence[SnapshotHandle],
        ends: Mapping[int, int],
    ) -> TopicOffsets:
        """Return the offsets of the topic's rows in `tables`, to find dead letters that have a row.

        Adds the offsets of the dead letters to `_letters`. Sets `_within` to one range that
        includes the offsets of all partitions. Only rows with offsets in this range are read.

        Raises:
            PipelineError: dead letters with the same offset have different records.
        """
        row_offsets = TopicOffsets(MIGRATED)
        columns = ["partition", "offset", "_ingestion_timestamp"]
        for batch in dead_letters.to_batches(columns, self._where):
            self._letters.add(batch)
            read_at = batch.column(columns[2]).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            self._last_read = max(self._last_read, pc.max(read_at).as_py() or -1)
        bounds = [self._letters.of(p).once for p in self._letters.partitions]
        if bounds:
            first, last = min(b.min() for b in bounds), max(b.max() for b in bounds)
            self._within = OffsetSpan(start=first, end=last + 1)
            for table in tables:
                row_offsets.read(table, self._name, prefix="_kafka_", within=self._within)
            self._compare_records(dead_letters, tables, ends, row_offsets)
        return row_offsets

    def _compare_records(
        self,
        dead_letters: SnapshotHandle,
        tables: Sequence[SnapshotHandle],
        ends: Mapping[int, int],
        row_offsets: TopicOffsets,
    ) -> None:
        """Find offsets at which a dead letter and a row belong to different records.

        Sets `_repeated`, `_interrupted`, `_run_id` and `_other_rows`.

        The first commit of a replay adds rows to the target, and records the replay's run id in a
        transaction identifier. The second commit deletes the dead letters, and records the run id
        in the dead letter table. If the target has a higher run id than the dead letter table, a
        replay was interrupted between these commits, and the target may have rows of existing dead
        letters. The same is true if the dead letter table is a clone from an earlier time. Only a
        replay without `where` completes an interrupted replay, because `where` can exclude dead
        letters that have rows.

        The run id is also the `_ingestion_timestamp` of the replay's rows, so it identifies these
        rows. The run id is later than the `_ingestion_timestamp` of each dead letter, even if
        clocks differ.

        Raises:
            PipelineError: dead letters with the same offset have different records.
        """
        selected = record_identity.repeated_offsets(self._letters)
        self._repeated = selected
        if not self._selects_all:
            letters = TopicOffsets(MIGRATED)
            letters.read(dead_letters, self._name, within=self._within)
            self._repeated = record_identity.repeated_offsets(letters)
        if selected:
            within = combine_with_and(self._where, record_identity.offset_range(selected))
            record_identity.check_same_records(
                dead_letters.to_batches(RECORD, within),
                selected,
                ends,
                topic=self._topic.key,
                table=self._dead_letters.table_uri,
            )
        completed = max(self._run_ids(dead_letters), default=-1)
        committed = frozenset(run for table in tables for run in self._run_ids(table))
        self._interrupted = frozenset(run for run in committed if run > completed)
        earlier = max(completed, self._last_read, *committed)
        self._run_id = max(time.time_ns() // 1000, earlier + 1)
        existing = {
            partition: self._letters.of(partition).once & row_offsets.of(partition).once
            for partition in self._letters.partitions
        }
        self._other_rows = record_identity.offsets_of_other_rows(
            dead_letters.to_batches(
                ["partition", "offset", "timestamp", "_ingestion_timestamp"], self._where
            ),
            existing,
            tables,
            self._name,
            replays=self._interrupted,
            ambiguous={} if self._selects_all else self._repeated,
        )

    def _columns(
        self,
        dead_letters: SnapshotHandle,
        snapshot: SnapshotHandle,
        ends: Mapping[int, int],
        row_offsets: TopicOffsets,
    ) -> StructType:
        """Return the columns for the record fields of the dead letters.

        These are the columns of the target, and the fields that expressions read but the target
        doesn't store. If the schema policy is `evolve`, the columns of the schema file are
        appended, and then the new fields of the records.
        """
        path = self._target.table_uri
        columns = record_columns_of(self._topic, snapshot.kernel)
        if self._topic.config.policy == "evolve":
            columns = merge_schemas(path, columns, read_columns(self._topic, self._schema.columns))
        elif not self._topic.config.input_fields:
            return columns

        def with_column(columns: StructType, field: StructField) -> StructType | None:
            try:
                return merge_schemas(path, columns, StructType((field,)))
            except SchemaError:
                return None  # dead letters with this field remain

        known = leaf_count(columns)
        while True:  # repeat, because new fields that `where` reads are found before all others
            decoder = _Decoder(self._reading(self._layout(columns, snapshot), folders=True))
            for batch in dead_letters.to_batches(filter=self._where):
                for _ in decoder.decode(self._pending(batch, ends, row_offsets)):
                    pass
            room = self._max_new_columns - (leaf_count(columns) - known)
            new, _ = within_limit(columns, decoder.new_fields, room)
            wider, _ = with_new_columns(columns, new, with_column)
            if wider == columns:
                return columns
            columns = wider

    @property
    def _max_new_columns(self) -> int:
        return self._topic.config.destination.delta_config.max_new_columns

    def _rows(
        self,
        dead_letters: SnapshotHandle,
        ends: Mapping[int, int],
        row_offsets: TopicOffsets,
        layout: RowLayout,
        *,
        folders: bool,
    ) -> Iterator[pa.RecordBatch]:
        reading = self._reading(layout, folders=folders, discover=False)
        decoder = _Decoder(reading)
        for batch in dead_letters.to_batches(filter=self._where):
            pending = with_timestamps(self._pending(batch, ends, row_offsets, count=True))
            for part, records, decoded in decoder.decode(pending):
                self._count(decoded, part)
                row_offsets.add(self._done[-1])  # duplicate dead letters become one row
                if len(decoded.positions):
                    yield layout.rows(decoded, records, reading.ingestion_timestamp)

    def _pending(
        self,
        batch: pa.RecordBatch,
        ends: Mapping[int, int],
        row_offsets: TopicOffsets,
        *,
        count: bool = False,
    ) -> pa.RecordBatch:
        """Return the dead letters to replay, one for each offset.

        All other dead letters belong to one of these counts of the `ReplayResult`:

        - `skipped`: the target hasn't recorded the offset yet.
        - `already_rows`: the target already has the row of the record.
        - `refused`: the target has a row with the same offset, but nothing shows that the row is of
          the same record. Records that aren't from Kafka have a negative partition. They are also
          refused if `ends` doesn't contain this partition.

        Args:
            ends: for each partition, the offset below which dead letters can be replayed.
            row_offsets: the offsets of the target's rows.
            count: whether the other dead letters are counted. If so, the dead letters in
                `already_rows` are also added to `_done`, so that they are deleted.
        """
        partitions, offsets = batch.column("partition"), batch.column("offset")
        ready: Any = pa.array([False] * batch.num_rows)
        existing: Any = ready
        for partition in pc.unique(partitions).to_pylist():
            in_partition = pc.equal(partitions, partition)
            below = pc.and_(in_partition, pc.less(offsets, ends.get(partition, 0)))
            ready = pc.or_(ready, below)
            known = pa.array(row_offsets.of(partition).once, pa.int64())
            existing = pc.or_(existing, pc.and_(below, pc.is_in(offsets, known)))
        other = pc.and_(existing, at_offsets(batch, self._other_rows))
        if count:
            foreign = count_without_replay(batch, ends)
            others: int = pc.sum(other).as_py() or 0
            for reason, refused in ((self._no_replay, foreign), (OTHER_ROW, others)):
                self._refused += refused
                if refused:
                    self._reasons[reason] = self._reasons.get(reason, 0) + refused
            self._skipped += batch.num_rows - foreign - (pc.sum(ready).as_py() or 0)
            done = pc.and_not(existing, other)
            self._already_rows += pc.sum(done).as_py() or 0
            self._done.append(identities(batch.filter(done), self._repeated))
        return deduplicated([batch.filter(pc.and_not(ready, existing))])[0]

    def _count(self, decoded: Decoded, pending: pa.RecordBatch) -> None:
        self._replayed += len(decoded.positions)
        self._refused += len(decoded.bad_positions)
        for row in pc.value_counts(decoded.reasons).to_pylist():
            self._reasons[row["values"]] = self._reasons.get(row["values"], 0) + row["counts"]
        self._filtered += len(decoded.filtered)
        done = pa.concat_arrays([decoded.positions, decoded.filtered])
        self._done.append(identities(pending.take(done), self._repeated))

    def _reading(
        self, layout: RowLayout, *, folders: bool, discover: bool | None = None
    ) -> RecordReading:
        config = self._topic.config
        plan = DecodePlan(
            columns=layout.record,
            json_schema=self._schema.validated_by,
            discover=config.policy == "evolve" if discover is None else discover,
            ignore=config.policy == "freeze",
            needed=needed_fields(config, layout.record),
            reserved=(layout.reserved_names | self._reserved) - config.processing.unstored,
            inputs=frozenset() if discover is False else config.input_fields,
            skipped=config.skipped_fields,
            max_new_fields=self._max_new_columns,
        )
        return RecordReading(
            plan=plan,
            layout=layout,
            ingestion_timestamp=self._run_id,
            format=self._schema.format,
            masks=config.column_masks,
            expressions=row_expressions(self._topic, layout, self._run_id),
            partition_columns=config.destination.partition_columns,
            folders=folders,
        )

    def _layout(self, columns: StructType, snapshot: SnapshotHandle) -> RowLayout:
        check_masks(self._topic, columns)
        return row_layout(self._topic, columns, snapshot.schema)

    def _delete_done(self) -> None:
        snapshot = self._dead_letters.snapshot()
        application = self._application(snapshot.kernel.table_id)
        is_complete = self._selects_all if self._interrupted else self._version is not None
        ids = {}
        if is_complete and snapshot.transactions.get(application, -1) < self._run_id:
            ids = {application: self._run_id}
        record_identity.delete_letters(
            self._letters_engine, snapshot, self._name, self._done, transaction_ids=ids
        )


class _Decoder:
    """Decodes dead letters: Kafka records in the topic's format, migrated records as JSON."""

    def __init__(self, reading: RecordReading) -> None:
        files = replace(reading, format=replace(reading.format, name="json"))
        self._kafka, self._files = RecordReader(reading), RecordReader(files)

    @property
    def new_fields(self) -> StructType:
        """The record fields for which the table has no column; see `RecordReader`."""
        return merge_fields(self._kafka.new_fields, self._files.new_fields)

    def decode(
        self, letters: pa.RecordBatch
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch, Decoded]]:
        """Decode dead letters, in groups whose records have the same format.

        Yields a tuple for each group: its dead letters, their records, and the decoded values.
        """
        from_kafka = pc.greater_equal(letters.column("partition"), 0)
        for reader, selection in ((self._kafka, from_kafka), (self._files, pc.invert(from_kafka))):
            part = letters.filter(selection)
            if part.num_rows:
                for records, decoded, _ in reader.decode(part):
                    yield part, records, decoded


def count_without_replay(letters: pa.RecordBatch | pa.Table, ends: Mapping[int, int]) -> int:
    """Return the number of dead letters that can't be replayed because of their partition.

    Records that aren't from Kafka have a negative partition. Their dead letters can only be
    replayed if `ends` contains this partition.
    """
    partitions = pa.array([p for p in ends if p < 0], pa.int32())
    column = letters.column("partition")
    replayed = pc.is_in(column, partitions)
    count: int | None = pc.sum(pc.and_not(pc.less(column, 0), replayed)).as_py()
    return count or 0


def deduplicated(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return one dead letter for each offset; a record can have several dead letters."""
    if not batches:
        return []
    position = ["partition", "offset"]
    positions = pa.Table.from_batches([batch.select(position) for batch in batches])
    numbers = arange(0, positions.num_rows)
    by_position = positions.append_column("row", numbers).group_by(position)
    firsts: Any = by_position.aggregate([("row", "min")]).column("row_min").combine_chunks()
    if len(firsts) == len(numbers):
        return list(batches)
    is_first: Any = pc.is_in(numbers, value_set=firsts)
    result: list[pa.RecordBatch] = []
    begin = 0
    for batch in batches:
        result.append(batch.filter(is_first.slice(begin, batch.num_rows)))
        begin += batch.num_rows
    return result


def with_timestamps(letters: pa.RecordBatch) -> pa.RecordBatch:
    """Replace missing Kafka timestamps of dead letters by their `_ingestion_timestamp`."""
    at = letters.schema.get_field_index("timestamp")
    kind: Any = letters.schema.field(at).type
    read_at = letters.column("_ingestion_timestamp").cast(kind)
    timestamps = pc.coalesce(letters.column(at), read_at)
    return letters.set_column(at, letters.schema.field(at), timestamps)
