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
from bayou.spark.executors.executor_tasks import concatenated, from_cell
from bayou.spark.executors.jobs import TaggedJobs
from bayou.spark.log_replay.partition_chunks import rows_by_chunks
from bayou.spark.log_replay.tasks import (
    ADD_COLUMN,
    ORDERED_COLUMNS,
    RESULT_COLUMNS,
    TASK_BYTES,
    Merge,
    PackFrame,
    SliceTasks,
    Split,
    assign_slices,
    reconciled,
    sort_indexes,
    task_numbers,
)
from bayou.spark.session.hadoop_storage import session_engine
from bayou.spark.streaming.sorted_files import SortedFiles

_BUCKET_FILES = 100_000
"""Number of files in a sort bucket (about 25 MB). Each bucket is fetched by one Spark job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """How the log of a scan is replayed.

    Attributes:
        num_partitions: number of replay tasks. If None, the number depends on the log's size.
        local_bytes: maximum size of a log that this process replays if `num_partitions` is None.
        window_bytes: if the commits after the checkpoint are larger, a window function reconciles
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
        """Total size of the checkpoint and the commits that replay reads."""
        return self.snapshot.checkpoint_bytes + tail_bytes(self.snapshot)

    @property
    def is_local(self) -> bool:
        """Whether this process replays the log."""
        if self.frame is not None or self.num_partitions is not None:
            return False
        return self.log_bytes <= self.local_bytes

    @property
    def by_window(self) -> bool:
        """Whether Spark reconciles the actions with a window function, which needs a shuffle."""
        return self.snapshot.catalog is None and tail_bytes(self.snapshot) > self.window_bytes

    @property
    def tasks(self) -> int:
        """The number of replay tasks if executors replay the log."""
        return self.num_partitions or max(1, -(-self.log_bytes // TASK_BYTES))


class DistributedScan(Scan):
    """A kernel `Scan` whose `scan_files` runs on Spark's executors if the log is large.

    Files are returned lazily: neither the driver's JVM nor this process holds more than a few
    batches. `DistributedScanBuilder` creates the scan.

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
        """Whether executors replay the log; False for a small log, which this process replays."""
        return not self._replay.is_local

    @property
    def num_partitions(self) -> int:
        """The number of replay tasks on executors; 0 if this process replays the log."""
        return 0 if self._replay.is_local else self._replay.tasks

    @property
    def description(self) -> str:
        """Description of the scan's jobs in Spark's UI."""
        snapshot = self._replay.snapshot
        return f"State Reconstruction {snapshot.path}@{snapshot.version}"

    def scan_files(self, engine: Engine) -> CloseableIterator[ScanFileBatch]:
        """The files to read, in batches. `close` cancels running Spark jobs.

        With `with_sort_key`, files are ordered by (modificationTime, path), where paths are
        compared as UTF-8 bytes. Without it, files have no order. No job runs before the first batch
        is requested.

        Raises:
            CorruptTableError, UnsupportedFeatureError: as in `Scan.scan_files`.
        """
        if self._replay.is_local:
            files = super().scan_files(engine)
            return _sort_locally(files, self._source.table) if self._replay.sorted else files
        return CloseableIterator(_ReplayIterator(self, engine))

    def count_files(self, engine: Engine) -> int:
        """Return the number of files to read, without listing them.

        If the scan has no filter and the version has a checksum, the number is read from the
        checksum. Otherwise the log is replayed and the files are counted.
        """
        replay = self._replay
        stated = replay.snapshot.file_totals(engine)
        if stated is not None and self.definition.predicate is None and replay.frame is None:
            return stated.files
        if replay.is_local:
            with super().scan_files(engine) as batches:
                return sum(batch.num_selected for batch in batches)
        with TaggedJobs(replay.spark, self.description).tagged():
            source, function = self._source_and_function(engine, sampled=False)
            counts = source.mapInArrow(function.counts, "files bigint").collect()
        return sum(row.files for row in counts)

    def dataframe(self, engine: Engine | None = None) -> Any:
        """The files to read as a DataFrame with one struct column `add`, in no order.

        Executors always replay the log, and the rows never pass through the driver. `add` has the
        fields of Delta's `add` action; `path` is percent-encoded and relative to the table, as in
        the log.

        Args:
            engine: if None, an engine with the session's storage settings is used.

        Raises:
            CorruptTableError: the log can't be split into tasks. An error in a task is raised by
                Spark when the DataFrame is computed.
        """
        if engine is None:
            engine = session_engine(self._replay.spark, self._replay.snapshot.path)
        source, function = self._source_and_function(engine, sampled=False)
        return source.mapInArrow(function.adds, ADD_COLUMN)

    def _source_and_function(self, engine: Engine, *, sampled: bool) -> tuple[Any, Any]:
        """The input DataFrame of the replay, and an object with functions for `mapInArrow`.

        The functions convert input rows to scan files. If `sampled`, results of the function
        `cells` contain samples of the files' sort keys.
        """
        replay, description = self._replay, engine.description()
        spark, tasks = replay.spark, replay.tasks
        frame = replay.frame
        if frame is None and replay.by_window:
            frame = reconciled(spark, engine, replay.snapshot, self, tasks)
        if frame is not None:
            # The rows are reconciled, so the scan doesn't need the commits.
            scan = FileActions.for_version(replay.snapshot, self).scan
            return frame, PackFrame(engine=description, scan=scan.to_bytes(), sampled=sampled)
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
    """The batches of a replay on executors, read lazily; `close` can be called from any thread."""

    def __init__(self, scan: DistributedScan, engine: Engine) -> None:
        self._scan = scan
        self._engine = engine
        self._jobs = TaggedJobs(scan._replay.spark, scan.description)  # noqa: SLF001  # same module
        self._cells: Any = None
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
        cells, self._cells = self._cells, None
        if cells is not None:
            cells.unpersist()

    def _start(self) -> Iterator[ScanFileBatch]:
        replay = self._scan._replay  # noqa: SLF001
        with self._jobs.tagged():
            try:
                source, function = self._scan._source_and_function(  # noqa: SLF001
                    self._engine, sampled=replay.sorted
                )
            except CorruptTableError:
                return self._without_executors()
            cells = source.mapInArrow(function.cells, RESULT_COLUMNS)
            if replay.sorted or not isinstance(replay.spark, SparkSession):
                return self._materialized(cells)
        return self._in_chunks(cells)

    def _in_chunks(self, cells: Any) -> Iterator[ScanFileBatch]:
        """The batches in partition order. The first batches don't wait for the last tasks."""
        returned = 0
        rows = rows_by_chunks(cells.select("cell", "error"), self._jobs)
        with contextlib.closing(rows):
            for row in rows:
                if row.error is None:
                    yield ScanFileBatch(from_cell(row.cell))
                    returned += 1
                    continue
                error = pickle.loads(row.error)  # noqa: S301
                if not self._can_be_repeated(error):
                    raise error
                self._jobs.cancel()
                break
            else:
                return
        yield from self._remaining(cells, returned)

    def _remaining(self, cells: Any, returned: int) -> Iterator[ScanFileBatch]:
        """Replay the log in this process, without files that were returned already.

        `returned` is the number of batches that were returned before a corrupt file was found.
        """
        keys: list[pa.Array[Any]] = []
        if returned:
            rows = rows_by_chunks(cells.select("cell"), self._jobs)
            with contextlib.closing(rows):
                cells_returned = (from_cell(row.cell) for row in itertools.islice(rows, returned))
                keys.extend(_file_keys(files) for files in cells_returned)
        known = pa.concat_arrays(keys) if keys else None
        with self._without_executors() as batches:
            for batch in batches:
                files = batch.selected()
                if known is not None:
                    is_new = pc.invert(pc.is_in(_file_keys(files), value_set=known))
                    files = files.filter(is_new)
                yield ScanFileBatch(files)

    def _materialized(self, cells: Any) -> Iterator[ScanFileBatch]:
        """Store all batches compressed on the executors' disks in one job, and then return them."""
        replay = self._scan._replay  # noqa: SLF001
        self._cells = cells.persist(StorageLevel.DISK_ONLY)
        report = cells.select("files", "sample", "error").collect()
        errors = [pickle.loads(row.error) for row in report if row.error is not None]  # noqa: S301
        if errors:
            if self._can_be_repeated(errors[0]):
                return self._without_executors()
            raise errors[0]
        if not report:
            return iter(())
        results = _sorted(cells, report) if replay.sorted else cells.select("cell")
        return (ScanFileBatch(from_cell(row.cell)) for row in _rows(results))

    def _can_be_repeated(self, error: Exception) -> bool:
        """Whether this process can replay the log after an error of a task."""
        frame = self._scan._replay.frame  # noqa: SLF001
        return isinstance(error, CorruptTableError) and frame is None

    def _without_executors(self) -> CloseableIterator[ScanFileBatch]:
        """Replay the log in this process, which can avoid a corrupt checkpoint."""
        return self._scan._local_files(self._engine)  # noqa: SLF001


def _file_keys(files: pa.RecordBatch) -> pa.Array[Any]:
    """A string per file from its path and deletion vector, which identify a file in a version."""
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
    """The rows of a DataFrame, with at most two partitions in the driver.

    With a classic session, the rows come from the DataFrame's RDD. Since Spark 4.2, the scheduler
    retains the jobs of `DataFrame.toLocalIterator` and their results, because these jobs belong to
    a query that has already ended. Jobs of an RDD belong to no query.
    """
    if isinstance(frame.sparkSession, SparkSession):
        return iter(frame.rdd.toLocalIterator(prefetchPartitions=True))
    return iter(frame.toLocalIterator(prefetchPartitions=True))


def _sorted(cells: Any, report: Sequence[Any]) -> Any:
    """Sort all files: split batches at the bounds of buckets, shuffle, and sort each bucket.

    Args:
        cells: a DataFrame of `RESULT_COLUMNS`; each `cell` is a serialized batch of files.
        report: the rows of `cells`, without the column `cell`.
    """
    number = sum(row.files for row in report)
    buckets = max(1, -(-number // _BUCKET_FILES))
    samples = [from_cell(row.sample) for row in report if row.sample is not None]
    bounds = _bounds(samples, [row.files for row in report if row.sample is not None], buckets)
    return (
        cells.mapInArrow(Split(bounds), ORDERED_COLUMNS)
        .repartitionById(len(bounds) + 1, "bucket")
        .mapInArrow(Merge(), ORDERED_COLUMNS)
        .select("cell")
    )


def _bounds(
    samples: Sequence[pa.RecordBatch], weights: Sequence[int], buckets: int
) -> list[tuple[int, str]]:
    """Return the sort keys at which to divide all files into buckets of about equal size.

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
    """Sort files in this process; files that don't fit into memory are stored on local disk."""
    with files:
        sorted_files = SortedFiles.build(_with_orders(files))
    try:
        for adds in sorted_files.adds(0):
            yield ScanFileBatch(scan_batch(table, adds))
    finally:
        sorted_files.close()


def _with_orders(
    files: Iterator[ScanFileBatch],
) -> Iterator[tuple[pa.StructArray, pa.Array[Any]]]:
    for batch in files:
        adds: Any = batch.selected().column("add")
        yield adds, path_order(adds.field("path"))
