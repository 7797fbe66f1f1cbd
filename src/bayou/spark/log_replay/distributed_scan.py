"""A scan whose log is replayed on Spark's executors; for whoever uses it a `Scan` of the kernel."""

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
from bayou.spark.executors.executor_tasks import from_cell, in_one
from bayou.spark.executors.jobs import ReplayJobs
from bayou.spark.log_replay.tasks import (
    ADD_COLUMN,
    ORDERED_COLUMNS,
    RESULT_COLUMNS,
    TASK_BYTES,
    Merge,
    PackFrame,
    SliceTasks,
    Split,
    dealt,
    ordered,
    reconciled,
    task_numbers,
)
from bayou.spark.session.hadoop_storage import session_engine
from bayou.spark.streaming.sorted_files import SortedFiles

__all__ = ["DistributedScan", "Replay"]

_BUCKET_FILES = 100_000
"""Files that a task sorts, about 25 MB; each is a Spark job of the driver's iterator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """How a scan's log is replayed.

    Attributes:
        spark: a session, classic or Connect.
        snapshot: what is replayed.
        num_partitions: tasks of the replay; None: by size.
        local_bytes: logs of up to so many bytes are replayed in this process, unless
            `num_partitions` is given.
        window_bytes: commits of more bytes than this are reconciled by a window.
        sorted: whether files come in (modificationTime, path) order.
        frame: a DataFrame with a column `add` whose rows are taken instead of the log; None for
            the log.
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
        """What replay reads."""
        return self.snapshot.checkpoint_bytes + tail_bytes(self.snapshot)

    @property
    def is_local(self) -> bool:
        """Whether this process replays."""
        if self.frame is not None or self.num_partitions is not None:
            return False
        return self.log_bytes <= self.local_bytes

    @property
    def by_window(self) -> bool:
        """Whether a shuffle reconciles the actions."""
        return self.snapshot.catalog is None and tail_bytes(self.snapshot) > self.window_bytes

    @property
    def tasks(self) -> int:
        """How many tasks replay on executors."""
        return self.num_partitions or max(1, -(-self.log_bytes // TASK_BYTES))


class DistributedScan(Scan):
    """A kernel `Scan` of which `scan_files` runs on Spark's executors where the log is large.

    All else is as in `Scan`. Files come as they are asked for; neither the driver's JVM nor this
    process holds more of them than a few batches. Ask `DistributedScanBuilder` for one.
    """

    __slots__ = ("_replay",)

    def __init__(self, scan: Scan, replay: Replay) -> None:
        super().__init__(scan.definition)
        self._replay = replay

    @property
    def is_distributed(self) -> bool:
        """Whether executors replay the log; else it is small and this process does."""
        return not self._replay.is_local

    @property
    def num_partitions(self) -> int:
        """Tasks of the replay on executors; 0 where this process replays."""
        return 0 if self._replay.is_local else self._replay.tasks

    @property
    def description(self) -> str:
        """What Spark's UI shows for the jobs."""
        snapshot = self._replay.snapshot
        return f"State Reconstruction {snapshot.path}@{snapshot.version}"

    def scan_files(self, engine: Engine) -> CloseableIterator[ScanFileBatch]:
        """The files to read, batch after batch; closing early cancels the Spark jobs.

        In (modificationTime, path) order, texts by their bytes, where the builder was told so; in
        no order else. Nothing runs before the first batch is asked for.

        Raises:
            CorruptTableError, UnsupportedFeatureError: as in `Scan.scan_files`.
        """
        if self._replay.is_local:
            files = super().scan_files(engine)
            return _in_order(files, self._source.table) if self._replay.sorted else files
        return CloseableIterator(_Pulled(self, engine))

    def count_files(self, engine: Engine) -> int:
        """How many files there are to read; no list of them is made.

        The version's checksum says it where there is no filter, else they are counted.
        """
        replay = self._replay
        stated = replay.snapshot.file_totals(engine)
        if stated is not None and self.definition.predicate is None and replay.frame is None:
            return stated.files
        if replay.is_local:
            with super().scan_files(engine) as batches:
                return sum(batch.num_selected for batch in batches)
        with ReplayJobs(replay.spark, self.description).named():
            source, function = self._source_and_function(engine, sampled=False)
            counts = source.mapInArrow(function.counts, "files bigint").collect()
        return sum(row.files for row in counts)

    def dataframe(self, engine: Engine | None = None) -> Any:
        """The files to read as a DataFrame with one struct column `add`, in no order.

        Always on executors: its rows never are in the driver. `add` has the fields of Delta's
        `add` action; `path` is percent-encoded and relative to the table, as in the log.

        Args:
            engine: None for that of the table's path, with what the session says of the store.

        Raises:
            CorruptTableError: the log can't be split; a part that can't be read shows in the job.
        """
        if engine is None:
            engine = session_engine(self._replay.spark, self._replay.snapshot.path)
        source, function = self._source_and_function(engine, sampled=False)
        return source.mapInArrow(function.adds, ADD_COLUMN)

    def _source_and_function(self, engine: Engine, *, sampled: bool) -> tuple[Any, Any]:
        """A DataFrame, and what makes scan files of it in `mapInArrow`."""
        replay, description = self._replay, engine.description()
        spark, tasks = replay.spark, replay.tasks
        frame = replay.frame
        if frame is None and replay.by_window:
            frame = reconciled(spark, engine, replay.snapshot, self, tasks)
        if frame is not None:
            # The rows have been reconciled: nothing of the commits is needed.
            scan = FileActions.of(replay.snapshot, self).scan
            return frame, PackFrame(engine=description, scan=scan.to_bytes(), sampled=sampled)
        slices = self.slices(engine, tasks)
        dealt_out = dealt([(part.to_bytes(), part.estimated_bytes) for part in slices], tasks)
        function = SliceTasks(
            engine=description, scan=self.to_bytes(), tasks=dealt_out, sampled=sampled
        )
        return task_numbers(spark, tasks), function

    def _local_files(self, engine: Engine) -> CloseableIterator[ScanFileBatch]:
        files = super().scan_files(engine)
        return _in_order(files, self._source.table) if self._replay.sorted else files


class _Pulled:
    """Batches out of Spark, pulled as they are asked for; `close` works from any thread."""

    def __init__(self, scan: DistributedScan, engine: Engine) -> None:
        self._scan = scan
        self._engine = engine
        self._jobs = ReplayJobs(scan._replay.spark, scan.description)  # noqa: SLF001  # one module
        self._cells: Any = None
        self._batches: Iterator[ScanFileBatch] | None = None
        self._closed = False

    def __iter__(self) -> _Pulled:
        return self

    def __next__(self) -> ScanFileBatch:
        if self._closed:
            raise StopIteration
        try:
            if self._batches is None:
                self._batches = self._begun()
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

    def _begun(self) -> Iterator[ScanFileBatch]:
        """One job replays everything and leaves it on the executors' disks, compressed."""
        replay = self._scan._replay  # noqa: SLF001
        with self._jobs.named():
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
            rows = _rows_of(results)
        return (ScanFileBatch(from_cell(row.cell)) for row in rows)

    def _without_executors(self) -> Iterator[ScanFileBatch]:
        """A checkpoint that can't be read: this process looks for another way, and says why not."""
        return self._scan._local_files(self._engine)  # noqa: SLF001


def _rows_of(frame: Any) -> Iterator[Any]:
    """A DataFrame's rows, two partitions of them at a time in the driver.

    In Spark from 4.2 on the jobs of a DataFrame's own iterator stay with its scheduler, results and
    all, as jobs of a query that has ended; those of an RDD's are no query's.
    """
    if isinstance(frame.sparkSession, SparkSession):
        return iter(frame.rdd.toLocalIterator(prefetchPartitions=True))
    return iter(frame.toLocalIterator(prefetchPartitions=True))


def _sorted(cells: Any, report: Sequence[Any]) -> Any:
    """The cells' files in order: cut at bounds, brought together by bucket, sorted there."""
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
    """Keys that cut all files into about equal buckets.

    Args:
        weights: of each sample, the number of files it stands for.
    """
    if buckets < 2:
        return []
    keys: Any = in_one(samples)
    each = [
        weight / sample.num_rows
        for sample, weight in zip(samples, weights, strict=True)
        for _ in range(sample.num_rows)
    ]
    order = ordered(keys).to_pylist()
    found: list[tuple[int, str]] = []
    total, passed = sum(each), 0.0
    for index in order:
        passed += each[index]
        if passed >= total * (len(found) + 1) / buckets and len(found) < buckets - 1:
            key = (keys.column(0)[index].as_py(), keys.column(1)[index].as_py())
            if not found or key != found[-1]:
                found.append(key)
    return found


@closeable
def _in_order(files: CloseableIterator[ScanFileBatch], table: str) -> Iterator[ScanFileBatch]:
    """Files sorted here; those that are too many for memory wait on the local disk."""
    with files:
        found = SortedFiles.build(_with_orders(files))
    try:
        for adds in found.adds(0):
            yield ScanFileBatch(scan_batch(table, adds))
    finally:
        found.close()


def _with_orders(
    files: Iterator[ScanFileBatch],
) -> Iterator[tuple[pa.StructArray, pa.Array[Any]]]:
    for batch in files:
        adds: Any = batch.selected().column("add")
        yield adds, path_order(adds.field("path"))
