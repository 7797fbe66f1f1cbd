"""The files of a native scan: `DeltaFileIndex`, which Spark calls, and `FileListing`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from bayou.errors import ArgumentError, BayouError, EvaluationError
from bayou.kernel import Engine, Predicate, Snapshot
from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.literals import normalize_time_zone
from bayou.kernel.log.file_actions import tail_bytes
from bayou.kernel.scan.data_files import DataFiles, concat_data_files, data_files, vector_keys
from bayou.spark.expressions.catalyst_filters import to_predicate
from bayou.spark.expressions.session_semantics import is_utc
from bayou.spark.jvm.expressions import CatalystFilter
from bayou.spark.jvm.file_index import SqlConf
from bayou.spark.jvm.java_files import hadoop_uris
from bayou.spark.log_replay.builder import DistributedScanBuilder
from bayou.spark.native_read.micro_batches import (
    check_readable,
    deletion_vector_error,
    micro_batch_snapshot,
)


class DeltaFileIndex:
    """The files of a version, as a `FileIndex` that Spark calls when it plans a query.

    Args:
        partition_schema: Spark's schema of the partition columns, with physical names. If the table
            has deletion vectors, the last column contains `FileListing.numbers`.
        conf: the session's settings at `load()`. They can differ from the settings of a query,
            which Spark passes to `files`.
        ignored_columns: physical names of columns whose filters aren't used to skip files.
        follows_streams: whether a micro-batch of a stream reads the latest version instead; see
            `micro_batches`. If true, no file may have a deletion vector.
    """

    def __init__(
        self,
        listing: FileListing,
        partition_schema: StructType,
        conf: SqlConf,
        *,
        ignored_columns: frozenset[str] = frozenset(),
        follows_streams: bool = False,
    ) -> None:
        snapshot = listing.snapshot
        self._listing = listing
        self._conf = conf
        self._ignored_columns = ignored_columns
        self._follows_streams = follows_streams
        self._latest: FileListing | None = None
        self.root: str = hadoop_uris(pa.array([snapshot.path]))[0].as_py()
        self.partition_schema = partition_schema
        self.description = (
            f"Bayou[{self.root}, version {snapshot.version} of table {snapshot.table_id}, "
            f"{listing.time_zone}]"
        )

    @property
    def size(self) -> int:
        # `files` raises the error of a query that it concerns.
        with contextlib.suppress(BayouError):
            latest = self._latest_listing(planned=True)
            if latest is not None:
                return latest.size
        return self._listing.size

    def files(
        self, filters: Sequence[CatalystFilter], conf: SqlConf
    ) -> tuple[pa.RecordBatch, FileGroups]:
        loaded, latest = self._listing, self._latest_listing()
        if latest is not None:
            check_readable(loaded.snapshot, latest.snapshot)
        listing = latest or loaded
        predicate = to_predicate(
            filters,
            listing.snapshot.schema,
            time_zone=_kernel_zone(conf.time_zone),
            ansi=conf.ansi and self._conf.ansi,
            ignored_columns=self._ignored_columns,
        )
        listed = listing.files(predicate)
        if (
            latest is not None
            and pc.any(pc.is_valid(listed.files.column("deletion_vector"))).as_py()
        ):
            raise deletion_vector_error(loaded.snapshot, latest.snapshot)
        names = self.partition_schema.names
        columns: dict[str, Any] = dict(zip(names, listed.partition_values.columns, strict=False))
        numbers = listing.numbers(listed.files)
        if numbers is not None:
            columns[names[-1]] = numbers
        return listed.files, grouped(pa.table(columns), listed.files.column("size"))

    def _latest_listing(self, *, planned: bool = False) -> FileListing | None:
        """Return the listing of the latest version if a micro-batch runs the query; otherwise None.

        Args:
            planned: see `micro_batch_snapshot`.
        """
        if not self._follows_streams:
            return None
        loaded = self._listing
        snapshot = micro_batch_snapshot(
            loaded.spark, loaded.engine, loaded.snapshot.path, planned=planned
        )
        if snapshot is None:
            return None
        latest = self._latest
        if latest is None or latest.snapshot is not snapshot:
            self._latest = latest = replace(loaded, snapshot=snapshot)
        return latest


def _kernel_zone(name: str) -> str:
    """Convert a session's time zone name to the kernel's form; unknown names stay unchanged."""
    if is_utc(name):
        return "UTC"
    try:
        return normalize_time_zone(name)
    except ArgumentError:
        return name  # then, filters with timestamps are ignored


LOG_BYTES_PER_FILE = 150
"""Approximate size in bytes of the log per data file; used to estimate the number of files."""


@dataclass(frozen=True, kw_only=True)
class FileListing:
    """Lists the data files that Spark's Parquet reader reads; thread-safe.

    Attributes:
        time_zone: the session's time zone; applies to timestamp partition values without an offset.
        keys: `FileVectors.keys`, which assign a file number to each file with a deletion vector.
            None if no file has a deletion vector.
        kernel_keys: `FileVectors.kernel_keys`. The kernel reads the files with these keys, so they
            aren't listed.
    """

    spark: Any = field(repr=False)
    engine: Engine
    snapshot: Snapshot
    time_zone: str
    keys: pa.Array[Any] | None = None
    kernel_keys: pa.Array[Any] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def files(self, predicate: Predicate | None) -> DataFiles:
        """Return the files that may contain a matching row; all files if `predicate` is None.

        If the evaluation of the predicate for a partition value fails, all files are returned.
        Spark then evaluates the filter, and may raise the error.
        """
        try:
            return self._files(predicate)
        except EvaluationError:
            return self._files(None)

    def _files(self, predicate: Predicate | None) -> DataFiles:
        snapshot, schema = self.snapshot, self.snapshot.schema
        builder = DistributedScanBuilder(self.spark, snapshot).with_filter(predicate)
        scan = builder.with_time_zone(self.time_zone).build()
        with scan.scan_files(self.engine) as batches:
            parts = [
                data_files(batch, schema, snapshot.partition_columns, self.time_zone)
                for batch in batches
            ]
        return self._native_only(concat_data_files(parts, schema, snapshot.partition_columns))

    def _native_only(self, listed: DataFiles) -> DataFiles:
        if self.kernel_keys is None or len(self.kernel_keys) == 0:
            return listed
        native = pc.invert(pc.is_in(vector_keys(listed.files), value_set=self.kernel_keys))
        return DataFiles(
            files=listed.files.filter(native),
            partition_values=listed.partition_values.filter(native)
            if listed.partition_values.num_columns
            else listed.partition_values,
        )

    def numbers(self, files: pa.RecordBatch) -> pa.Array[Any] | None:
        """Return the file number (int32) of each file, as in `deleted_rows_frame`.

        The file number of a file without a deletion vector is 0. The result is None if no file of
        the table has a deletion vector.
        """
        if self.keys is None:
            return None
        indexes = pc.index_in(vector_keys(files), value_set=self.keys, skip_nulls=True)
        numbers: pa.Array[Any] = pc.fill_null(pc.add(indexes, pa.scalar(1, pa.int32())), 0)
        return numbers

    @cached_property
    def size(self) -> int:
        """Total size of all files in bytes."""
        totals = self.snapshot.checksum_totals
        if totals is not None:
            return totals.size
        scan = DistributedScanBuilder(self.spark, self.snapshot).build()
        with scan.scan_files(self.engine) as batches:
            sizes = (pc.struct_field(b.selected().column("add"), "size") for b in batches)
            return sum(pc.sum(size).as_py() or 0 for size in sizes)


def too_many_files(snapshot: Snapshot, max_files: int) -> str | None:
    """Return a message if a version has more than `max_files` files; otherwise None.

    The version checksum contains the number of files. If there is no checksum, the number is
    estimated from the size of the log.
    """
    totals = snapshot.checksum_totals
    if totals is not None:
        files, about = totals.files, ""
    else:
        files = (snapshot.checkpoint_bytes + tail_bytes(snapshot)) // LOG_BYTES_PER_FILE
        about = "about "
    return f"it has {about}{files} files, more than {max_files}" if files > max_files else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroups:
    """Files grouped by partition values; implements `jvm.file_index.FilesByPartition`."""

    values: pa.Table
    order: pa.Array[Any]
    offsets: pa.Array[Any]

    def only(self, groups: pa.Array[Any]) -> FileGroups:
        """Return a copy with only some of the groups.

        Args:
            groups: the indexes of these groups, in ascending order.
        """
        starts, ends = self.offsets[:-1].take(groups), self.offsets[1:].take(groups)
        sizes = pc.subtract(ends, starts)
        selected = pc.is_in(self._group_of_each(), value_set=groups)
        return FileGroups(
            values=self.values, order=self.order.filter(selected), offsets=_offsets(sizes)
        )

    def _group_of_each(self) -> pa.Array[Any]:
        offsets: Any = self.offsets
        lists = pa.ListArray.from_arrays(offsets, self.order)
        parents: pa.Array[Any] = pc.cast(pc.list_parent_indices(lists), pa.int32())
        return parents


def grouped(columns: pa.Table, sizes: pa.Array[Any]) -> FileGroups:
    """Group files by the values of columns; groups are in the order of their first files.

    The files of a group are sorted by size, the largest first. Spark later sorts all files of a
    query by size too, which is faster if the groups are already sorted.

    Args:
        columns: the values of each file. If there are no columns, all files are one group.
        sizes: the size of each file in bytes.
    """
    count = len(sizes)
    by_size = pc.array_sort_indices(sizes, order="descending")  # stable
    if count == 0 or columns.num_columns == 0:
        groups = 1 if count else 0
        return FileGroups(
            values=columns.slice(0, groups),
            order=by_size,
            offsets=pa.array([0, count][: groups + 1], pa.int32()),
        )
    codes: Any = None
    for column in columns.itercolumns():
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        indices = pc.cast(encoded.indices, pa.int64())
        if codes is None:
            codes = indices
        else:  # no overflow: both factors are below 2^31
            codes = pc.add(pc.multiply(codes, len(encoded.dictionary)), indices)
        codes = pc.cast(codes.dictionary_encode().indices, pa.int64())
    order = by_size.take(pc.sort_indices(codes.take(by_size)))
    sizes = pc.value_counts(codes).field("counts")  # in the order of the codes
    offsets = _offsets(pc.cast(sizes, pa.int32()))
    firsts = order.take(pc.cast(offsets[:-1], pa.int64()))
    return FileGroups(values=columns.take(firsts), order=order, offsets=offsets)


def _offsets(sizes: Any) -> pa.Array[Any]:
    ends = pc.cumulative_sum(pc.cast(sizes, pa.int32()))
    offsets: pa.Array[Any] = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return offsets
