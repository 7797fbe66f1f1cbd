"""A rewrite in an order, by several processes: sampled, split into buckets, written file by file.

The first pass samples the ordering columns of all files, in as many processes as one likes. The
samples say where the curve is cut. A second pass puts each row into a bucket of it; whoever has all
rows of the buckets of a file, from everywhere, sorts bucket after bucket and writes the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.commands.optimize.read_ahead import read_in_order
from bayou.kernel.commands.optimize.rewrite import Rewrite, write_rewritten
from bayou.kernel.commands.optimize.row_buckets import RowBuckets
from bayou.kernel.commands.optimize.row_order import RowPositions, RowSample, sampled_rows
from bayou.kernel.engine import Engine
from bayou.protocol.actions import AddFile

__all__ = ["OrderedParts", "for_files", "sample_item", "split_item", "write_ordered"]

pc: Any = pyarrow.compute

_BUCKETS_A_FILE = 8
"""A file is sorted in so many parts, one after the other: each is in memory twice then."""

_MOST_BUCKETS = 4096
"""Unless there are more files: every process that reads has a piece of each bucket."""

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedParts:
    """Where an item's rows go; pickles.

    Attributes:
        positions: tells where each row is on the curve.
        cuts: where the buckets begin, but for the first.
        num_files: of how many files the buckets are.
    """

    positions: RowPositions
    cuts: pa.Array[Any]
    num_files: int

    @classmethod
    def of(cls, work: Rewrite, samples: Sequence[RowSample]) -> OrderedParts:
        """By samples of all of an item's files."""
        assert work.order is not None  # it is about an order
        positions = RowSample.positions(work.order, samples)
        buckets = max(work.num_files, min(work.num_files * _BUCKETS_A_FILE, _MOST_BUCKETS))
        cuts = positions.cut_points(buckets)
        return cls(positions=positions, cuts=cuts, num_files=work.num_files)

    def file_of(self, bucket: int) -> int:
        """The number of the file that a bucket's rows are for."""
        return bucket * self.num_files // (len(self.cuts) + 1)


def sample_item(engine: Engine, work: Rewrite) -> RowSample:
    """Some rows of an item's files, or of those that this process has of it.

    Raises:
        DataFileError: a file or its deletion vector is missing or damaged.
    """
    assert work.order is not None  # it is about an order
    return sampled_rows(engine, work.scan_state, work.files, work.order)


def split_item(
    engine: Engine, work: Rewrite, parts: OrderedParts, *, memory_bytes: int = 256 << 20
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of an item's files by bucket; the position of each stands in the last column.

    Raises:
        DataFileError: a file or its deletion vector is missing or damaged.
        StorageError: the local disk refused; rows beyond the memory wait there.
    """
    with (
        read_in_order(engine, work.scan_state, work.files) as batches,
        RowBuckets(memory_bytes) as buckets,
    ):
        for batch in batches:
            if batch.num_rows:
                found = parts.positions.of(batch)
                buckets.add(batch, found, parts.positions.bucket_of(found, parts.cuts))
        for number in range(len(parts.cuts) + 1):
            table, positions = buckets.take(number)
            if table.num_rows:
                rows = table.append_column("position", positions).combine_chunks()
                yield number, rows.to_batches(max_chunksize=max(1, rows.num_rows))[0]


def write_ordered(
    engine: Engine, work: Rewrite, buckets: Iterable[Sequence[pa.RecordBatch]]
) -> list[AddFile]:
    """Write one file of an item.

    Args:
        buckets: of the file, one after the other; each in the parts that `split_item` gave.

    Raises:
        StorageError: the store refused.
    """
    return write_rewritten(engine, work, _sorted(buckets))


def for_files(work: Rewrite, numbers: Sequence[int]) -> Rewrite:
    """The same for some of the files."""
    return replace(work, files=tuple(work.files[number] for number in numbers))


def _sorted(buckets: Iterable[Sequence[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    for bucket in buckets:
        table = pa.Table.from_batches(list(bucket))
        last = table.num_columns - 1
        ordered = table.remove_column(last).take(pc.sort_indices(table.column(last)))
        yield from ordered.to_batches(max_chunksize=_BATCH_ROWS)
