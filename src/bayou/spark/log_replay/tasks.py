"""Executor tasks of distributed log replay.

The classes provide functions for `mapInArrow`. An object's attributes are pickled into the job;
Spark broadcasts a large pickle. A cell is a batch of scan files, serialized to one binary value.
`reconciled` uses a window function to replay a log with many commits.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # PySpark's convention

from bayou.engines import from_description
from bayou.errors import CorruptTableError, UnsupportedFeatureError
from bayou.kernel import Engine, EngineDescription, FilteredColumnarBatch, LogSlice, Scan, Snapshot
from bayou.kernel.arrow.compute import pc
from bayou.kernel.log.file_actions import ActionSlice, FileActions, tail_bytes
from bayou.kernel.scan.scan_file import ADD_TYPE, ScanFileBatch
from bayou.kernel.table_changes.change_plan import path_order
from bayou.kernel.table_changes.streamed_commits import without_statistics
from bayou.spark.executors.executor_tasks import concatenated, from_cell, to_cell

RESULT_COLUMNS = "cell binary, files bigint, bytes bigint, sample binary, error binary"
"""A cell, its number of files, the files' total size, and a sample of sort keys; or an error."""

ORDERED_COLUMNS = "bucket int, cell binary"

_VECTOR = (
    "struct<storageType string, pathOrInlineDv string, offset int, sizeInBytes int, "
    "cardinality bigint>"
)
ADD_COLUMN = (
    "add struct<path string, partitionValues map<string, string>, size bigint, "
    "modificationTime bigint, dataChange boolean, stats string, tags map<string, string>, "
    f"deletionVector {_VECTOR}, baseRowId bigint, defaultRowCommitVersion bigint, "
    "clusteringProvider string>"
)
ACTION_COLUMNS = f"key string, version bigint, dataChange boolean, {ADD_COLUMN}"

_SAMPLES = 32
"""Approximate number of sampled sort keys per batch; they determine the bounds of buckets."""

