"""The Spark tasks of a micro-batch: they read, decode and write records.

A task reads its records from Kafka directly, without the JVM. It writes data files of the target
table and of the dead letter table, and returns `add` actions, which the driver commits. The rows of
an upsert are sent to the driver if they fit in the driver's memory. Otherwise Spark shuffles the
rows by key, and tasks merge them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from bayou.errors import BayouError, PipelineError
from bayou.ingest.batch.arrow_transfer import TooManyRowsError, encode_batches, encode_buckets
from bayou.ingest.batch.batch_bytes import ByteCounter, TooManyBytesError
from bayou.ingest.batch.record_reader import RecordReader, RecordReading
from bayou.ingest.batch.record_timestamps import RangeTime, RecordTimes, TimesBefore
from bayou.ingest.dead_letters.records import fingerprints, unread_rows
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.upsert_order import DELETED
from bayou.kernel.arrow.compute import pc
from bayou.kernel.engine.engine import EngineDescription
from bayou.protocol.actions import encode_actions
from bayou.protocol.schema import StructType
from bayou.spark.kafka import KafkaTasks
from bayou.spark.write.tasks import decode_adds, delete_task_files, write_task

_WAITING_BYTES = 32 << 20
"""Maximum size in bytes of the dead letters that a task buffers. When they are larger, the task
writes them to a file."""

_CRASH_REASON = "the worker process crashed in each attempt to read this record"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTaskResult:
    """The result of a task. Can be pickled.

    Attributes:
        left_out: number of records that were skipped because a table of the topic already has them.
        filtered: number of records that the filter removed.
        row_actions: encoded `add` actions of the data files that the task wrote to the target.
        dead_letter_actions: encoded `add` actions of the files that the task wrote to the dead
            letter table.
        encoded_rows: the rows of an upsert, encoded by `encode_batches`; the driver merges them.
        rows_too_large: whether the rows of an upsert exceed `BatchTask.max_bytes`. If True, nothing
            was written, and the batch must be run again with `BatchTask.run_in_buckets`.
        has_deletes: whether `BatchTask.run_in_buckets` has yielded a row that deletes its key.
        records_read: number of records that the task has read.
        bytes_read: total size of the keys, values and headers that the task has read.
        batch_too_large: whether `bytes_read` exceeds `BatchTask.max_batch_bytes`. If True, nothing
            was written, and the batch must be run again with fewer records.
        new_fields: record fields for which the table has no column. If there are any, nothing
            was written, and the batch must be run again with more columns.
        times: for an upsert, the last timestamp in each offset range that the task read.
        times_unknown: whether the task can't order the records of an upsert by timestamp. This
            happens if the first records that the task reads from a Kafka partition have no
            timestamp, and `BatchTask.times_before` doesn't have the timestamp of earlier records.
            If True, nothing was written. The driver computes `times_before` from the `times` of
            all tasks, and runs the batch again.
        failure: the error that stopped the task; None if there was none. The task has deleted the
            files that it wrote.
    """

    rows: int = 0
    dead_letters: int = 0
    left_out: int = 0
    filtered: int = 0
    row_actions: bytes = b""
    dead_letter_actions: bytes = b""
    encoded_rows: bytes = b""
    rows_too_large: bool = False
    has_deletes: bool = False
    records_read: int = 0
    bytes_read: int = 0
    batch_too_large: bool = False
    ignored: frozenset[str] = frozenset()
    new_fields: StructType = field(default_factory=StructType)
    times: tuple[RangeTime, ...] = ()
    times_unknown: bool = False
    failure: BayouError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTask:
    """The definition that all tasks of a micro-batch share. Can be pickled.

    Each task calls `run` or `run_in_buckets` with its number.

    Attributes:
        row_state: serialized state of the target's transaction, which the task needs to write data
            files. None if the table can't be created yet, because the types of its partition or
            clustering columns aren't known.
        covered: for each Kafka partition, the next offset to read, as recorded in the target table.
            Records with lower offsets are skipped.
        known_dead_letters: for each Kafka partition and offset, the hashes (`fingerprints`) of the
            dead letters that an interrupted batch has committed. Records with one of these hashes
            are skipped.
        known_rows: for each Kafka partition, the offsets of rows that an interrupted batch has
            committed to a table of `route-by`. Their records are skipped.
        crashing_offsets: for each Kafka partition, the offsets of records that crash a Python
            worker. These records become dead letters without being decoded.
        times_before: for an upsert, the last timestamps before offset ranges, for records without
            a timestamp; see the argument `before` of `RecordTimes`.
        exact_times: for an upsert, whether `times_before` must have an entry for the first offset
            of a range; see the argument `exact` of `RecordTimes`.
        max_bytes: maximum size in memory of a task's upsert rows in `run`.
        max_batch_bytes: maximum total of `BatchTaskResult.bytes_read` over all tasks; None for no
            limit.
    """

    topic: str
    records: KafkaTasks
    engine: EngineDescription
    table_path: str
    dead_letter_path: str
    row_state: bytes | None
    dead_letter_state: bytes
    reading: RecordReading
    covered: Mapping[int, int]
    known_dead_letters: Mapping[int, Mapping[int, frozenset[bytes]]]
    known_rows: Mapping[int, Collection[int]] = field(default_factory=dict)
    crashing_offsets: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    times_before: TimesBefore = field(default_factory=dict)
    exact_times: bool = True
    max_bytes: int = 0
    max_batch_bytes: int | None = None

    def run(self, task_number: int) -> BatchTaskResult:
        """Read, decode and write the records of the task with this number."""
        try:
            return TaskRun(self, task_number).run(self.records.read(task_number))
        except BayouError as error:
            return BatchTaskResult(failure=error)

    def run_in_buckets(
        self, task_number: int, buckets: int
    ) -> Iterator[tuple[int, bytes] | BatchTaskResult]:
        """Decode the records of one task of an upsert; yield the rows, then the result.

        See `encode_buckets` for the encoding of the rows. The caller must discard the rows if the
        result has a failure or requests another run.
        """
        try:
            run = TaskRun(self, task_number)
            yield from run.run_in_buckets(self.records.read(task_number), buckets)
        except BayouError as error:
            yield BatchTaskResult(failure=error)


class _NewFieldsError(Exception):
    """Records have fields without a column, so the batch must be run again."""


class _TimesUnknownError(Exception):
    """Records of an upsert can't be ordered, so the batch must be run again."""


