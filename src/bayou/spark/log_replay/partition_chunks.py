"""Iterates over a DataFrame's rows in partition order; each Spark job computes a chunk.

A chunk is a list of partitions. `DataFrame.toLocalIterator` computes one or two partitions at a
time. The first job of `rows_by_chunks` computes as many partitions as the cluster has slots, and
the caller gets its first rows after this job. Each later job runs while the caller uses the rows of
the previous job. Results aren't stored on the executors' disks.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from pyspark import inheritable_thread_target

from bayou.kernel.arrow.read_ahead import read_ahead
from bayou.spark.executors.jobs import TaggedJobs

MAX_PARTITIONS = 64
"""Maximum number of partitions in a chunk. The driver holds up to three chunks in memory.

A partition has about 1 MB.
"""

_LATER_CHUNKS = 4
"""Number of partitions per slot in each chunk after the first."""


def rows_by_chunks(frame: Any, jobs: TaggedJobs) -> Generator[Any]:
    """Return the rows of a classic DataFrame in the order of its partitions.

    Closing the iterator waits for the end of the running job, unless the caller cancels `jobs`
    first.
    """
    with jobs.tagged():
        partitions = frame.rdd
        number = partitions.getNumPartitions()
    context = frame.sparkSession.sparkContext
    slots = max(1, context.defaultParallelism)

    def compute(start: int, end: int) -> list[Any]:
        with jobs.tagged():
            rows: list[Any] = context.runJob(partitions, list, range(start, end))
            return rows

    compute_as_here = inheritable_thread_target(frame.sparkSession)(compute)
    chunks = (compute_as_here(start, end) for start, end in _chunks(number, slots))
    with read_ahead(chunks, 1) as computed:
        for rows in computed:
            yield from rows


def _chunks(partitions: int, slots: int) -> Iterator[tuple[int, int]]:
    """Yield (first partition, last partition + 1) of each chunk.

    If there are few partitions, one chunk contains all of them. Otherwise the first chunk has one
    partition for each slot, and later chunks have more.
    """
    large = min(slots * _LATER_CHUNKS, MAX_PARTITIONS)
    start, size = 0, large if partitions <= large else min(slots, MAX_PARTITIONS)
    while start < partitions:
        end = min(partitions, start + size)
        yield start, end
        start, size = end, large
