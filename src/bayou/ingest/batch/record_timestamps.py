"""Gives each record of an upsert a Kafka timestamp, by which the records of a key are ordered.

A record without a timestamp gets the timestamp of the nearest earlier record of its partition that
has one. If there is none, it gets the timestamp of the nearest later record, or `LOWEST_TIME`. The
current time is never used. With the current time, the record would be newer than the records after
it, and the upsert would ignore those records.

A task knows only its own records. If the first record of its offset range has no timestamp, the
task needs the last timestamp before the range, which the driver passes (`TimesBefore`). If the
driver hasn't passed it, the driver determines it from the results of all tasks, and runs the batch
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.api import SnapshotHandle
from bayou.kernel.arrow.compute import pc

ORDER_TIME = "_bayou_order_time"
"""Column that `RecordTimes.fill` adds to records: the timestamp, which is never null."""

LOWEST_TIME = 0
"""Timestamp in microseconds since the epoch that records get if no other record has one."""

TimesBefore: TypeAlias = Mapping[int, Mapping[int, int | None]]
"""The last timestamp before an offset, by Kafka partition and offset, in microseconds since the
epoch. None if no record before the offset has a timestamp."""

_MICROSECONDS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeTime:
    """The last timestamp in an offset range that a task has read. Can be pickled.

    Attributes:
        start: the first offset of the range.
        last: the last timestamp in the range, in microseconds since the epoch; None if no record of
            the range has a timestamp.
    """

    partition: int
    start: int
    last: int | None


class RecordTimes:
    """Fills in missing timestamps of the records of a task. Not thread-safe.

    Args:
        starts: the first offset of the task's range, for each partition.
        before: the last timestamps before offset ranges, from other tasks or earlier batches.
        exact: whether `before` must have an entry for the first offset of a range. If False and
            there is no such entry, the entry for the nearest lower offset is used.

    Attributes:
        unknown: the partitions in which records can't be ordered. Their first records have no
            timestamp, and `before` has no entry for their range.
    """

    def __init__(
        self, starts: Mapping[int, int], before: TimesBefore, *, exact: bool = True
    ) -> None:
        self._starts = starts
        self._known: dict[int, int | None] = {}
        for partition, start in starts.items():
            times = before.get(partition, {})
            offsets = [o for o in times if o == start or (o < start and not exact)]
            if offsets:
                self._known[partition] = times[max(offsets)]
        self._last: dict[int, int | None] = dict.fromkeys(starts)
        self.unknown: set[int] = set()

    def fill(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Add the column `ORDER_TIME`; the records of a partition must be passed in order."""
        times: Any = records.column("timestamp").cast(_MICROSECONDS)
        if records.num_rows:
            partition: int = records.column("partition")[0].as_py()
            if times.null_count:
                times = self._filled(partition, times)
            self._set_last(partition, records.column("timestamp"))
        return records.append_column(ORDER_TIME, times)

    @property
    def ranges(self) -> tuple[RangeTime, ...]:
        """The last timestamp of each range that was read."""
        return tuple(
            RangeTime(partition=p, start=start, last=self._last[p])
            for p, start in self._starts.items()
        )

    def _filled(self, partition: int, times: Any) -> Any:
        last = self._last.get(partition)
        earlier = self._known.get(partition) if last is None else last
        times = pc.fill_null_forward(times)
        if times.null_count and earlier is None:
            if partition not in self._known:
                self.unknown.add(partition)
            times = pc.fill_null_backward(times)
        time = LOWEST_TIME if earlier is None else earlier
        return pc.fill_null(times, pa.scalar(time, _MICROSECONDS))

    def _set_last(self, partition: int, timestamps: Any) -> None:
        valid = timestamps.drop_null()
        if len(valid):
            self._last[partition] = valid[-1].cast(_MICROSECONDS).value


def times_before_ranges(
    known: Mapping[int, int | None], ranges: Iterable[RangeTime]
) -> dict[int, dict[int, int | None]]:
    """Return the last timestamp before each range of a batch, by partition and by start offset.

    Args:
        known: for each partition, the last timestamp before its first range.
        ranges: the ranges of all tasks.
    """
    times = dict(known)
    before: dict[int, dict[int, int | None]] = {}
    for read in sorted(ranges, key=lambda r: (r.partition, r.start)):
        time = times.get(read.partition)
        before.setdefault(read.partition, {})[read.start] = time
        times[read.partition] = time if read.last is None else read.last
    return before


def last_times(
    known: Mapping[int, int | None], ranges: Iterable[RangeTime]
) -> dict[int, int | None]:
    """Return the last timestamp of each partition after a batch; see `times_before_ranges`.

    A partition is omitted if it isn't in `known` and no record of its ranges has a timestamp.
    """
    times = dict(known)
    for read in sorted(ranges, key=lambda r: (r.partition, r.start)):
        if read.last is not None:
            times[read.partition] = read.last
    return times


def times_of_rows(tables: Iterable[SnapshotHandle], topic: str) -> LastTimes:
    """Return the offset and timestamp of each Kafka partition's last row that has a timestamp.

    Deleted keys count as rows.

    Args:
        tables: the target of an upsert, and the table of its deleted keys.
        topic: the name of the Kafka topic, which can't contain a quote.
    """
    last: LastTimes = {}
    for table in tables:
        _add_table(last, table, topic, prefix="_kafka_")
    return last


def times_of_dead_letters(
    dead_letters: SnapshotHandle, topic: str, covered: Mapping[int, int]
) -> LastTimes:
    """Return offset and timestamp of each Kafka partition's last dead letter that has a timestamp.

    Args:
        covered: the next offset to read of each partition. Dead letters at or after this offset are
            ignored, because they are from an interrupted batch, which will be repeated.
    """
    last: LastTimes = {}
    _add_table(last, dead_letters, topic, prefix="", covered=covered)
    return last


LastTimes: TypeAlias = dict[int, tuple[int, int]]
"""By Kafka partition: the offset of a record, and its timestamp in microseconds since the epoch."""


def _add_table(
    last: LastTimes,
    table: SnapshotHandle,
    topic: str,
    *,
    prefix: str,
    covered: Mapping[int, int] | None = None,
) -> None:
    columns = [f"{prefix}{column}" for column in ("partition", "offset", "timestamp")]
    if set(columns) - set(table.schema.names):
        return
    condition = f"{columns[0]} >= 0 AND {columns[2]} IS NOT NULL"
    if f"{prefix}topic" in table.schema.names:
        condition += f" AND {prefix}topic = '{topic}'"
    with table.to_batches(columns, condition) as batches:
        for batch in batches:
            _add_last(last, batch, covered)


def _add_last(last: LastTimes, rows: pa.RecordBatch, covered: Mapping[int, int] | None) -> None:
    partitions, offsets, times = (rows.column(i) for i in range(3))
    for partition in pc.unique(partitions).to_pylist():
        selection = pc.equal(partitions, partition)
        if covered is not None:
            selection = pc.and_(selection, pc.less(offsets, covered.get(partition, 0)))
        in_partition = pc.indices_nonzero(selection)
        if not len(in_partition):
            continue
        own = offsets.take(in_partition)
        at = in_partition[pc.index(own, pc.max(own)).as_py()].as_py()
        row = (offsets[at].as_py(), times[at].cast(_MICROSECONDS).value)
        last[partition] = max(row, last.get(partition, row))
