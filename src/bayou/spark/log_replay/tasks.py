"""Executor tasks of distributed log replay.

The methods of the classes are functions for `mapInArrow`. Spark pickles the instances with the job,
and broadcasts large pickles. For a log with many commits, `reconcile` replays the log with a window
function.
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
from bayou.spark.executors.executor_tasks import (
    concatenated,
    decode_batch,
    encode_batch,
    split_by_size,
)

RESULT_COLUMNS = "batch binary, files bigint, sample binary, error binary"
"""Columns of the result of a task.

If the task succeeds, a row has a serialized batch of scan files, the number of files in the batch,
and a sample of their sort keys. If the task fails, a row has a pickled error.
"""

ORDERED_COLUMNS = "bucket int, batch binary"

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
"""Approximate number of sort keys in the sample of a batch.

The samples of all batches determine the bounds of the sort buckets.
"""

_BATCH_FILES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FileTasks:
    """Base class of tasks that yield scan files (`ScanFileBatch`).

    The class has no `repr` of its fields, because `engine` contains credentials.

    Attributes:
        scan: the serialized `Scan`, whose filter is applied to the files.
        sampled: whether the output of `results` contains samples of the files' sort keys.
    """

    engine: EngineDescription
    scan: bytes
    sampled: bool = False

    def results(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the files as rows of `RESULT_COLUMNS`."""
        return _results(self._batches(rows), sampled=self.sampled)

    def adds(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row for each file: its `add` action in a column of the type `ADD_COLUMN`."""
        for batch in self._batches(rows):
            yield batch.selected().select(["add"])

    def counts(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row with the number of files."""
        count = sum(batch.num_selected for batch in self._batches(rows))
        yield _row_of(files=pa.array([count], pa.int64()))

    def _batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[ScanFileBatch]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SliceTasks(FileTasks):
    """Tasks that replay slices of a log. A slice can be replayed without the rest of the log.

    The input rows are the indexes of tasks in `tasks`.

    Attributes:
        tasks: the serialized `LogSlice`s of each task.
    """

    tasks: Sequence[Sequence[bytes]]

    def _batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[ScanFileBatch]:
        engine, scan = from_description(self.engine), Scan.from_bytes(self.scan)
        for number in _read_numbers(rows):
            for data in self.tasks[number]:
                for batch in scan.replay_slice(engine, LogSlice.from_bytes(data)):
                    yield _projected(scan, batch)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ActionTasks:
    """Tasks that read the file actions of a log, without reconciliation.

    Attributes:
        actions: the serialized `FileActions`.
        tasks: the serialized `ActionSlice`s of each task.
    """

    engine: EngineDescription
    actions: bytes
    tasks: Sequence[Sequence[bytes]]

    def rows(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the file actions in the slices of some tasks, as rows of `ACTION_COLUMNS`.

        Args:
            numbers: batches of indexes in `tasks`; see `task_numbers`.
        """
        engine, actions = from_description(self.engine), FileActions.from_bytes(self.actions)
        for number in _read_numbers(numbers):
            for data in self.tasks[number]:
                yield from actions.read(engine, ActionSlice.from_bytes(data))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FrameTasks(FileTasks):
    """Tasks that create scan files from a DataFrame's column `add`; null values are skipped."""

    def _batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[ScanFileBatch]:
        engine, scan = from_description(self.engine), Scan.from_bytes(self.scan)
        for batch in rows:
            adds = batch.column(batch.schema.get_field_index("add")).drop_null()
            if len(adds):
                for files in scan.prune(engine, _as_adds(adds)):
                    yield _projected(scan, files)


@dataclass(frozen=True, slots=True)
class SplitByBound:
    """Function for `mapInArrow` that splits batches of scan files by sort bucket.

    A bucket contains the files whose sort keys are in one range.

    Attributes:
        bounds: the smallest sort key (modificationTime, path) of each bucket except the first one,
            in ascending order.
    """

    bounds: Sequence[tuple[int, str]]

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Split each batch by bucket; yield a row of `ORDERED_COLUMNS` for each part of a batch."""
        for batch in rows:
            for data in batch.column("batch"):
                if not data.is_valid:
                    continue
                files = _sorted_files(decode_batch(data.as_py()))
                boundaries = [0, *_bound_positions(files, self.bounds), files.num_rows]
                for bucket, (start, end) in enumerate(itertools.pairwise(boundaries)):
                    if start < end:
                        yield _row_of(
                            bucket=pa.array([bucket], pa.int32()),
                            batch=pa.array(
                                [encode_batch(files.slice(start, end - start))], pa.binary()
                            ),
                        )


class SortBuckets:
    """Function for `mapInArrow` that sorts the files of each bucket.

    All rows of a bucket are in the same partition.
    """

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sort the files of each bucket; yield rows of `ORDERED_COLUMNS` in order."""
        buckets: dict[int, list[pa.RecordBatch]] = {}
        for batch in rows:
            numbers: list[Any] = batch.column("bucket").to_pylist()
            for bucket, data in zip(numbers, batch.column("batch"), strict=True):
                buckets.setdefault(bucket, []).append(decode_batch(data.as_py()))
        for bucket in sorted(buckets):
            files = _sorted_files(concatenated(buckets.pop(bucket)))
            for start in range(0, files.num_rows, _BATCH_FILES):
                yield _row_of(
                    bucket=pa.array([bucket], pa.int32()),
                    batch=pa.array([encode_batch(files.slice(start, _BATCH_FILES))], pa.binary()),
                )


def sort_keys(files: pa.RecordBatch) -> pa.RecordBatch:
    """Return the sort keys of scan files: `modificationTime` (0 if null) and the path."""
    adds: Any = files.column("add")
    return pa.RecordBatch.from_arrays(
        [
            pc.fill_null(pc.struct_field(adds, "modificationTime"), 0),
            path_order(pc.struct_field(adds, "path")),
        ],
        names=["modificationTime", "path"],
    )


def sort_indexes(keys: pa.RecordBatch) -> Any:
    """Return the indexes that put the result of `sort_keys` in ascending order."""
    by = [("modificationTime", "ascending"), ("path", "ascending")]
    return pc.sort_indices(keys, sort_keys=by)


def _projected(scan: Scan, batch: ScanFileBatch) -> ScanFileBatch:
    """Remove statistics that the scan doesn't request, because they are large."""
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
    """Return, for each bound, the index of the first file whose sort key is at or above the bound.

    `files` and `bounds` are sorted in ascending order.
    """
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
            sample = None
            if sampled:
                sampled_rows = range(0, files.num_rows, max(1, files.num_rows // _SAMPLES))
                sample = encode_batch(sort_keys(files.take(pa.array(sampled_rows))))
            yield _row_of(
                batch=pa.array([encode_batch(files)], pa.binary()),
                files=pa.array([files.num_rows], pa.int64()),
                sample=pa.array([sample], pa.binary()),
                error=pa.nulls(1, pa.binary()),
            )
    except (CorruptTableError, UnsupportedFeatureError) as error:
        # Spark would retry a task that raises this error. The driver gets the error instead.
        yield _row_of(
            batch=pa.nulls(1, pa.binary()),
            files=pa.array([0], pa.int64()),
            sample=pa.nulls(1, pa.binary()),
            error=pa.array([pickle.dumps(error)], pa.binary()),
        )


def _row_of(**columns: pa.Array[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _read_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        numbers: list[Any] = batch.column(0).to_pylist()
        yield from numbers


def _as_adds(adds: Any) -> pa.StructArray:
    """Cast `add` structs from Spark to `ADD_TYPE`; missing fields become null.

    The cast is necessary because the fields within maps have other names in Spark than in
    `ADD_TYPE`.
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
"""Approximate total size of a task's log slices in bytes: about 40,000 files in a checkpoint."""


def reconcile(spark: Any, engine: Engine, snapshot: Snapshot, scan: Scan, tasks: int) -> Any:
    """Return the live files of a version as a DataFrame with the column `add`.

    A window function selects the newest action for each log-replay key (path and deletion vector).
    If the newest version has several actions for a key, an action with `dataChange` is preferred.
    If the selected action is an `add`, the file is live.

    The filter of the scan isn't applied to the actions. The filter could remove the newest of
    several `add` actions for a key, and the window function would then select an older one.

    Args:
        scan: a scan of the snapshot. The scan determines the fields of `add`.
        tasks: number of tasks that read actions. With many commits, the window function has more
            tasks.
    """
    actions = FileActions.for_version(snapshot, scan)
    parts = [(part.to_bytes(), part.estimated_bytes) for part in actions.slices(engine, tasks)]
    function = ActionTasks(
        engine=engine.description(), actions=actions.to_bytes(), tasks=assign_slices(parts, tasks)
    )
    rows = task_numbers(spark, tasks).mapInArrow(function.rows, ACTION_COLUMNS)
    return newest_adds(rows, max(tasks, tail_bytes(snapshot) // TASK_BYTES))


def newest_adds(actions: Any, tasks: int) -> Any:
    """Return the newest action for each log-replay key, if this action is an `add`.

    Args:
        actions: a DataFrame of `ACTION_COLUMNS`.
        tasks: number of tasks of the window function.
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
    """Return a DataFrame of task indexes. Each task has one partition with one row."""
    return spark.range(0, tasks, 1, tasks)


def assign_slices(parts: Sequence[tuple[bytes, int]], tasks: int) -> list[list[bytes]]:
    """Distribute slices over tasks, so that all tasks read about the same number of bytes.

    Args:
        parts: (serialized slice, number of bytes that the slice reads) of each slice.

    Returns:
        The serialized slices of each task.
    """
    chunks = split_by_size(parts, lambda part: part[1] + len(part[0]), tasks)
    assigned = [[data for data, _ in chunk] for chunk in chunks]
    return assigned + [[] for _ in range(tasks - len(chunks))]


def _is_classic(frame: Any) -> bool:
    return isinstance(frame.sparkSession, SparkSession)


def _connect_window() -> Any:
    from pyspark.sql.connect.window import Window as ConnectWindow

    return ConnectWindow
