"""A set of offset ranges that tasks of our own read, each its share, without a data source.

What a Python data source reads goes through the JVM, row by row, before another Python process of
the same task sees it. A task that reads its share itself spares both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from bayou.spark.kafka.columns import packed_schema
from bayou.spark.kafka.consumer import read_range
from bayou.spark.kafka.offsets import OffsetRange
from bayou.spark.kafka.options import KafkaSourceOptions, parse_options
from bayou.spark.kafka.ranges import share_ranges

__all__ = ["KafkaShares"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaShares:
    """What is to be read, by task. Pickles; `of` makes it.

    Attributes:
        shares: the ranges of each task, none of them without any.
        options: how to reach the brokers.
    """

    shares: tuple[tuple[OffsetRange, ...], ...]
    options: KafkaSourceOptions

    @classmethod
    def of(
        cls, options: Mapping[str, str], ranges: Sequence[OffsetRange], *, tasks: int
    ) -> KafkaShares:
        """Cut ranges for tasks, so that each has as many offsets as the others.

        Args:
            options: those of the source `bayou-kafka`.
            ranges: what to read.
            tasks: how many tasks run at once. There are fewer where a share would be tiny, and more
                where one would pass `maxRecordsPerPartition`.

        Raises:
            ArgumentError: an option that the source doesn't have.
        """
        parsed = parse_options(options)
        size = sum(r.size for r in ranges)
        count = max(
            math.ceil(size / parsed.max_records_per_partition),
            min(tasks, math.ceil(size / _LEAST_RECORDS)),
        )
        return cls(shares=share_ranges(ranges, count), options=parsed)

    def read(self, share: int) -> Iterator[pa.RecordBatch]:
        """The records of a share, range by range; to be called in a task.

        Returns:
            Batches of all columns of the source but `timestampType`, headers packed.

        Raises:
            KafkaError: records are gone and `failOnDataLoss` holds, or nothing came in time.
        """
        for offsets in self.shares[share]:
            yield from read_range(offsets, self.options, packed_schema())


_LEAST_RECORDS = 2_000
"""Offsets for which a task of their own isn't worth its start."""
