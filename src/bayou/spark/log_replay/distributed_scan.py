"""`DistributedScan`: a kernel `Scan` whose log is replayed on Spark's executors."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import SparkSession

from bayou.errors import CorruptTableError
from bayou.kernel import CloseableIterator, Engine, Scan, ScanFileBatch, Snapshot, closeable
from bayou.kernel.log.file_actions import FileActions, tail_bytes
from bayou.kernel.scan.scan_file import scan_batch
from bayou.kernel.table_changes.change_plan import path_order
from bayou.spark.executors.executor_tasks import concatenated, from_cell
from bayou.spark.executors.jobs import TaggedJobs
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

__all__ = ["DistributedScan", "Replay"]

_BUCKET_FILES = 100_000
"""Files of a sort bucket, about 25 MB. The driver's iterator runs a Spark job for each bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """How the log of a scan is replayed.

    Attributes:
        spark: a session, classic or Connect.
        snapshot: the snapshot to replay.
        num_partitions: number of replay tasks; None: it depends on the log's size.
        local_bytes: maximum size of a log that this process replays if `num_partitions` is None.
        window_bytes: size of the commits above which a window function reconciles the actions.
        sorted: whether files are ordered by (modificationTime, path).
        frame: a DataFrame with a column `add` that replaces the log; None for the log.
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
        """The bytes of the checkpoint and commits that replay reads."""
        return self.snapshot.checkpoint_bytes + tail_bytes(self.snapshot)

    @property
    def is_local(self) -> bool:
        """Whether this process replays the log."""
        if self.frame is not None or self.num_partitions is not None:
            return False
        return self.log_bytes <= self.local_bytes

    @property
    def by_window(self) -> bool:
        """Whether a window function, with a shuffle, reconciles the actions."""
        return self.snapshot.catalog is None and tail_bytes(self.snapshot) > self.window_bytes

    @property
    def tasks(self) -> int:
        """The number of replay tasks on executors."""
        return self.num_partitions or max(1, -(-self.log_bytes // TASK_BYTES))


class DistributedScan(Scan):
    """A kernel `Scan` whose `scan_files` runs on Spark's executors if the log is large.

    Files are returned lazily: neither the driver's JVM nor this process holds more than a few
    batches. `DistributedScanBuilder` creates the scan.
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
        """The description of the jobs in Spark's UI."""
        snapshot = self._replay.snapshot
        return f"State Reconstruction {snapshot.path}@{snapshot.version}"

    def scan_files(self, engine: Engine) -> CloseableIterator[ScanFileBatch]:
        """The files to read, in batches. `close` cancels running Spark jobs.

        With `with_sort_key`, files are ordered by (modificationTime, path), paths by their UTF-8
        bytes; otherwise they have no order. No job runs before the first batch is requested.

        Raises:
            CorruptTableError, UnsupportedFeatureError: as in `Scan.scan_files`.
        """
        if self._replay.is_local:
            files = super().scan_files(engine)
            return _sort_locally(files, self._source.table) if self._replay.sorted else files
        return CloseableIterator(_ReplayIterator(self, engine))

    def count_files(self, engine: Engine) -> int:
        """The number of files to read, without a list of them.

        Without a filter, the version checksum has the number. Otherwise the files are counted.
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
            engine: reads the table; None for an engine with the session's storage settings.

        Raises:
            CorruptTableError: the log can't be split into tasks. Errors of a task fail the job.
        """
        if engine is None:
            engine = session_engine(self._replay.spark, self._replay.snapshot.path)
        source, function = self._source_and_function(engine, sampled=False)
        return source.mapInArrow(function.adds, ADD_COLUMN)

    def _source_and_function(self, engine: Engine, *, sampled: bool) -> tuple[Any, Any]:
        """A DataFrame, and the object whose methods turn its rows into files with `mapInArrow`."""
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
        if isinstance(batches, CloseableIterator):
            batches.close()
        cells, self._cells = self._cells, None
        if cells is not None:
            cells.unpersist()

    def _start(self) -> Iterator[ScanFileBatch]:
        """Replay the log in one job, whose result is compressed on the executors' disks."""
        replay = self._scan._replay  # noqa: SLF001
        with self._jobs.tagged():
            try:
                source, function = self._scan._source_and_function(  # noqa: SLF001
                    self._engine, sampled=replay.sorted
                )
            except CorruptTableError:
                return self._without_executors()
            cells = source.mapInArrow(function.cells, RESULT_COLUMNS)
            self._cells = cells.persist(StorageLevel.DISK_ONLY)
            report = cells.select("files", "sample", "error").collect()
            errors = [pickle.loads(row.error) for row in report if row.error is not None]  # noqa: S301
            if errors:
                if isinstance(errors[0], CorruptTableError) and replay.frame is None:
                    return self._without_executors()
                raise errors[0]
            if not report:
                return iter(())
            results = cells.select("cell")
            if replay.sorted:
                results = _sorted(cells, report)
            rows = _rows(results)
        return (ScanFileBatch(from_cell(row.cell)) for row in rows)

    def _without_executors(self) -> Iterator[ScanFileBatch]:
        """Replay in this process, which can use another checkpoint or report the corrupt one."""
        return self._scan._local_files(self._engine)  # noqa: SLF001


def _rows(frame: Any) -> Iterator[Any]:
    """The rows of a DataFrame, with at most two partitions in the driver.

    Since Spark 4.2, its scheduler retains the jobs of a DataFrame's iterator with their results,
    because they belong to a query that has ended. Jobs of an RDD's iterator belong to no query.
    """
    if isinstance(frame.sparkSession, SparkSession):
        return iter(frame.rdd.toLocalIterator(prefetchPartitions=True))
    return iter(frame.toLocalIterator(prefetchPartitions=True))


def _sorted(cells: Any, report: Sequence[Any]) -> Any:
    """Sort the files of all cells: split cells at bounds, shuffle by bucket, sort each bucket."""
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
    """The keys that divide all files into buckets of about equal size.

    Args:
        samples: samples of the files' keys.
        weights: for each sample, the number of files that it represents.
        buckets: number of buckets.
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
    """Sort files in this process, with local disk for files that don't fit into memory."""
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
