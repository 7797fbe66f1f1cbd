"""Limits the size of a micro-batch in bytes (setting `max-batch-bytes`).

Kafka doesn't report the size of unread records. Each task therefore counts the bytes that it reads
and stops at the limit. The driver discards a batch that exceeds the limit, and runs it again with
fewer records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from bayou.ingest.offsets import OffsetSpan
from bayou.kernel.arrow.compute import pc
from bayou.spark.kafka.offsets import TopicPartition, limit_offsets

_COUNTED = ("key", "value", "headers")
_FILL = 0.9
"""Maximum estimated size of a batch, as a fraction of `max-batch-bytes`. The real size may be
larger than the estimate."""


class TooManyBytesError(Exception):
    """The records of a batch exceed `max-batch-bytes`."""


class ByteCounter:
    """Counts the records that a task reads, and the bytes of their keys, values and headers."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self.records = 0
        self.bytes = 0

    def count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count the records and bytes of each batch, then yield the batch unchanged.

        Raises:
            TooManyBytesError: the records exceed the limit.
        """
        for batch in batches:
            self.records += batch.num_rows
            self.bytes += sum(_size(batch.column(name)) for name in _COUNTED)
            if self._limit is not None and self.bytes > self._limit:
                raise TooManyBytesError
            yield batch


def _size(column: Any) -> int:
    return pc.sum(pc.binary_length(column)).as_py() or 0


def record_limit(batch_size: int, max_bytes: int | None, bytes_per_record: float) -> int:
    """Return the maximum number of records of a batch, from its limits in records and in bytes.

    Args:
        batch_size: limit in records.
        max_bytes: limit in bytes; None for no limit.
        bytes_per_record: expected size of a record; 0 if unknown.
    """
    if max_bytes is None or bytes_per_record <= 0:
        return batch_size
    return min(batch_size, max(1, int(_FILL * max_bytes / bytes_per_record)))


def shorten_spans(spans: Mapping[int, OffsetSpan], records: int) -> dict[int, OffsetSpan] | None:
    """Shorten the offset ranges of all partitions to about `records` offsets in total.

    Returns:
        The shorter ranges, each with at least one offset; None if no range can be shortened.
    """
    partitions = {p: TopicPartition("", p) for p in spans}
    ends = limit_offsets(
        records,
        {key: spans[p].start for p, key in partitions.items()},
        {key: spans[p].end for p, key in partitions.items()},
    )
    result = {p: OffsetSpan(start=spans[p].start, end=ends[key]) for p, key in partitions.items()}
    return result if result != dict(spans) else None
