"""Steps of a sorted `RewriteTask` that several processes execute, such as Spark's executors.

1. `sample_item`: each process samples the ordering columns of some files.
2. `OrderedParts.of`: the driver computes the buckets and new files from all samples.
3. `split_item`: each process groups the rows of some files into buckets.
4. `write_ordered`: for each new file, a process sorts the file's buckets one by one and writes the
   file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bayou.kernel.commands.optimize.files_in_order import read_in_order
from bayou.kernel.commands.optimize.rewrite import RewriteTask, write_rewritten
from bayou.kernel.commands.optimize.row_buckets import RowBuckets
from bayou.kernel.commands.optimize.row_order import (
    RowPositions,
    RowSample,
    add_rows,
    in_order,
    sampled_rows,
)
from bayou.kernel.engine import Engine
from bayou.protocol.actions import AddFile

_BUCKETS_PER_FILE = 8
"""Number of buckets of a new file. With more buckets, sorting a bucket needs less memory."""

_MAX_BUCKETS = 4096
"""Maximum number of buckets of a rewrite with fewer new files than this.

The number is limited, because each process that runs `split_item` buffers all buckets. A rewrite
with more new files has one bucket for each new file.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedParts:
    """Assignment of the rows of a `RewriteTask` to buckets, and of the buckets to new files.

    Can be pickled.

    Attributes:
        cuts: positions on the space-filling curve at which the second bucket and all later buckets
            start, ascending.
        num_files: number of new files.
    """

    positions: RowPositions
    cuts: pa.Array[Any]
    num_files: int

    @classmethod
    def of(cls, task: RewriteTask, samples: Sequence[RowSample]) -> OrderedParts:
        """Compute the assignment from samples of all files of the task."""
        assert task.order is not None  # only ordered rewrites are split
        positions = RowSample.positions(task.order, samples)
        buckets = max(task.num_files, min(task.num_files * _BUCKETS_PER_FILE, _MAX_BUCKETS))
        cuts = positions.cut_points(buckets)
        return cls(positions=positions, cuts=cuts, num_files=task.num_files)

    def file_of(self, bucket: int) -> int:
        return bucket * self.num_files // (len(self.cuts) + 1)


def sample_item(engine: Engine, task: RewriteTask) -> RowSample:
    """Sample the ordering columns of a rewrite's files."""
    assert task.order is not None  # only ordered rewrites are sampled
    return sampled_rows(engine, task.scan_state, task.files, task.order)


def split_item(
    engine: Engine, task: RewriteTask, parts: OrderedParts, *, memory_bytes: int = 256 << 20
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Group the rows of a rewrite's files into buckets; yield each bucket's number and rows.

    The last column contains the positions of the rows on the space-filling curve. Empty buckets are
    omitted. A bucket with more than 2 GiB of strings has several batches. Rows that exceed
    `memory_bytes` are spilled to the local disk.
    """
    with (
        read_in_order(engine, task.scan_state, task.files) as batches,
        RowBuckets(memory_bytes) as buckets,
    ):
        add_rows(buckets, batches, parts.positions, parts.cuts, memory_bytes=memory_bytes // 2)
        for number in range(len(parts.cuts) + 1):
            table, bucket_positions = buckets.take(number)
            if table.num_rows:
                rows = table.append_column("position", bucket_positions).combine_chunks()
                for batch in rows.to_batches():
                    yield number, batch


def write_ordered(
    engine: Engine, task: RewriteTask, buckets: Iterable[Sequence[pa.RecordBatch]]
) -> list[AddFile]:
    """Sort the rows of one new file and write the file.

    Args:
        buckets: for each bucket of the file, in order, the batches that `split_item` yielded.
    """
    return write_rewritten(engine, task, _sorted(buckets))


def with_files(task: RewriteTask, numbers: Sequence[int]) -> RewriteTask:
    """Return a copy of `task` with only the files at the indexes `numbers` in `task.files`."""
    return replace(task, files=tuple(task.files[number] for number in numbers))


def _sorted(buckets: Iterable[Sequence[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    for bucket in buckets:
        table = pa.Table.from_batches(list(bucket))
        last = table.num_columns - 1
        yield from in_order(table.remove_column(last), table.column(last))
