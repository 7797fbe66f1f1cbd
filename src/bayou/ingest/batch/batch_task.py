"""The Spark tasks of a micro-batch, which read, decode and write records.

A task reads its records from Kafka directly, without the JVM, and writes Parquet files of the
target and the dead letter table. The driver commits the returned actions. If the rows of an upsert
are small, they are sent to the driver. If they are large, executors cache them for other tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from bayou.errors import BayouError, PipelineError
from bayou.ingest.batch.arrow_transfer import TooManyRowsError, encode_batches, encode_chunks
from bayou.ingest.batch.batch_bytes import ByteCounter, TooManyBytesError
from bayou.ingest.batch.record_reader import RecordReader, RecordReading
from bayou.ingest.dead_letters.records import fingerprints, unread_rows
from bayou.ingest.offsets import OffsetSpan
from bayou.kernel.arrow.compute import pc
from bayou.kernel.engine.engine import EngineDescription
from bayou.protocol.actions import encode_actions
from bayou.protocol.schema import StructType
from bayou.spark.kafka import KafkaTasks
from bayou.spark.write.tasks import decode_adds, delete_task_files, write_task

_WAITING_BYTES = 32 << 20
"""When dead letters in memory reach this size, they are written to a file."""

_CRASH_REASON = "a worker process ended each time it read this record alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTaskResult:
    """The result of a task. Can be pickled.

    Attributes:
        left_out: number of records that were skipped, because a table already has them.
        filtered: number of records that the filter removed.
        row_actions: encoded `add` actions of the target.
        dead_letter_actions: encoded `add` actions of the dead letter table.
        encoded_rows: the rows of an upsert, encoded by `encode_batches`. They aren't written.
        too_many: whether the rows of an upsert exceed `BatchTask.max_bytes`. If True, nothing was
            written, and the batch must be run again with `BatchTask.run_in_chunks`.
        records_read: number of records that the task has read.
        bytes_read: total size of the keys, values and headers that the task has read.
        too_large: whether `bytes_read` exceeds `BatchTask.max_batch_bytes`. If True, nothing was
            written, and the batch must be run again with fewer records.
        new_fields: fields without a column. If there are any, nothing was written and the batch
            must be run again with more columns.
        failure: the error of the task, or None. After an error, the task deletes its files.
    """

    rows: int = 0
    dead_letters: int = 0
    left_out: int = 0
    filtered: int = 0
    row_actions: bytes = b""
    dead_letter_actions: bytes = b""
    encoded_rows: bytes = b""
    too_many: bool = False
    records_read: int = 0
    bytes_read: int = 0
    too_large: bool = False
    ignored: frozenset[str] = frozenset()
    new_fields: StructType = field(default_factory=StructType)
    failure: BayouError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTask:
    """The definition that all tasks of a micro-batch share. Can be pickled.

    Each task calls `run` or `run_in_chunks` with its number.

    Attributes:
        row_state: transaction state of the target; None if the table can't be created yet, because
            its partition or clustering columns aren't known.
        covered: for each Kafka partition, the offset below which the target covers all records.
        known_dead_letters: for each Kafka partition, the offsets in the dead letter table that the
            target doesn't cover, each with the fingerprints of the dead letters at this offset.
        known_rows: for each Kafka partition, the offsets of rows that a table of `route-by` already
            has, although the target doesn't cover them.
        set_aside: for each Kafka partition, the offsets of records that crash a Python worker.
            These records become dead letters without being decoded.
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
    set_aside: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    max_bytes: int = 0
    max_batch_bytes: int | None = None

    def run(self, share: int) -> BatchTaskResult:
        """Process the records of one task; `share` is the task's number."""
        try:
            return TaskRun(self).run(self.records.read(share))
        except BayouError as error:
            return BatchTaskResult(failure=error)

    def run_in_chunks(self, share: int) -> Iterator[bytes | BatchTaskResult]:
        """Process the records of one task of an upsert; yield encoded rows, then the task's result.

        If the result has a failure or requests another run, the yielded rows are invalid.

        Args:
            share: number of the task.
        """
        try:
            yield from TaskRun(self).pieces(self.records.read(share))
        except BayouError as error:
            yield BatchTaskResult(failure=error)


class _NewFieldsError(Exception):
    """Records have fields without a column, so the batch must be run again."""


ABORTS: tuple[type[Exception], ...] = (
    BayouError,
    _NewFieldsError,
    TooManyRowsError,
    TooManyBytesError,
)
"""Exceptions after which a task deletes its files."""


