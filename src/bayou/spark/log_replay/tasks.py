"""What runs on executors: parts of a log become scan files, or actions to be reconciled.

Functions for `mapInArrow` over a DataFrame of task numbers (or of cells): they are pickled with
what they need, which Spark broadcasts where it is large.

State reconstruction by Spark alone: all actions, brought together by key, the newest counts.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody has it

from bayou.engines import from_description
from bayou.errors import CorruptTableError, UnsupportedFeatureError
from bayou.kernel import Engine, EngineDescription, FilteredColumnarBatch, LogSlice, Scan, Snapshot
from bayou.kernel.log.file_actions import ActionSlice, FileActions, tail_bytes
from bayou.kernel.scan.scan_file import ADD_TYPE, ScanFileBatch
from bayou.kernel.table_changes.change_plan import path_order
from bayou.kernel.table_changes.commit_files import without_statistics
from bayou.spark.executors.executor_tasks import from_cell, in_one, to_cell

__all__ = [
    "ACTION_COLUMNS",
    "ADD_COLUMN",
    "ORDERED_COLUMNS",
    "RESULT_COLUMNS",
    "TASK_BYTES",
    "ActionTasks",
    "Merge",
    "PackFrame",
    "SliceTasks",
    "Split",
    "dealt",
    "ordered",
    "reconciled",
    "sort_keys",
    "task_numbers",
]


pc: Any = pyarrow.compute

RESULT_COLUMNS = "cell binary, files bigint, bytes bigint, sample binary, error binary"
"""A batch of scan files; how many, and their size; keys of some of them; or a pickled error."""

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
"""Keys that stand for a batch; the buckets of a sort are cut by them."""

_CELL_FILES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SliceTasks:
    """Tasks that replay slices of a log; holds credentials, so it has no repr.

    Attributes:
        engine: how to reach the store.
        scan: the `Scan`.
        tasks: `LogSlice`s of each task.
        sampled: whether keys of the files are wanted, to sort by.
    """

    engine: EngineDescription
    scan: bytes
    tasks: Sequence[Sequence[bytes]]
    sampled: bool = False

    def cells(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `RESULT_COLUMNS`."""
        return _results(self._batches(numbers), sampled=self.sampled)

    def adds(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `ADD_COLUMN`."""
        for batch in self._batches(numbers):
            yield _add_column(batch.selected())

    def counts(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """How many files each batch has."""
        return _counts(self._batches(numbers))

    def _batches(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[ScanFileBatch]:
        engine, scan = from_description(self.engine), Scan.from_bytes(self.scan)
        for number in _numbers(numbers):
            for data in self.tasks[number]:
                for batch in scan.replay_slice(engine, LogSlice.from_bytes(data)):
                    yield _wanted(scan, batch)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ActionTasks:
    """Tasks that read actions which are reconciled afterwards; has no repr, see `SliceTasks`.

    Attributes:
        engine: how to reach the store.
        actions: the `FileActions`.
        tasks: `ActionSlice`s of each task.
    """

    engine: EngineDescription
    actions: bytes
    tasks: Sequence[Sequence[bytes]]

    def rows(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `ACTION_COLUMNS`."""
        engine, actions = from_description(self.engine), FileActions.from_bytes(self.actions)
        for number in _numbers(numbers):
            for data in self.tasks[number]:
                yield from actions.read(engine, ActionSlice.from_bytes(data))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PackFrame:
    """Scan files out of a DataFrame with a column `add`; rows where it is null are left out.

    Attributes:
        engine: how to reach the store.
        scan: the `Scan` whose filter applies.
        sampled: see `SliceTasks`.
    """

    engine: EngineDescription
    scan: bytes
    sampled: bool = False

    def cells(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `RESULT_COLUMNS`."""
        return _results(self._batches(rows), sampled=self.sampled)

    def adds(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `ADD_COLUMN`."""
        for batch in self._batches(rows):
            yield _add_column(batch.selected())

    def counts(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """How many files each batch has."""
        return _counts(self._batches(rows))

    def _batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[ScanFileBatch]:
        engine, scan = from_description(self.engine), Scan.from_bytes(self.scan)
        for batch in rows:
            adds = batch.column(batch.schema.get_field_index("add")).drop_null()
            if len(adds):
                for found in scan.prune(engine, _as_adds(adds)):
                    yield _wanted(scan, found)


@dataclass(frozen=True, slots=True)
class Split:
    """Cuts cells at the bounds of buckets.

    Attributes:
        bounds: ascending (modificationTime, path) of the first file of each bucket but the first.
    """

    bounds: Sequence[tuple[int, str]]

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `ORDERED_COLUMNS`, one for each bucket that a cell has files of."""
        for batch in rows:
            for cell in batch.column("cell"):
                if not cell.is_valid:
                    continue
                found = _ordered(from_cell(cell.as_py()))
                places = [0, *_places(found, self.bounds), found.num_rows]
                for bucket, (start, end) in enumerate(itertools.pairwise(places)):
                    if start < end:
                        yield _row_of(
                            bucket=pa.array([bucket], pa.int32()),
                            cell=pa.array([to_cell(found.slice(start, end - start))], pa.binary()),
                        )


class Merge:
    """Sorts the cells of each bucket; a partition has the cells of one bucket, or of none."""

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `ORDERED_COLUMNS`, in order."""
        buckets: dict[int, list[pa.RecordBatch]] = {}
        for batch in rows:
            numbers: list[Any] = batch.column("bucket").to_pylist()
            for bucket, cell in zip(numbers, batch.column("cell"), strict=True):
                buckets.setdefault(bucket, []).append(from_cell(cell.as_py()))
        for bucket in sorted(buckets):
            found = _ordered(in_one(buckets.pop(bucket)))
            for start in range(0, found.num_rows, _CELL_FILES):
                yield _row_of(
                    bucket=pa.array([bucket], pa.int32()),
                    cell=pa.array([to_cell(found.slice(start, _CELL_FILES))], pa.binary()),
                )


def sort_keys(files: pa.RecordBatch) -> pa.RecordBatch:
    """What scan files are ordered by: `modificationTime`, null as 0, and the path's own order."""
    adds: Any = files.column("add")
    return pa.RecordBatch.from_arrays(
        [
            pc.fill_null(pc.struct_field(adds, "modificationTime"), 0),
            path_order(pc.struct_field(adds, "path")),
        ],
        names=["modificationTime", "path"],
    )


def ordered(keys: pa.RecordBatch) -> Any:
    """Places of `sort_keys` in their order."""
    by = [("modificationTime", "ascending"), ("path", "ascending")]
    return pc.sort_indices(keys, sort_keys=by)


def _wanted(scan: Scan, batch: ScanFileBatch) -> ScanFileBatch:
    """Without the statistics that nobody asked for: they would be most of what travels."""
    if scan.definition.statistics:
        return batch
    files = batch.data
    adds: Any = files.column("add")
    assert isinstance(adds, pa.StructArray)
    columns = [without_statistics(adds), files.column("tableRoot")]
    return ScanFileBatch(pa.RecordBatch.from_arrays(columns, schema=files.schema), batch.selection)


def _ordered(files: pa.RecordBatch) -> pa.RecordBatch:
    return files.take(ordered(sort_keys(files)))


def _places(files: pa.RecordBatch, bounds: Sequence[tuple[int, str]]) -> list[int]:
    """For each bound the first of the ordered files that isn't before it."""
    keys = sort_keys(files)
    times, paths = keys.column(0), keys.column(1)
    places: list[int] = []
    for time, path in bounds:
        low, high = places[-1] if places else 0, files.num_rows
        encoded = path.encode()
        while low < high:
            middle = (low + high) // 2
            at = times[middle].as_py()
            if (at, paths[middle].as_py().encode() if at == time else b"") < (time, encoded):
                low = middle + 1
            else:
                high = middle
        places.append(low)
    return places


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
                some = range(0, files.num_rows, max(1, files.num_rows // _SAMPLES))
                sample = to_cell(sort_keys(files.take(pa.array(some))))
            yield _row_of(
                cell=pa.array([to_cell(files)], pa.binary()),
                files=pa.array([files.num_rows], pa.int64()),
                bytes=pa.array([pc.sum(sizes).as_py() or 0], pa.int64()),
                sample=pa.array([sample], pa.binary()),
                error=pa.nulls(1, pa.binary()),
            )
    except (CorruptTableError, UnsupportedFeatureError) as error:
        # Trying again doesn't help, and the driver wants it whole.
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


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        numbers: list[Any] = batch.column(0).to_pylist()
        yield from numbers


def _add_column(files: pa.RecordBatch) -> pa.RecordBatch:
    return files.select(["add"])


def _as_adds(adds: Any) -> pa.StructArray:
    """The struct with exactly the fields of `ADD_TYPE`: Spark's Arrow names parts of maps anew."""
    have = {f.name: i for i, f in enumerate(adds.type)}
    columns = [
        adds.field(have[f.name]).cast(f.type) if f.name in have else pa.nulls(len(adds), f.type)
        for f in ADD_TYPE
    ]
    return pa.StructArray.from_arrays(columns, fields=list(ADD_TYPE))


TASK_BYTES = 4 * 1024 * 1024
"""About how much of a log a task replays: 40,000 files of a checkpoint."""


def reconciled(spark: Any, engine: Engine, snapshot: Snapshot, scan: Scan, tasks: int) -> Any:
    """The live files of a version, a DataFrame with one struct column `add`.

    Of all actions on a file (path and deletion vector) that of the newest version counts, of
    several in one version one that changes data. Removes are among them: an add that was removed
    would be the newest one else, and come back. The scan's filter isn't applied: an older add must
    not take the place of a newer one that the filter leaves out.

    Args:
        scan: of the snapshot; says which fields of `add` are wanted.
        tasks: of the reading; the window has more where the tail is long.
    """
    actions = FileActions.of(snapshot, scan)
    parts = [(part.to_bytes(), part.estimated_bytes) for part in actions.slices(engine, tasks)]
    function = ActionTasks(
        engine=engine.description(), actions=actions.to_bytes(), tasks=dealt(parts, tasks)
    )
    rows = task_numbers(spark, tasks).mapInArrow(function.rows, ACTION_COLUMNS)
    return newest(rows, max(tasks, tail_bytes(snapshot) // TASK_BYTES))


def newest(actions: Any, tasks: int) -> Any:
    """The live files out of a DataFrame of actions: `key`, `version`, `dataChange`, `add`."""
    window = Window if _is_classic(actions) else _connect_window()
    newest_first = window.partitionBy("key").orderBy(
        F.col("version").desc(), F.col("dataChange").desc(), F.col("add").isNull()
    )
    return (
        actions.repartition(tasks, "key")
        .withColumn("place", F.row_number().over(newest_first))
        .where("place = 1 AND add IS NOT NULL")
        .select("add")
    )


def task_numbers(spark: Any, tasks: int) -> Any:
    """A DataFrame of as many partitions, each with its number."""
    return spark.range(0, tasks, 1, tasks)


def dealt(parts: Sequence[tuple[bytes, int]], tasks: int) -> list[list[bytes]]:
    """Parts of a log dealt out to tasks, the largest first, each to the one that has least.

    Args:
        parts: serialized, with their bytes.
    """
    shares: list[list[bytes]] = [[] for _ in range(tasks)]
    load = [0] * tasks
    for data, size in sorted(parts, key=lambda part: -part[1]):
        least = min(range(tasks), key=load.__getitem__)
        shares[least].append(data)
        load[least] += size + len(data)
    return shares


def _is_classic(frame: Any) -> bool:
    return isinstance(frame.sparkSession, SparkSession)


def _connect_window() -> Any:
    from pyspark.sql.connect.window import Window as ConnectWindow

    return ConnectWindow