ABORTS: tuple[type[Exception], ...] = (
    BayouError,
    _NewFieldsError,
    _TimesUnknownError,
    TooManyRowsError,
    TooManyBytesError,
)
"""Exceptions after which a task deletes its files."""


def lacks_columns_error(topic: str, table: str) -> PipelineError:
    """Return the error for a table whose layout columns aren't in the first records.

    The layout columns are the partition columns and the clustering columns.
    """
    return PipelineError(
        f"topic {topic!r}: {table} can't be created, because the first records lack a field that "
        "partition-columns or cluster-by names. Correct the setting, or set a schema-file.",
        topic=topic,
    )


class TaskRun:
    """Runs one task of a batch. Not thread-safe."""

    def __init__(self, task: BatchTask, task_number: int) -> None:
        self._task = task
        self._times: RecordTimes | None = None
        if task.reading.upsert is not None:
            ranges = task.records.tasks[task_number]
            starts = {offsets.partition.partition: offsets.start for offsets in ranges}
            self._times = RecordTimes(starts, task.times_before, exact=task.exact_times)
        self._reader = RecordReader(task.reading)
        self._counter = ByteCounter(task.max_batch_bytes)
        self._rows = 0
        self._has_deletes = False
        self._left_out = 0
        self._dead_letters = 0
        self._waiting: list[pa.RecordBatch] = []
        self._dead_letter_actions: list[bytes] = []

    def run(self, batches: Iterator[pa.RecordBatch]) -> BatchTaskResult:
        task = self._task
        row_actions = encoded_rows = b""
        try:
            if task.reading.upsert is None:
                row_actions = self._write_rows(self._rows_to_write(batches))
            else:
                encoded_rows = encode_batches(self._rows_to_write(batches), task.max_bytes)
            self._write_dead_letters()
        except ABORTS as error:
            delete_task_files(task.engine, task.table_path, [row_actions])
            return self._aborted(error)
        return self._result(row_actions, encoded_rows)

    def run_in_buckets(
        self, batches: Iterator[pa.RecordBatch], buckets: int
    ) -> Iterator[tuple[int, bytes] | BatchTaskResult]:
        keys = self._task.reading.upsert
        assert keys is not None
        try:
            rows = self._noting_deletes(self._rows_to_write(batches))
            yield from encode_buckets(rows, keys.columns, buckets)
            self._write_dead_letters()
        except ABORTS as error:
            yield self._aborted(error)
        else:
            yield self._result()

    def _noting_deletes(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            self._has_deletes = self._has_deletes or pc.any(rows.column(DELETED)).as_py()
            yield rows

    def _aborted(self, error: Exception) -> BatchTaskResult:
        delete_task_files(self._task.engine, self._task.dead_letter_path, self._dead_letter_actions)
        if isinstance(error, BayouError):
            raise error
        return BatchTaskResult(
            new_fields=self._reader.new_fields,
            times=() if self._times is None else self._times.ranges,
            times_unknown=isinstance(error, _TimesUnknownError),
            rows_too_large=isinstance(error, TooManyRowsError),
            batch_too_large=isinstance(error, TooManyBytesError),
            records_read=self._counter.records,
            bytes_read=self._counter.bytes,
        )

    def _result(self, row_actions: bytes = b"", encoded_rows: bytes = b"") -> BatchTaskResult:
        return BatchTaskResult(
            rows=self._rows,
            dead_letters=self._dead_letters,
            left_out=self._left_out,
            filtered=self._reader.filtered,
            row_actions=row_actions,
            encoded_rows=encoded_rows,
            has_deletes=self._has_deletes,
            records_read=self._counter.records,
            bytes_read=self._counter.bytes,
            ignored=self._reader.ignored,
            times=() if self._times is None else self._times.ranges,
            dead_letter_actions=encode_actions(decode_adds(self._dead_letter_actions)),
        )

    def _write_rows(self, rows: Iterator[pa.RecordBatch]) -> bytes:
        task = self._task
        if task.row_state is not None:
            return write_task(task.engine, task.row_state, rows)
        for _ in rows:
            raise lacks_columns_error(task.topic, "the table")
        return b""

    def _rows_to_write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self._counter.count(batches):
            timed = batch if self._times is None else self._times.fill(batch)
            source = self._without_crashing(self._new_records(timed))
            if source.num_rows == 0:
                continue
            for rows, dead_letters in self._reader.read(source):
                if dead_letters is not None:
                    self._refuse(dead_letters)
                if rows is not None:
                    self._rows += rows.num_rows
                    yield rows
        if self._reader.new_fields.fields:
            raise _NewFieldsError
        if self._times is not None and self._times.unknown:
            raise _TimesUnknownError

    def _refuse(self, dead_letters: pa.RecordBatch) -> None:
        self._dead_letters += dead_letters.num_rows
        self._waiting.append(dead_letters)
        if sum(batch.nbytes for batch in self._waiting) >= _WAITING_BYTES:
            self._write_dead_letters()

    def _write_dead_letters(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            task = self._task
            actions = write_task(task.engine, task.dead_letter_state, waiting)
            self._dead_letter_actions.append(actions)

    def _without_crashing(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records that don't crash a worker; the other records become dead letters."""
        crashing = _at_offsets(batch, self._task.crashing_offsets)
        if crashing is None:
            return batch
        reading = self._task.reading
        refused = batch.filter(crashing)
        self._refuse(unread_rows(refused, _CRASH_REASON, reading.ingestion_timestamp))
        return batch.filter(pc.invert(crashing))

    def _known_dead_letters(
        self, batch: pa.RecordBatch, candidates: pa.Array[Any]
    ) -> pa.Array[Any]:
        """Return a mask of the records in `batch` that are in the dead letter table already.

        Args:
            candidates: mask of the records whose Kafka partition and offset are in the dead letter
                table. A recreated topic uses the same offsets for other records. Therefore, this
                method also compares fingerprints.
        """
        positions = pc.indices_nonzero(candidates)
        records = batch.take(positions)
        partitions: list[Any] = records.column("partition").to_pylist()
        offsets: list[Any] = records.column("offset").to_pylist()
        same = {
            position
            for position, partition, offset, fingerprint in zip(
                positions.to_pylist(), partitions, offsets, fingerprints(records), strict=True
            )
            if fingerprint in self._task.known_dead_letters[partition][offset]
        }
        return pa.array([position in same for position in range(batch.num_rows)], pa.bool_())

    def _new_records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records that are in no table of the topic yet."""
        task = self._task
        offsets, partitions = batch.column("offset"), batch.column("partition")
        known: Any = None
        for partition in pc.unique(partitions).to_pylist():
            in_partition = pc.equal(partitions, partition)
            next_offset = task.covered.get(partition)
            if next_offset is not None:
                covered = pc.and_(in_partition, pc.less(offsets, next_offset))
                known = covered if known is None else pc.or_(known, covered)
        rows = _at_offsets(batch, task.known_rows)
        if rows is not None:
            known = rows if known is None else pc.or_(known, rows)
        dead = _at_offsets(batch, task.known_dead_letters)
        if dead is not None:
            dead = self._known_dead_letters(batch, dead)
            known = dead if known is None else pc.or_(known, dead)
        if known is None or not pc.any(known).as_py():
            return batch
        new = batch.filter(pc.invert(known))
        self._left_out += batch.num_rows - new.num_rows
        return new


def _at_offsets(batch: pa.RecordBatch, offsets: Mapping[int, Collection[int]]) -> Any:
    """Return a mask of the records at the given offsets; None if no record matches.

    Args:
        offsets: the offsets for each Kafka partition.
    """
    column, partitions = batch.column("offset"), batch.column("partition")
    matches: Any = None
    for partition in pc.unique(partitions).to_pylist():
        if requested := offsets.get(partition):
            in_partition = pc.equal(partitions, partition)
            at_offset = pc.is_in(column, pa.array(list(requested), column.type))
            both = pc.and_(in_partition, at_offset)
            matches = both if matches is None else pc.or_(matches, both)
    return matches if matches is not None and pc.any(matches).as_py() else None


MAX_CRASHING_RECORDS = 20
"""Maximum number of records in a batch that crash a worker. If there are more, the records aren't
regarded as the cause of the crashes."""


def crashing_offsets(
    spans: Mapping[int, OffsetSpan], crashes: Callable[[Mapping[int, OffsetSpan]], bool]
) -> dict[int, tuple[int, ...]]:
    """Find the records that crash a Python worker, by reading smaller and smaller parts of a batch.

    Args:
        spans: the offset range of each Kafka partition in the batch.
        crashes: function that reads a part of the batch and returns whether a worker crashed.

    Returns:
        For each Kafka partition, the sorted offsets of records that crash a worker each time they
        are read alone. The result is empty if there are no such records, or if there are more than
        `MAX_CRASHING_RECORDS`. In both cases the crash has another cause, such as a lack of memory.
    """
    crashing: dict[int, list[int]] = {}
    waiting = [dict(spans)]
    while waiting:
        part = waiting.pop()
        if _size(part) > 1:
            first, second = _halves(part)
            waiting += [half for half in (second, first) if crashes(half)]
            continue
        ((partition, span),) = part.items()
        if crashes(part):  # read it again, because the record may not be the cause of the crash
            crashing.setdefault(partition, []).append(span.start)
        if sum(map(len, crashing.values())) > MAX_CRASHING_RECORDS:
            return {}
    return {partition: tuple(sorted(offsets)) for partition, offsets in sorted(crashing.items())}


def _size(spans: Mapping[int, OffsetSpan]) -> int:
    return sum(span.end - span.start for span in spans.values())


def _halves(
    spans: Mapping[int, OffsetSpan],
) -> tuple[dict[int, OffsetSpan], dict[int, OffsetSpan]]:
    left = _size(spans) // 2
    first: dict[int, OffsetSpan] = {}
    second: dict[int, OffsetSpan] = {}
    for partition, span in sorted(spans.items()):
        cut = min(span.end, span.start + left)
        left -= cut - span.start
        if cut > span.start:
            first[partition] = OffsetSpan(start=span.start, end=cut)
        if cut < span.end:
            second[partition] = OffsetSpan(start=cut, end=span.end)
    return first, second
