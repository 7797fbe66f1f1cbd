"""`DistributedScan`: a kernel `Scan` whose log is replayed on Spark's executors."""

from __future__ import annotations

import contextlib
import itertools
import pickle
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import SparkSession

from bayou.errors import CorruptTableError
from bayou.kernel import CloseableIterator, Engine, Scan, ScanFileBatch, Snapshot, closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.log.file_actions import FileActions, tail_bytes
from bayou.kernel.scan.scan_file import scan_batch
from bayou.kernel.table_changes.change_plan import path_order
from bayou.spark.executors.executor_tasks import concatenated, decode_batch
from bayou.spark.executors.jobs import TaggedJobs
from bayou.spark.log_replay.partition_chunks import rows_by_chunks
from bayou.spark.log_replay.tasks import (
    ADD_COLUMN,
    ORDERED_COLUMNS,
    RESULT_COLUMNS,
    TASK_BYTES,
    FrameTasks,
    SliceTasks,
    SortBuckets,
    SplitByBound,
    assign_slices,
    reconcile,
    sort_indexes,
    task_numbers,
)
from bayou.spark.session.hadoop_storage import session_engine
from bayou.spark.streaming.sorted_files import SortedFiles

_BUCKET_FILES = 100_000
"""Target number of files in a sort bucket (about 25 MB), which is a partition of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The settings of a log replay.

    Attributes:
        num_partitions: number of replay tasks. If None, the number depends on the size of the log.
        local_bytes: maximum size of a log that this process replays; ignored if `num_partitions` or
            `frame` is set.
        window_bytes: maximum total size of the commits after the checkpoint for a replay without a
            shuffle. In such a replay, each task gets the log-replay keys (path and deletion vector)
            of all actions in these commits. If the commits are larger, a window function reconciles
            the actions.
        sorted: whether to sort the files by (modificationTime, path).
        frame: a DataFrame whose column `add` contains the live files. If None, the log is replayed.
    """

    spark: Any
    snapshot: Snapshot
    num_partitions: int | None
    local_bytes: int
    window_bytes: int
    sorted: bool = False
    frame: Any = None

    @property
    def log_bytes(self) -> int:
        """Total size of the checkpoint and of the commits after it, in bytes."""
        return self.snapshot.checkpoint_bytes + tail_bytes(self.snapshot)

    @property
    def is_local(self) -> bool:
        """Whether this process replays the log, and not the executors."""
        if self.frame is not None or self.num_partitions is not None:
            return False
        return self.log_bytes <= self.local_bytes

    @property
    def by_window(self) -> bool:
        """Whether Spark reconciles the actions with a window function, which needs a shuffle."""
        return self.snapshot.catalog is None and tail_bytes(self.snapshot) > self.window_bytes

    @property
    def tasks(self) -> int:
        """Number of tasks if executors replay the log."""
        return self.num_partitions or max(1, -(-self.log_bytes // TASK_BYTES))


class DistributedScan(Scan):
    """A kernel `Scan` that replays a large log on Spark's executors.

    Files are returned lazily: neither the driver's JVM nor this process holds more than a few
    batches in memory. `DistributedScanBuilder` creates the scan.

    Examples:
        >>> scan = DistributedScanBuilder(spark, snapshot, 2).with_filter("price > 10").build()
        >>> print(scan.is_distributed, scan.num_partitions)
        >>> with scan.scan_files(engine) as batches:
        ...     print(sum(batch.num_selected for batch in batches))
    """

    __slots__ = ("_replay",)

    def __init__(self, scan: Scan, replay: Replay) -> None:
        super().__init__(scan.definition)
        self._replay = replay

    @property
    def is_distributed(self) -> bool:
        """Whether executors replay the log. A small log is replayed in this process."""
        return not self._replay.is_local

    @property
    def num_partitions(self) -> int:
        """Number of replay tasks on executors; 0 if this process replays the log."""
        return 0 if self._replay.is_local else self._replay.tasks

    @property
    def description(self) -> str:
        """Description of the scan's jobs in Spark's UI."""
        snapshot = self._replay.snapshot
        return f"State Reconstruction {snapshot.path}@{snapshot.version}"

    def scan_files(self, engine: Engine) -> CloseableIterator[ScanFileBatch]:
        """Return the files to read, in batches.

        The first Spark job starts when the first batch is requested. If the builder's
        `with_sort_key` was called, files are ordered by (modificationTime, path), where paths are
        compared as UTF-8 bytes. Otherwise the order is undefined. Closing the iterator cancels
        running Spark jobs.

        Raises:
            CorruptTableError, UnsupportedFeatureError: as in `Scan.scan_files`.
        """
        if self._replay.is_local:
            files = super().scan_files(engine)
            return _sort_locally(files, self._source.table) if self._replay.sorted else files
        return CloseableIterator(_ReplayIterator(self, engine))

    def count_files(self, engine: Engine) -> int:
        """Return the number of files to read.

        If the scan has no filter and the version has a checksum, the number is taken from the
        checksum. Otherwise the files are counted by a replay of the log.
        """
        replay = self._replay
        totals = replay.snapshot.file_totals(engine)
        if totals is not None and self.definition.predicate is None and replay.frame is None:
            return totals.files
        if replay.is_local:
            with super().scan_files(engine) as batches:
                return sum(batch.num_selected for batch in batches)
        with TaggedJobs(replay.spark, self.description).tagged():
            source, function = self._source_and_function(engine, sampled=False)
            counts = source.mapInArrow(function.counts, "files bigint").collect()
        return sum(row.files for row in counts)

    def dataframe(self, engine: Engine | None = None) -> Any:
        """Return the files to read as an unordered DataFrame with one struct column `add`.

        Executors always replay the log, and the driver collects no rows. `add` has the fields of
        Delta's `add` action. As in the log, `path` is percent-encoded and relative to the table.

        Args:
            engine: if None, an engine with the session's storage settings is used.

        Raises:
            CorruptTableError: the log can't be split into tasks. Errors in tasks are raised when
                Spark computes the DataFrame.
        """
        if engine is None:
            engine = session_engine(self._replay.spark, self._replay.snapshot.path)
        source, function = self._source_and_function(engine, sampled=False)
        return source.mapInArrow(function.adds, ADD_COLUMN)

    def _source_and_function(self, engine: Engine, *, sampled: bool) -> tuple[Any, Any]:
        """Return the replay's input DataFrame, and the `FileTasks` that create scan files from it.

        The second result is a `SliceTasks` or a `FrameTasks`. Its methods are functions for
        `mapInArrow`.

        Args:
            sampled: whether the output of the method `results` contains samples of the files' sort
                keys.
        """
        replay, description = self._replay, engine.description()
        spark, tasks = replay.spark, replay.tasks
        frame = replay.frame
        if frame is None and replay.by_window:
            frame = reconcile(spark, engine, replay.snapshot, self, tasks)
        if frame is not None:
            # A scan that contains no commits to replay, because the rows of `frame` are live files.
            scan = FileActions.for_version(replay.snapshot, self).scan
            return frame, FrameTasks(engine=description, scan=scan.to_bytes(), sampled=sampled)
        slices = self.slices(engine, tasks)
        assigned = assign_slices(
            [(part.to_bytes(), part.estimated_bytes) for part in slices], tasks
        )
        function = SliceTasks(
            engine=description, scan=self.to_bytes(), tasks=assigned, sampled=sampled
        )
        return task_numbers(spark, tasks), function

    def _local_files(self, engine: Engine) -> CloseableIterator[ScanFileBatch]:
        files = super().scan_files(engine)
        return _sort_locally(files, self._source.table) if self._replay.sorted else files


class _ReplayIterator:
    """Iterator over the batches of a replay on executors; any thread can call `close`."""

    def __init__(self, scan: DistributedScan, engine: Engine) -> None:
        self._scan = scan
        self._engine = engine
        self._jobs = TaggedJobs(scan._replay.spark, scan.description)  # noqa: SLF001  # same module
        self._results: Any = None
        self._batches: Iterator[ScanFileBatch] | None = None
        self._closed = False

    def __iter__(self) -> _ReplayIterator:
        return self

    def __next__(self) -> ScanFileBatch:
        if self._closed:
            raise StopIteration
        try:
            if self._batches is None:
                self._batches = self._start()
            return next(self._batches)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._jobs.cancel()
        batches, self._batches = self._batches, None
        with contextlib.suppress(ValueError):  # another thread is in `next`, which fails now
            if isinstance(batches, CloseableIterator | Generator):
                batches.close()
        results, self._results = self._results, None
        if results is not None:
            results.unpersist()

    def _start(self) -> Iterator[ScanFileBatch]:
        replay = self._scan._replay  # noqa: SLF001
        with self._jobs.tagged():
            try:
                source, function = self._scan._source_and_function(  # noqa: SLF001
                    self._engine, sampled=replay.sorted
                )
            except CorruptTableError:
                return self._without_executors()
            results = source.mapInArrow(function.results, RESULT_COLUMNS)
            if replay.sorted or not isinstance(replay.spark, SparkSession):
                return self._materialized(results)
        return self._in_chunks(results)

    def _in_chunks(self, results: Any) -> Iterator[ScanFileBatch]:
        """Yield the batches in partition order, the first ones while other tasks still run."""
        returned = 0
        rows = rows_by_chunks(results.select("batch", "error"), self._jobs)
        with contextlib.closing(rows):
            for row in rows:
                if row.error is None:
                    yield ScanFileBatch(decode_batch(row.batch))
                    returned += 1
                    continue
                error = pickle.loads(row.error)  # noqa: S301
                if not self._can_be_repeated(error):
                    raise error
                self._jobs.cancel()
                break
            else:
                return
        yield from self._remaining(results, returned)

    def _remaining(self, results: Any, returned: int) -> Iterator[ScanFileBatch]:
        """Replay the log in this process, because a task has found a corrupt checkpoint.

        The caller already has the files in the first `returned` batches of `results`. These files
        are omitted.
        """
        keys: list[pa.Array[Any]] = []
        if returned:
            rows = rows_by_chunks(results.select("batch"), self._jobs)
            with contextlib.closing(rows):
                returned_rows = itertools.islice(rows, returned)
                keys.extend(_file_keys(decode_batch(row.batch)) for row in returned_rows)
        known = pa.concat_arrays(keys) if keys else None
        with self._without_executors() as batches:
            for batch in batches:
                files = batch.selected()
                if known is not None:
                    is_new = pc.invert(pc.is_in(_file_keys(files), value_set=known))
                    files = files.filter(is_new)
                yield ScanFileBatch(files)

    def _materialized(self, results: Any) -> Iterator[ScanFileBatch]:
        """Compute all batches in one job, which stores them on the executors' disks."""
        replay = self._scan._replay  # noqa: SLF001
        self._results = results.persist(StorageLevel.DISK_ONLY)
        report = results.select("files", "sample", "error").collect()
        errors = [pickle.loads(row.error) for row in report if row.error is not None]  # noqa: S301
        if errors:
            if self._can_be_repeated(errors[0]):
                return self._without_executors()
            raise errors[0]
        if not report:
            return iter(())
        batches = _sorted(results, report) if replay.sorted else results.select("batch")
        return (ScanFileBatch(decode_batch(row.batch)) for row in _rows(batches))

    def _can_be_repeated(self, error: Exception) -> bool:
        """Whether a replay in this process may succeed although a task failed with this error."""
        frame = self._scan._replay.frame  # noqa: SLF001
        return isinstance(error, CorruptTableError) and frame is None

    def _without_executors(self) -> CloseableIterator[ScanFileBatch]:
        """Replay the log in this process, because tasks can't skip a corrupt checkpoint."""
        return self._scan._local_files(self._engine)  # noqa: SLF001


def _file_keys(files: pa.RecordBatch) -> pa.Array[Any]:
    """Return a string for each file that identifies the file: its path and deletion vector."""
    adds: Any = files.column("add")
    vector = pc.struct_field(adds, "deletionVector")
    parts = [
        pc.struct_field(adds, "path"),
        pc.struct_field(vector, "storageType"),
        pc.struct_field(vector, "pathOrInlineDv"),
        pc.cast(pc.struct_field(vector, "offset"), pa.string()),
    ]
    keys: pa.Array[Any] = pc.binary_join_element_wise(
        *(pc.fill_null(part, "") for part in parts), "\n"
    )
    return keys


def _rows(frame: Any) -> Iterator[Any]:
    """Iterate over the rows of a DataFrame, with at most two partitions in the driver's memory.

    In a classic session, the iterator of the DataFrame's RDD is used instead of
    `DataFrame.toLocalIterator`. The jobs of `toLocalIterator` belong to a query that has already
    ended, and since Spark 4.2 the scheduler retains their results. Jobs of an RDD don't belong to a
    query.
    """
    if isinstance(frame.sparkSession, SparkSession):
        return iter(frame.rdd.toLocalIterator(prefetchPartitions=True))
    return iter(frame.toLocalIterator(prefetchPartitions=True))


def _sorted(results: Any, report: Sequence[Any]) -> Any:
    """Sort all files with a shuffle.

    The sort keys are divided into ranges with about the same number of files. The files of a range
    are called a bucket. Batches are split by bucket. Each bucket is shuffled to one task, which
    sorts the bucket.

    Args:
        results: a DataFrame of `RESULT_COLUMNS`.
        report: all rows of `results`, without the column `batch`.
    """
    number = sum(row.files for row in report)
    buckets = max(1, -(-number // _BUCKET_FILES))
    samples = [decode_batch(row.sample) for row in report if row.sample is not None]
    bounds = _bounds(samples, [row.files for row in report if row.sample is not None], buckets)
    return (
        results.mapInArrow(SplitByBound(bounds), ORDERED_COLUMNS)
        .repartitionById(len(bounds) + 1, "bucket")
        .mapInArrow(SortBuckets(), ORDERED_COLUMNS)
        .select("batch")
    )


def _bounds(
    samples: Sequence[pa.RecordBatch], weights: Sequence[int], buckets: int
) -> list[tuple[int, str]]:
    """Return the sort keys that divide the files into `buckets` buckets of about equal size.

    Args:
        samples: samples of the files' sort keys.
        weights: for each sample, the number of files that it represents.
    """
    if buckets < 2:
        return []
    keys: Any = concatenated(samples)
    key_weights = [
        weight / sample.num_rows
        for sample, weight in zip(samples, weights, strict=True)
        for _ in range(sample.num_rows)
    ]
    order = sort_indexes(keys).to_pylist()
    bounds: list[tuple[int, str]] = []
    total, passed = sum(key_weights), 0.0
    for index in order:
        passed += key_weights[index]
        if passed >= total * (len(bounds) + 1) / buckets and len(bounds) < buckets - 1:
            key = (keys.column(0)[index].as_py(), keys.column(1)[index].as_py())
            if not bounds or key != bounds[-1]:
                bounds.append(key)
    return bounds


@closeable
def _sort_locally(files: CloseableIterator[ScanFileBatch], table: str) -> Iterator[ScanFileBatch]:
    """Sort files in this process; use local disk if the list is too large for memory."""
    with files:
        sorted_files = SortedFiles.build(_with_path_order(files))
    try:
        for adds in sorted_files.adds(0):
            yield ScanFileBatch(scan_batch(table, adds))
    finally:
        sorted_files.close()


def _with_path_order(
    files: Iterator[ScanFileBatch],
) -> Iterator[tuple[pa.StructArray, pa.Array[Any]]]:
    for batch in files:
        adds: Any = batch.selected().column("add")
        yield adds, path_order(adds.field("path"))
