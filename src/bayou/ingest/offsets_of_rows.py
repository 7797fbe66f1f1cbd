"""Collects the Kafka offsets of a table's rows in compressed bitmaps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from bayou.api import SnapshotHandle
from bayou.ingest.offsets import OffsetSpan
from bayou.kernel.arrow.compute import pc
from bayou.kernel.deletion_vectors.deleted_rows import to_bitmap


@dataclass(slots=True)
class SeenOffsets:
    """The offsets of one partition that occur in rows.

    Attributes:
        once: the offsets that occur at least once.
        twice: the offsets that occur at least twice.
    """

    once: BitMap64 = field(default_factory=BitMap64)
    twice: BitMap64 = field(default_factory=BitMap64)


class TopicOffsets:
    """The Kafka offsets of the rows of one or more tables, by partition.

    Args:
        first_partition: the lowest partition whose rows are read. Pass -1 to include migrated rows,
            whose partition is -1.
    """

    def __init__(self, first_partition: int = 0) -> None:
        self._first_partition = first_partition
        self._seen: dict[int, SeenOffsets] = defaultdict(SeenOffsets)

    @property
    def partitions(self) -> list[int]:
        return list(self._seen)

    def of(self, partition: int) -> SeenOffsets:
        return self._seen.get(partition) or SeenOffsets()

    def read(
        self,
        snapshot: SnapshotHandle,
        topic: str,
        *,
        prefix: str = "",
        within: OffsetSpan | None = None,
    ) -> None:
        """Add the offsets of the rows that come from a Kafka topic.

        Args:
            topic: the topic's name; it can't contain a quote.
            prefix: the prefix of the column names `topic`, `partition` and `offset`. It is
                `_kafka_` for a target, and empty for a dead letter table.
            within: only add offsets in this range, in each partition; None to add all offsets.
        """
        part, at = f"{prefix}partition", f"{prefix}offset"
        condition = f"{prefix}topic = '{topic}'"
        if within is not None:
            condition += f" AND {at} >= {within.start} AND {at} < {within.end}"
        for batch in snapshot.to_batches([part, at], condition):
            self._add_columns(batch.column(part), batch.column(at))

    def ranges(self) -> dict[int, tuple[OffsetSpan, ...]]:
        """Return the offsets of each partition, as ranges of consecutive offsets."""
        return {partition: spans(self.of(partition).once) for partition in self.partitions}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the offsets of a batch of rows, from its columns `partition` and `offset`."""
        self._add_columns(batch.column("partition"), batch.column("offset"))

    def _add_columns(self, partitions: pa.Array[Any], offsets: pa.Array[Any]) -> None:
        for partition in pc.unique(partitions).to_pylist():
            if partition is not None and partition >= self._first_partition:
                selected = offsets.filter(pc.equal(partitions, partition)).drop_null()
                self._add(self._seen[partition], selected)

    def _add(self, seen: SeenOffsets, offsets: pa.Array[Any]) -> None:
        new = to_bitmap(offsets)
        if len(new) < len(offsets):
            counts = pc.value_counts(offsets)
            repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
            seen.twice |= to_bitmap(repeated)
        seen.twice |= seen.once & new
        seen.once |= new


def spans(offsets: BitMap64) -> tuple[OffsetSpan, ...]:
    """Convert a set of offsets to ranges of consecutive offsets, in ascending order."""
    if not offsets:
        return ()
    buffer = pa.py_buffer(offsets.to_array())
    numbers = pa.Array.from_buffers(pa.int64(), len(offsets), [None, buffer])
    steps = pc.greater(pc.subtract(numbers[1:], numbers[:-1]), 1)
    cuts: list[int] = pc.indices_nonzero(steps).to_pylist()
    begins = [0, *(cut + 1 for cut in cuts)]
    ends = [*cuts, len(numbers) - 1]
    first_offsets: list[Any] = numbers.take(pa.array(begins)).to_pylist()
    last_offsets: list[Any] = numbers.take(pa.array(ends)).to_pylist()
    pairs = zip(first_offsets, last_offsets, strict=True)
    return tuple(OffsetSpan(start=first, end=last + 1) for first, last in pairs)
