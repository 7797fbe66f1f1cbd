"""Which files a native scan reads, in the groups in which Spark wants them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import EvaluationError
from bayou.kernel import Engine, Predicate, Snapshot
from bayou.kernel.log.file_actions import tail_bytes
from bayou.kernel.scan.data_files import DataFiles, data_files, join_data_files, vector_keys

__all__ = ["FileGroups", "Listing", "grouped", "too_many_files"]

pc: Any = pyarrow.compute

LOG_BYTES_A_FILE = 150
"""Of a checkpoint, mostly less; of commits more."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The files of a version, as a native scan sees them; safe in threads.

    Attributes:
        engine: reads the log.
        snapshot: the version.
        time_zone: the session's; timestamps of partitions without a zone are in it.
        vectors: keys (`vector_keys`) of the files whose deleted rows are left out by their number,
            which is the place in here, from 1 on; None where the table has no deletion vectors.
        elsewhere: keys of files that aren't read natively.
    """

    engine: Engine
    snapshot: Snapshot
    time_zone: str
    vectors: pa.Array[Any] | None = None
    elsewhere: pa.Array[Any] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def files(self, predicate: Predicate | None) -> DataFiles:
        """Files that may hold a row for which the predicate is true.

        A predicate that can't be computed for a file's partition values is done without: whether
        that is an error is Spark's to say.
        """
        try:
            return self._files(predicate)
        except EvaluationError:
            return self._files(None)

    def _files(self, predicate: Predicate | None) -> DataFiles:
        snapshot, schema = self.snapshot, self.snapshot.schema
        builder = snapshot.scan_builder().with_filter(predicate).with_time_zone(self.time_zone)
        with builder.build().scan_files(self.engine) as batches:
            parts = [
                data_files(batch, schema, snapshot.partition_columns, self.time_zone)
                for batch in batches
            ]
        return self._native(join_data_files(parts, schema, snapshot.partition_columns))

    def _native(self, found: DataFiles) -> DataFiles:
        if self.elsewhere is None or len(self.elsewhere) == 0:
            return found
        kept = pc.invert(pc.is_in(vector_keys(found.files), value_set=self.elsewhere))
        return DataFiles(
            files=found.files.filter(kept),
            partitions=found.partitions.filter(kept)
            if found.partitions.num_columns
            else found.partitions,
        )

    def numbers(self, files: pa.RecordBatch) -> pa.Array[Any] | None:
        """The number of each file by which its deleted rows are found, 0 for none; int32."""
        if self.vectors is None:
            return None
        places = pc.index_in(vector_keys(files), value_set=self.vectors, skip_nulls=True)
        numbers: pa.Array[Any] = pc.fill_null(pc.add(places, pa.scalar(1, pa.int32())), 0)
        return numbers

    @cached_property
    def size(self) -> int:
        """Bytes of all files."""
        stated = self.snapshot.stated_totals
        if stated is not None:
            return stated.size
        with self.snapshot.scan_builder().build().scan_files(self.engine) as batches:
            sizes = (pc.struct_field(b.selected().column("add"), "size") for b in batches)
            return sum(pc.sum(size).as_py() or 0 for size in sizes)


def too_many_files(snapshot: Snapshot, most: int) -> str | None:
    """In words that a version has more than `most` files; None where it hasn't.

    The version's checksum says how many there are. Without one the log isn't replayed for it: its
    size tells about how many.
    """
    stated = snapshot.stated_totals
    if stated is not None:
        files, about = stated.files, ""
    else:
        files = (snapshot.checkpoint_bytes + tail_bytes(snapshot)) // LOG_BYTES_A_FILE
        about = "about "
    return f"it has {about}{files} files, more than {most}" if files > most else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroups:
    """Files that share partition values, side by side.

    Attributes:
        values: a row for each group.
        order: indices of the files, group after group.
        offsets: where each group's files begin in `order`, and the end of the last; int32.
    """

    values: pa.Table
    order: pa.Array[Any]
    offsets: pa.Array[Any]

    def only(self, groups: pa.Array[Any]) -> FileGroups:
        """Some of the groups, by ascending index; `values` stay what they are."""
        starts, ends = self.offsets[:-1].take(groups), self.offsets[1:].take(groups)
        sizes = pc.subtract(ends, starts)
        kept = pc.is_in(self._group_of_each(), value_set=groups)
        return FileGroups(
            values=self.values, order=self.order.filter(kept), offsets=_offsets(sizes)
        )

    def _group_of_each(self) -> pa.Array[Any]:
        offsets: Any = self.offsets
        lists = pa.ListArray.from_arrays(offsets, self.order)
        parents: pa.Array[Any] = pc.cast(pc.list_parent_indices(lists), pa.int32())
        return parents


def grouped(columns: pa.Table, count: int) -> FileGroups:
    """Rows with equal values in groups, in the order in which the values first come.

    Args:
        columns: of the files, none for files that are all alike.
        count: of files.
    """
    if count == 0 or columns.num_columns == 0:
        order = pa.array(range(count), pa.int64())
        groups = 1 if count else 0
        return FileGroups(
            values=columns.slice(0, groups),
            order=order,
            offsets=pa.array([0, count][: groups + 1], pa.int32()),
        )
    codes: Any = None
    for column in columns.itercolumns():
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        indices = pc.cast(encoded.indices, pa.int64())
        if codes is None:
            codes = indices
        else:  # both are below 2 to the power of 31
            codes = pc.add(pc.multiply(codes, len(encoded.dictionary)), indices)
        codes = pc.cast(codes.dictionary_encode().indices, pa.int64())
    order = pc.sort_indices(codes)
    sizes = pc.value_counts(codes).field("counts")  # in the order of the codes, which is the same
    offsets = _offsets(pc.cast(sizes, pa.int32()))
    firsts = order.take(pc.cast(offsets[:-1], pa.int64()))
    return FileGroups(values=columns.take(firsts), order=order, offsets=offsets)


def _offsets(sizes: Any) -> pa.Array[Any]:
    ends = pc.cumulative_sum(pc.cast(sizes, pa.int32()))
    offsets: pa.Array[Any] = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return offsets