_CELL_FILES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SliceTasks:
    """Tasks that replay slices of a log. Has no `repr`, because the engine contains credentials.

    Attributes:
        scan: the serialized `Scan`.
        tasks: the serialized `LogSlice`s of each task.
        sampled: whether the rows that `cells` returns contain samples of the files' sort keys.
    """

    engine: EngineDescription
    scan: bytes
    tasks: Sequence[Sequence[bytes]]
    sampled: bool = False

    def cells(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Replay the slices of the tasks with these numbers; return rows of `RESULT_COLUMNS`."""
        return _results(self._batches(numbers), sampled=self.sampled)

    def adds(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Replay the slices of the tasks with these numbers; return rows of `ADD_COLUMN`."""
        for batch in self._batches(numbers):
            yield _add_column(batch.selected())

    def counts(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Replay the tasks' slices and return a row with the number of files."""
        return _counts(self._batches(numbers))

    def _batches(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[ScanFileBatch]:
        engine, scan = from_description(self.engine), Scan.from_bytes(self.scan)
        for number in _read_numbers(numbers):
            for data in self.tasks[number]:
                for batch in scan.replay_slice(engine, LogSlice.from_bytes(data)):
                    yield _projected(scan, batch)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ActionTasks:
    """Tasks that read file actions, before reconciliation. Has no `repr`, like `SliceTasks`.

    Attributes:
        actions: the serialized `FileActions`.
        tasks: the serialized `ActionSlice`s of each task.
    """

    engine: EngineDescription
    actions: bytes
    tasks: Sequence[Sequence[bytes]]

    def rows(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the tasks' slices and return the file actions in rows of `ACTION_COLUMNS`."""
        engine, actions = from_description(self.engine), FileActions.from_bytes(self.actions)
        for number in _read_numbers(numbers):
            for data in self.tasks[number]:
                yield from actions.read(engine, ActionSlice.from_bytes(data))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PackFrame:
    """Tasks that convert a DataFrame's column `add` to scan files; nulls are skipped.

    Attributes:
        scan: the serialized `Scan`; its filter is applied to the files.
        sampled: as in `SliceTasks`.
    """

    engine: EngineDescription
    scan: bytes
    sampled: bool = False

    def cells(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Filter the files and return them in rows of `RESULT_COLUMNS`."""
        return _results(self._batches(rows), sampled=self.sampled)

    def adds(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Filter the files and return them in rows of `ADD_COLUMN`."""
        for batch in self._batches(rows):
            yield _add_column(batch.selected())

    def counts(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Filter the files and return a row with their number."""
        return _counts(self._batches(rows))

    def _batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[ScanFileBatch]:
        engine, scan = from_description(self.engine), Scan.from_bytes(self.scan)
        for batch in rows:
            adds = batch.column(batch.schema.get_field_index("add")).drop_null()
            if len(adds):
                for files in scan.prune(engine, _as_adds(adds)):
                    yield _projected(scan, files)


@dataclass(frozen=True, slots=True)
class Split:
    """Splits cells (batches of scan files) at the bounds of sort buckets.

    A bucket starts at its bound, a sort key (modificationTime, path). `bounds` are ascending; the
    first bucket has no bound.
    """

    bounds: Sequence[tuple[int, str]]

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Split each cell into rows of `ORDERED_COLUMNS`, one row per bucket."""
        for batch in rows:
            for cell in batch.column("cell"):
                if not cell.is_valid:
                    continue
                files = _sorted_files(from_cell(cell.as_py()))
                borders = [0, *_bound_positions(files, self.bounds), files.num_rows]
                for bucket, (start, end) in enumerate(itertools.pairwise(borders)):
                    if start < end:
                        yield _row_of(
                            bucket=pa.array([bucket], pa.int32()),
                            cell=pa.array([to_cell(files.slice(start, end - start))], pa.binary()),
                        )


class Merge:
    """Sorts the files of each bucket: reads them from unsorted cells and returns sorted cells.

    A Spark partition has at most one bucket.
    """

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sort the files of each bucket and return them in rows of `ORDERED_COLUMNS`, in order."""
        buckets: dict[int, list[pa.RecordBatch]] = {}
        for batch in rows:
            numbers: list[Any] = batch.column("bucket").to_pylist()
            for bucket, cell in zip(numbers, batch.column("cell"), strict=True):
                buckets.setdefault(bucket, []).append(from_cell(cell.as_py()))
        for bucket in sorted(buckets):
            files = _sorted_files(concatenated(buckets.pop(bucket)))
            for start in range(0, files.num_rows, _CELL_FILES):
                yield _row_of(
                    bucket=pa.array([bucket], pa.int32()),
                    cell=pa.array([to_cell(files.slice(start, _CELL_FILES))], pa.binary()),
                )


def sort_keys(files: pa.RecordBatch) -> pa.RecordBatch:
    """The sort keys of scan files: `modificationTime`, with 0 for null, and the path's sort key."""
    adds: Any = files.column("add")
    return pa.RecordBatch.from_arrays(
        [
            pc.fill_null(pc.struct_field(adds, "modificationTime"), 0),
            path_order(pc.struct_field(adds, "path")),
        ],
        names=["modificationTime", "path"],
    )


def sort_indexes(keys: pa.RecordBatch) -> Any:
    """The indexes that sort a batch of `sort_keys`."""
    by = [("modificationTime", "ascending"), ("path", "ascending")]
    return pc.sort_indices(keys, sort_keys=by)


def _projected(scan: Scan, batch: ScanFileBatch) -> ScanFileBatch:
    """Remove statistics that the scan doesn't request; they are most of a file's bytes."""
    if scan.definition.statistics:
        return batch
    files = batch.data
    adds: Any = files.column("add")
    assert isinstance(adds, pa.StructArray)
    columns = [without_statistics(adds), files.column("tableRoot")]
    return ScanFileBatch(pa.RecordBatch.from_arrays(columns, schema=files.schema), batch.selection)


def _sorted_files(files: pa.RecordBatch) -> pa.RecordBatch:
    return files.take(sort_indexes(sort_keys(files)))


def _bound_positions(files: pa.RecordBatch, bounds: Sequence[tuple[int, str]]) -> list[int]:
    """For each bound, the index of the first file at or after the bound; `files` are sorted."""
    keys = sort_keys(files)
    times, paths = keys.column(0), keys.column(1)
    positions: list[int] = []
    for time, path in bounds:
        low, high = positions[-1] if positions else 0, files.num_rows
        encoded = path.encode()
        while low < high:
            middle = (low + high) // 2
            at = times[middle].as_py()
            if (at, paths[middle].as_py().encode() if at == time else b"") < (time, encoded):
                low = middle + 1
            else:
                high = middle
        positions.append(low)
    return positions


def _results(
    batches: Iterator[FilteredColumnarBatch], *, sampled: bool
) -> Iterator[pa.RecordBatch]:
    try:
        for batch in batches:
            files = batch.selected()
            if files.num_rows == 0:
                continue
            sizes = pc.struct_field(files.column("add"), "size")
            sample = None
            if sampled:
                sampled_rows = range(0, files.num_rows, max(1, files.num_rows // _SAMPLES))
                sample = to_cell(sort_keys(files.take(pa.array(sampled_rows))))
            yield _row_of(
                cell=pa.array([to_cell(files)], pa.binary()),
                files=pa.array([files.num_rows], pa.int64()),
                bytes=pa.array([pc.sum(sizes).as_py() or 0], pa.int64()),
                sample=pa.array([sample], pa.binary()),
                error=pa.nulls(1, pa.binary()),
            )
    except (CorruptTableError, UnsupportedFeatureError) as error:
        # Spark would retry a task that raises. The driver gets the error object instead.
        yield _row_of(
            cell=pa.nulls(1, pa.binary()),
            files=pa.array([0], pa.int64()),
            bytes=pa.array([0], pa.int64()),
            sample=pa.nulls(1, pa.binary()),
            error=pa.array([pickle.dumps(error)], pa.binary()),
        )


def _counts(batches: Iterable[FilteredColumnarBatch]) -> Iterator[pa.RecordBatch]:
    yield _row_of(files=pa.array([sum(b.num_selected for b in batches)], pa.int64()))


def _row_of(**columns: pa.Array[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _read_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        numbers: list[Any] = batch.column(0).to_pylist()
        yield from numbers


def _add_column(files: pa.RecordBatch) -> pa.RecordBatch:
    return files.select(["add"])


def _as_adds(adds: Any) -> pa.StructArray:
    """Cast Spark's `add` structs to `ADD_TYPE`; a missing field becomes null.

    Spark's Arrow maps have other field names than `ADD_TYPE`.
    """
    indexes = {f.name: i for i, f in enumerate(adds.type)}
    columns = [
        adds.field(indexes[f.name]).cast(f.type)
        if f.name in indexes
        else pa.nulls(len(adds), f.type)
        for f in ADD_TYPE
    ]
    return pa.StructArray.from_arrays(columns, fields=list(ADD_TYPE))


TASK_BYTES = 4 * 1024 * 1024
"""Approximate size of the log slices of a task, about 40,000 files of a checkpoint."""


def reconciled(spark: Any, engine: Engine, snapshot: Snapshot, scan: Scan, tasks: int) -> Any:
    """The live files of a version as a DataFrame with the column `add`.

    For each file (path and deletion vector), a window function selects the newest action. If a
    version has several actions for the file, the window function prefers one with `dataChange`. The
    file is live if the selected action is an `add`.

    The scan's filter isn't applied. Otherwise a newer `add` could be dropped, and an older `add` of
    the same file would be selected.

    Args:
        scan: a scan of the snapshot; selects the fields of `add`.
        tasks: number of tasks that read actions; with many commits, the window function uses more.
    """
    actions = FileActions.for_version(snapshot, scan)
    parts = [(part.to_bytes(), part.estimated_bytes) for part in actions.slices(engine, tasks)]
    function = ActionTasks(
        engine=engine.description(), actions=actions.to_bytes(), tasks=assign_slices(parts, tasks)
    )
    rows = task_numbers(spark, tasks).mapInArrow(function.rows, ACTION_COLUMNS)
    return newest(rows, max(tasks, tail_bytes(snapshot) // TASK_BYTES))


def newest(actions: Any, tasks: int) -> Any:
    """The live files: for each key, the newest action if it is an `add`.

    `actions` has the columns `ACTION_COLUMNS`.
    """
    window = Window if _is_classic(actions) else _connect_window()
    newest_first = window.partitionBy("key").orderBy(
        F.col("version").desc(), F.col("dataChange").desc(), F.col("add").isNull()
    )
    return (
        actions.repartition(tasks, "key")
        .withColumn("rank", F.row_number().over(newest_first))
        .where("rank = 1 AND add IS NOT NULL")
        .select("add")
    )


def task_numbers(spark: Any, tasks: int) -> Any:
    """A DataFrame with one partition per task; each partition contains the task's number."""
    return spark.range(0, tasks, 1, tasks)


def assign_slices(parts: Sequence[tuple[bytes, int]], tasks: int) -> list[list[bytes]]:
    """Assign slices to tasks, the largest first, each to the task with the least load.

    `parts` are pairs: a serialized slice, and the number of bytes that the slice reads.
    """
    assigned: list[list[bytes]] = [[] for _ in range(tasks)]
    load = [0] * tasks
    for data, size in sorted(parts, key=lambda part: -part[1]):
        task = min(range(tasks), key=load.__getitem__)
        assigned[task].append(data)
        load[task] += size + len(data)
    return assigned


def _is_classic(frame: Any) -> bool:
    return isinstance(frame.sparkSession, SparkSession)


def _connect_window() -> Any:
    from pyspark.sql.connect.window import Window as ConnectWindow

    return ConnectWindow
