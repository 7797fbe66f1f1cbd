"""What a Spark task does with its share of a micro-batch: decode, and write where it will stay.

It reads them from Kafka itself, so that they never pass the JVM. They leave as Parquet files of the
target and of the dead letters; what goes back to the driver is one small object with the actions
that it will commit. Rows of an upsert go to the driver as they are while they are few; else they
stay with the executors, for other tasks.

The records of a batch that end the worker process that reads them, found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import BayouError, PipelineError
from bayou.ingest.batch.arrow_transfer import TooManyRowsError, gathered_bytes, gathered_pieces
from bayou.ingest.batch.record_reader import RecordReader, RecordReading
from bayou.ingest.dead_letters.records import fingerprints, unread_rows
from bayou.ingest.offsets import OffsetSpan
from bayou.kernel.engine.engine import EngineDescription
from bayou.protocol.actions import encode_actions
from bayou.protocol.schema import StructType
from bayou.spark.kafka import KafkaShares
from bayou.spark.write.tasks import decode_adds, delete_task_files, write_task

__all__ = ["MAX_CRASHING_RECORDS", "BatchTask", "TaskOutcome", "crashing_offsets"]


pc: Any = pyarrow.compute  # its stubs lose the kind of an array

_WAITING_BYTES = 32 << 20
"""Dead letters that wait in memory for a file of theirs, at most; one record may be larger."""

_ENDED_A_WORKER = "a worker process ended each time it read this record alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """What a task did. Pickles.

    Attributes:
        rows: rows written to the target.
        dead_letters: rows written to the dead letters.
        left_out: records that the tables have already.
        row_actions: encoded `add` actions for the target.
        dead_letter_actions: encoded `add` actions for the dead letters.
        gathered: the rows themselves where they are upserted, see `gathered_bytes`; nothing of
            them was written.
        too_many: rows of an upsert take more than `BatchTask.most_bytes`; then nothing was written
            and the batch must be run again by `BatchTask.pieces`.
        ignored: fields that were left out of rows.
        new_fields: fields that have no column yet; then nothing was written and the batch must be
            run again with wider columns.
        failure: what went wrong; then nothing was written.
    """

    rows: int = 0
    dead_letters: int = 0
    left_out: int = 0
    row_actions: bytes = b""
    dead_letter_actions: bytes = b""
    gathered: bytes = b""
    too_many: bool = False
    ignored: frozenset[str] = frozenset()
    new_fields: StructType = field(default_factory=StructType)
    failure: BayouError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTask:
    """A micro-batch as its tasks see it; `run` is what each does. Pickles.

    Attributes:
        topic: its name in the configuration.
        records: the batch's records, by task.
        engine: how to reach the store.
        table_path: the target, for deleting what was written for nothing.
        dead_letter_path: the dead letters, likewise.
        row_state: transaction state of the target, None while it can't be made because its
            partition columns aren't known.
        dead_letter_state: transaction state of the dead letters.
        reading: how records become rows.
        covered: for each Kafka partition the offset below which the target has everything.
        decided: for each Kafka partition offsets that the dead letters have although the target
            doesn't cover them, with the fingerprints of the letters there.
        set_aside: for each Kafka partition offsets of records that end the process that reads
            them; they become dead letters unread.
        most_bytes: that a task's rows of an upsert may take in memory where `run` gathers them.
    """

    topic: str
    records: KafkaShares
    engine: EngineDescription
    table_path: str
    dead_letter_path: str
    row_state: bytes | None
    dead_letter_state: bytes
    reading: RecordReading
    covered: Mapping[int, int]
    decided: Mapping[int, Mapping[int, frozenset[bytes]]]
    set_aside: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    most_bytes: int = 0

    def run(self, share: int) -> TaskOutcome:
        """Do one share of `records`."""
        try:
            return _Share(self).run(self.records.read(share))
        except BayouError as error:
            return TaskOutcome(failure=error)

    def pieces(self, share: int) -> Iterator[bytes | TaskOutcome]:
        """Do one share of an upsert whose rows go elsewhere: in pieces, then the outcome.

        Where the outcome is a failure, or says to run the batch again, they are of no use.
        """
        try:
            yield from _Share(self).pieces(self.records.read(share))
        except BayouError as error:
            yield TaskOutcome(failure=error)


class _NewFieldsError(Exception):
    """Records have fields without a column; what was written so far is of no use."""


_ENDS = (BayouError, _NewFieldsError, TooManyRowsError)


class _Share:
    """One task's work, with what it counts."""

    def __init__(self, task: BatchTask) -> None:
        self._task = task
        self._reader = RecordReader(task.reading)
        self._rows = 0
        self._left_out = 0
        self._dead_letters = 0
        self._waiting: list[pa.RecordBatch] = []
        self._dead_letter_actions: list[bytes] = []

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskOutcome:
        task = self._task
        row_actions = gathered = b""
        try:
            if task.reading.upsert is None:
                row_actions = self._write_rows(self._good_rows(batches))
            else:
                gathered = gathered_bytes(self._good_rows(batches), task.most_bytes)
            self._write_dead_letters()
        except _ENDS as error:
            delete_task_files(task.engine, task.table_path, [row_actions])
            return self._ended(error)
        return self._outcome(row_actions, gathered)

    def pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes | TaskOutcome]:
        try:
            yield from gathered_pieces(self._good_rows(batches))
            self._write_dead_letters()
        except _ENDS as error:
            yield self._ended(error)
        else:
            yield self._outcome()

    def _ended(self, error: Exception) -> TaskOutcome:
        """What was written for nothing is deleted."""
        delete_task_files(self._task.engine, self._task.dead_letter_path, self._dead_letter_actions)
        match error:
            case _NewFieldsError():
                return TaskOutcome(new_fields=self._reader.new_fields)
            case TooManyRowsError():
                return TaskOutcome(too_many=True)
        raise error

    def _outcome(self, row_actions: bytes = b"", gathered: bytes = b"") -> TaskOutcome:
        return TaskOutcome(
            rows=self._rows,
            dead_letters=self._dead_letters,
            left_out=self._left_out,
            row_actions=row_actions,
            gathered=gathered,
            ignored=self._reader.ignored,
            dead_letter_actions=encode_actions(decode_adds(self._dead_letter_actions)),
        )

    def _write_rows(self, rows: Iterator[pa.RecordBatch]) -> bytes:
        task = self._task
        if task.row_state is not None:
            return write_task(task.engine, task.row_state, rows)
        for _ in rows:
            raise PipelineError(
                f"topic {task.topic!r}: the table can't be made: its partition columns aren't all "
                "fields of the first records; correct partition-columns, or give a schema-file.",
                topic=task.topic,
            )
        return b""

    def _good_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            source = self._readable(self._undecided(batch))
            if source.num_rows == 0:
                continue
            for rows, letters in self._reader.read(source):
                if letters is not None:
                    self._refuse(letters)
                if rows is not None:
                    self._rows += rows.num_rows
                    yield rows
        if self._reader.new_fields.fields:
            raise _NewFieldsError

    def _refuse(self, letters: pa.RecordBatch) -> None:
        self._dead_letters += letters.num_rows
        self._waiting.append(letters)
        if sum(batch.nbytes for batch in self._waiting) >= _WAITING_BYTES:
            self._write_dead_letters()

    def _write_dead_letters(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            task = self._task
            written = write_task(task.engine, task.dead_letter_state, waiting)
            self._dead_letter_actions.append(written)

    def _readable(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records that aren't set aside; the others become dead letters."""
        aside = _at_offsets(batch, self._task.set_aside)
        if aside is None:
            return batch
        reading = self._task.reading
        refused = batch.filter(aside)
        letters = unread_rows(refused, _ENDED_A_WORKER, reading.ingestion_timestamp)
        self._refuse(letters)
        return batch.filter(pc.invert(aside))

    def _with_these_letters(self, batch: pa.RecordBatch, told: pa.Array[Any]) -> pa.Array[Any]:
        """Which of some records are the ones that the letters at their offsets are of."""
        places = pc.indices_nonzero(told)
        records = batch.take(places)
        partitions: list[Any] = records.column("partition").to_pylist()
        offsets: list[Any] = records.column("offset").to_pylist()
        same = {
            place
            for place, partition, offset, fingerprint in zip(
                places.to_pylist(), partitions, offsets, fingerprints(records), strict=True
            )
            if fingerprint in self._task.decided[partition][offset]
        }
        return pa.array([place in same for place in range(batch.num_rows)], pa.bool_())

    def _undecided(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records that neither the target nor the dead letters have."""
        task = self._task
        offsets, partitions = batch.column("offset"), batch.column("partition")
        known: Any = None
        for partition in pc.unique(partitions).to_pylist():
            ours = pc.equal(partitions, partition)
            next_offset = task.covered.get(partition)
            if next_offset is not None:
                old = pc.and_(ours, pc.less(offsets, next_offset))
                known = old if known is None else pc.or_(known, old)
        told = _at_offsets(batch, task.decided)
        if told is not None:
            told = self._with_these_letters(batch, told)
            known = told if known is None else pc.or_(known, told)
        if known is None or not pc.any(known).as_py():
            return batch
        kept = batch.filter(pc.invert(known))
        self._left_out += batch.num_rows - kept.num_rows
        return kept


def _at_offsets(batch: pa.RecordBatch, offsets: Mapping[int, Collection[int]]) -> Any:
    """Which records are at these offsets of their partitions; None where none is."""
    there, partitions = batch.column("offset"), batch.column("partition")
    found: Any = None
    for partition in pc.unique(partitions).to_pylist():
        if wanted := offsets.get(partition):
            ours = pc.equal(partitions, partition)
            these = pc.and_(ours, pc.is_in(there, pa.array(list(wanted), there.type)))
            found = these if found is None else pc.or_(found, these)
    return found if found is not None and pc.any(found).as_py() else None


MAX_CRASHING_RECORDS = 20
"""Of one batch. With more, the machine or the program is at fault and not the records."""


def crashing_offsets(
    spans: Mapping[int, OffsetSpan], crashes: Callable[[Mapping[int, OffsetSpan]], bool]
) -> dict[int, tuple[int, ...]]:
    """Offsets whose records end a worker process each time they are read alone.

    Args:
        spans: a batch that has ended a worker process, for each Kafka partition.
        crashes: reads a part of the batch; whether this ends a worker process.

    Returns:
        For each Kafka partition its offsets, sorted. Empty where no single record is at fault
        (a lack of memory, a killed machine), or more than `MAX_CRASHING_RECORDS` are.
    """
    found: dict[int, list[int]] = {}
    waiting = [dict(spans)]
    while waiting:
        part = waiting.pop()
        if _size(part) > 1:
            first, second = _halves(part)
            waiting += [half for half in (second, first) if crashes(half)]
            continue
        ((partition, span),) = part.items()
        if crashes(part):  # a second time: the first may have had another cause
            found.setdefault(partition, []).append(span.start)
        if sum(map(len, found.values())) > MAX_CRASHING_RECORDS:
            return {}
    return {partition: tuple(sorted(offsets)) for partition, offsets in sorted(found.items())}


def _size(spans: Mapping[int, OffsetSpan]) -> int:
    return sum(span.end - span.start for span in spans.values())


def _halves(
    spans: Mapping[int, OffsetSpan],
) -> tuple[dict[int, OffsetSpan], dict[int, OffsetSpan]]:
    """Two parts of the same size, none of them empty; the order is that of partition and offset."""
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