class TaskRun:
    """One task of a batch. Not thread-safe."""

    def __init__(self, task: BatchTask) -> None:
        self._task = task
        self._reader = RecordReader(task.reading)
        self._counter = ByteCounter(task.max_batch_bytes)
        self._rows = 0
        self._left_out = 0
        self._dead_letters = 0
        self._waiting: list[pa.RecordBatch] = []
        self._dead_letter_actions: list[bytes] = []

    def run(self, batches: Iterator[pa.RecordBatch]) -> BatchTaskResult:
        task = self._task
        row_actions = gathered = b""
        try:
            if task.reading.upsert is None:
                row_actions = self._write_rows(self._good_rows(batches))
            else:
                gathered = encode_batches(self._good_rows(batches), task.max_bytes)
            self._write_dead_letters()
        except ABORTS as error:
            delete_task_files(task.engine, task.table_path, [row_actions])
            return self._aborted(error)
        return self._result(row_actions, gathered)

    def pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes | BatchTaskResult]:
        try:
            yield from encode_chunks(self._good_rows(batches))
            self._write_dead_letters()
        except ABORTS as error:
            yield self._aborted(error)
        else:
            yield self._result()

    def _aborted(self, error: Exception) -> BatchTaskResult:
        """Delete the written files and return the result of an aborted task."""
        delete_task_files(self._task.engine, self._task.dead_letter_path, self._dead_letter_actions)
        if isinstance(error, BayouError):
            raise error
        return BatchTaskResult(
            new_fields=self._reader.new_fields,
            too_many=isinstance(error, TooManyRowsError),
            too_large=isinstance(error, TooManyBytesError),
            records_read=self._counter.records,
            bytes_read=self._counter.bytes,
        )

    def _result(self, row_actions: bytes = b"", gathered: bytes = b"") -> BatchTaskResult:
        return BatchTaskResult(
            rows=self._rows,
            dead_letters=self._dead_letters,
            left_out=self._left_out,
            filtered=self._reader.filtered,
            row_actions=row_actions,
            encoded_rows=gathered,
            records_read=self._counter.records,
            bytes_read=self._counter.bytes,
            ignored=self._reader.ignored,
            dead_letter_actions=encode_actions(decode_adds(self._dead_letter_actions)),
        )

    def _write_rows(self, rows: Iterator[pa.RecordBatch]) -> bytes:
        task = self._task
        if task.row_state is not None:
            return write_task(task.engine, task.row_state, rows)
        for _ in rows:
            raise self._lacks_columns("the table")
        return b""

    def _lacks_columns(self, table: str) -> PipelineError:
        return PipelineError(
            f"topic {self._task.topic!r}: {table} can't be created, because the first records lack "
            "a field of partition-columns or cluster-by. Correct the setting, or set a "
            "schema-file.",
            topic=self._task.topic,
        )

    def _good_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self._counter.count(batches):
            source = self._readable(self._undecided(batch))
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

    def _readable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records that aren't set aside. Records set aside become dead letters."""
        aside = _at_offsets(batch, self._task.set_aside)
        if aside is None:
            return batch
        reading = self._task.reading
        refused = batch.filter(aside)
        self._refuse(unread_rows(refused, _CRASH_REASON, reading.ingestion_timestamp))
        return batch.filter(pc.invert(aside))

    def _same_records(self, batch: pa.RecordBatch, candidates: pa.Array[Any]) -> pa.Array[Any]:
        """Return a mask of the records in `batch` that the dead letter table has.

        Args:
            candidates: mask of the records whose offset the dead letter table has. Their
                fingerprints are compared, because another record may have had the same offset.
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

    def _undecided(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records that no table of the topic has."""
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
            dead = self._same_records(batch, dead)
            known = dead if known is None else pc.or_(known, dead)
        if known is None or not pc.any(known).as_py():
            return batch
        new = batch.filter(pc.invert(known))
        self._left_out += batch.num_rows - new.num_rows
        return new


def _at_offsets(batch: pa.RecordBatch, offsets: Mapping[int, Collection[int]]) -> Any:
    """Return a mask of the records at `offsets` (by partition); None if there is no such record."""
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
"""Maximum number of records of a batch that crash a worker. If more do, they aren't the cause."""


def crashing_offsets(
    spans: Mapping[int, OffsetSpan], crashes: Callable[[Mapping[int, OffsetSpan]], bool]
) -> dict[int, tuple[int, ...]]:
    """Return the offsets of records that crash a Python worker each time they are read alone.

    Args:
        crashes: function that reads a part of the batch and returns whether a worker crashed.

    Returns:
        The sorted offsets by Kafka partition. If no record crashes a worker, or more than
        `MAX_CRASHING_RECORDS` do, the crash had another cause, such as a lack of memory, and the
        result is empty.
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
        if crashes(part):  # confirm: the first crash may have had another cause
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
