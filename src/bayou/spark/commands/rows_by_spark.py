"""Row changes that a Spark plan computes and the kernel writes.

The plan reads the table with each row's file and position. Changed rows are shuffled to tasks by
file and sorted by position, and the kernel writes the files there.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.engines import from_description
from bayou.errors import BayouError
from bayou.kernel import Snapshot
from bayou.kernel.arrow.compute import pc
from bayou.kernel.commands.merge.external_join_merge import multiple_matches_error
from bayou.kernel.commands.row_changes.matched_rows import MatchedRows, MatchedRowsTask
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.deletion_vectors.deleted_rows import to_bitmap
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.scan.scan_file import ScanFile
from bayou.protocol.identifiers import quote_identifier
from bayou.spark.errors import as_bayou_error, readable_errors
from bayou.spark.executors.executor_tasks import (
    TaskResults,
    decode_results,
    encode_result,
    max_task_attempts,
    number_of_tasks,
)
from bayou.spark.executors.jobs import TaggedJobs
from bayou.spark.target import TargetTable
from bayou.spark.write.tasks import task_number

__all__ = [
    "ACTION",
    "FILE",
    "NEW_ROWS",
    "POSITION",
    "SOURCE_ROWS",
    "AppliedRows",
    "RowAction",
    "apply_rows",
    "collect_positions",
    "located_rows",
    "pair_with_files",
]

_concatenated: Any = vars(pa)["concat_batches"]  # its stubs lack it

FILE, POSITION, ACTION = "__bayou_file", "__bayou_position", "__bayou_action"
NEW_ROWS = "~"
"""Prefix of the `FILE` value of new rows, followed by a number; sorts after all file names."""

SOURCE_ROWS = "bayou_source_rows"
"""Name of the observation of a merge's source."""

_RESULT_SCHEMA = "changes binary, taken map<int, bigint>"
_ENCODED, _DECODED = "+", "-"
"""Prefix of a path: percent-encoded (Spark's own reader) or plain (the Python data source)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAction:
    """The change of rows that have its number in `ACTION`; rows with -1 stay unchanged.

    Attributes:
        kind: `update`, `delete` or `insert`.
        columns: the columns of new rows; only for an insert.
    """

    kind: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRows:
    """The combined result of the tasks.

    Attributes:
        changes: the written files and deletion vectors.
        action_counts: number of rows of each action.
        observed: values of the observation `SOURCE_ROWS`; None if the plan has none.
    """

    changes: RowChanges
    action_counts: Counter[int]
    observed: tuple[Any, ...] | None


def located_rows(target: TargetTable, snapshot: Snapshot) -> Any:
    """The rows of a version with `FILE` and `POSITION` as the last columns."""
    options = {**target.options, "versionAsOf": str(snapshot.version)}

    def load(**more_options: str) -> Any:
        reader = target.spark.read.format("delta").options(**options, **more_options)
        return reader.load(target.location)

    frame = load()
    hidden = frame._jdf.queryExecution().analyzed().metadataOutput()  # noqa: SLF001
    prefix = _ENCODED
    if hidden.isEmpty():  # read by the data source, not by Spark's own reader alone
        frame, prefix = load(metadataColumn="true"), _DECODED
    names = [quote_identifier(name) for name in snapshot.schema.names]
    return frame.select(
        *names,
        F.concat(F.lit(prefix), F.col("_metadata.file_path")).alias(FILE),
        F.col("_metadata.row_index").alias(POSITION),
    )


def apply_rows(
    target: TargetTable,
    rows: Any,
    files: Sequence[ScanFile],
    work: MatchedRowsTask,
    actions: Sequence[RowAction],
    *,
    allow_duplicates: bool = True,
) -> AppliedRows:
    """Write the row changes in tasks, without committing.

    Args:
        rows: a DataFrame with `FILE`, `POSITION`, `ACTION` and the columns that actions need.
        files: the files of the version that was read.
        allow_duplicates: whether a row may occur more than once; otherwise that is an error.

    Raises:
        BayouError: a task raised it.
        Exception: a task or Spark raised it. The files of successful tasks have been deleted.
    """
    spark = target.spark
    tasks = number_of_tasks(spark)
    files_by_key = {_file_key(file): file.to_bytes() for file in files}
    shared = spark.sparkContext.broadcast(files_by_key)
    finished = spark.sparkContext.accumulator([], TaskResults())
    applier = _Applier(
        work.to_bytes(),
        target.engine.description(),
        shared,
        tuple(actions),
        allow_duplicates,
        tasks,
        finished,
        max_task_attempts(spark),
    )
    shuffled = rows.repartition(tasks, F.col(FILE)).sortWithinPartitions(FILE, POSITION)
    try:
        with TaggedJobs(spark, f"Change rows of {target.path}").tagged():
            applied = shuffled.mapInArrow(applier, _RESULT_SCHEMA)
            task_rows = applied.collect()
        results, failure = decode_results(row["changes"] for row in task_rows)
        if failure is not None:
            raise failure
    except BaseException as error:
        with contextlib.suppress(BayouError):
            _changes(decode_results(finished.value)[0]).discard(target.engine, target.path)
        task_error = None
        if isinstance(error, Exception):
            task_error = as_bayou_error(error, table=target.path)
        if task_error is None:
            raise
        raise task_error from None
    finally:
        shared.destroy()
    taken: Counter[int] = Counter()
    for row in task_rows:
        taken.update(row["taken"])
    return AppliedRows(
        changes=_changes(results),
        action_counts=taken,
        observed=_observed(applied),
    )


def _observed(frame: Any) -> tuple[Any, ...] | None:
    """Values of the observation `SOURCE_ROWS` of a DataFrame that has run, or None."""
    metrics = frame._jdf.queryExecution().observedMetrics()  # noqa: SLF001  # doesn't block
    observation = metrics.get(SOURCE_ROWS)
    if observation.isEmpty():
        return None
    row = observation.get()
    return tuple(row.get(number) for number in range(row.size()))


def _changes(results: Iterable[bytes]) -> RowChanges:
    return RowChanges.combined(map(RowChanges.from_bytes, results))


@dataclass(frozen=True, slots=True)
class _Applier:
    """The function of a task; can be pickled."""

    work: bytes
    engine: EngineDescription
    files: Any
    actions: tuple[RowAction, ...]
    several: bool
    tasks: int
    finished: Any
    attempts: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with readable_errors():
            groups = _grouped(batches)
            first = next(groups, None)
            if first is None:
                return
            work = MatchedRowsTask.from_bytes(self.work).for_writer(task_number(), self.tasks)
            task_rows = _TaskRows(self, work, itertools.chain([first], groups))

            def run() -> bytes:
                engine = from_description(self.engine)
                return work.run(engine, task_rows.changed(), task_rows.inserted()).to_bytes()

            result = encode_result(run, self.attempts)
            for _ in groups:  # after an error; Spark requires that all input is consumed
                pass
            counts = list(task_rows.taken.items())
            taken: Any = pa.array([counts], pa.map_(pa.int32(), pa.int64()))
            self.finished.add([result])
            changes: Any = pa.array([result], pa.binary())
            yield pa.RecordBatch.from_arrays([changes, taken], ["changes", "taken"])


class _TaskRows:
    """The rows of one task: rows of existing files first, then new rows."""

    def __init__(
        self,
        applier: _Applier,
        work: MatchedRowsTask,
        groups: Iterator[tuple[str, list[pa.RecordBatch]]],
    ) -> None:
        self._files = applier.files.value
        self._actions = applier.actions
        self._several = applier.several
        self._work = work
        self._groups = groups
        self._new: list[tuple[str, list[pa.RecordBatch]]] = []
        self.taken: Counter[int] = Counter()

    def changed(self) -> Iterator[MatchedRows]:
        for key, batches in self._groups:
            if key.startswith(NEW_ROWS):
                self._new.append((key, batches))
                return
            file = ScanFile.from_bytes(self._files[_key(key)])
            file_rows = self._changed_rows(file, batches)
            if file_rows is not None:
                yield file_rows

    def inserted(self) -> Iterator[pa.RecordBatch]:
        for _, batches in itertools.chain(self._new, self._groups):
            for batch in batches:
                yield from self._new_rows(batch)

    def _changed_rows(self, file: ScanFile, batches: list[pa.RecordBatch]) -> MatchedRows | None:
        rows = _concatenated(batches) if len(batches) > 1 else batches[0]
        positions = rows.column(POSITION)
        duplicate = pc.equal(positions.slice(1), positions.slice(0, len(positions) - 1))
        if duplicate.true_count:
            if not self._several:
                raise multiple_matches_error(self._work.state.transaction_state.table)
            first = pa.concat_arrays([pa.array([True]), pc.invert(duplicate)])
            rows = rows.filter(first)
        rows = rows.filter(pc.greater_equal(rows.column(ACTION), 0))
        if rows.num_rows == 0:
            return None
        numbers = rows.column(ACTION)
        for entry in pc.value_counts(numbers).to_pylist():
            self.taken[entry["values"]] += entry["counts"]
        updates = [n for n, action in enumerate(self._actions) if action.kind == "update"]
        updated = pc.is_in(numbers, value_set=pa.array(updates, numbers.type))
        changed = rows.filter(updated)
        updated_positions: Any = changed.column(POSITION).cast(pa.int64())
        return MatchedRows(
            file=file,
            deleted=to_bitmap(rows.filter(pc.invert(updated)).column(POSITION)),
            updated=updated_positions,
            values=changed.select(list(self._work.assigned)),
        )

    def _new_rows(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for number, action in enumerate(self._actions):
            if action.kind != "insert":
                continue
            rows = batch.filter(pc.equal(batch.column(ACTION), number))
            if rows.num_rows:
                yield rows.select(list(action.columns))


def collect_positions(rows: Any) -> dict[str, BitMap64]:
    """Collect the positions of rows with `FILE` and `POSITION` by file, without a shuffle."""
    by_key: dict[str, BitMap64] = {}
    for row in rows.select(FILE, POSITION).mapInArrow(_pack, "file string, rows binary").collect():
        key = _key(row["file"])
        positions = BitMap64.deserialize(bytes(row["rows"]))
        by_key[key] = by_key[key] | positions if key in by_key else positions
    return by_key


def pair_with_files(
    files: Iterable[ScanFile], positions: dict[str, BitMap64]
) -> list[tuple[ScanFile, BitMap64]]:
    """Pair files with the positions of their rows; files without positions are dropped."""
    return [(file, positions[key]) for file in files if (key := _file_key(file)) in positions]


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    positions: dict[str, BitMap64] = {}
    for batch in batches:
        files: Any = batch.column(0)
        for file in files.unique().to_pylist():
            rows = to_bitmap(batch.filter(pc.equal(files, file)).column(1))
            positions[file] = positions[file] | rows if file in positions else rows
    if positions:
        packed: Any = pa.array([rows.serialize() for rows in positions.values()], pa.binary())
        yield pa.RecordBatch.from_arrays([pa.array(list(positions)), packed], ["file", "rows"])


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
    """Group rows by file. Rows of an existing file form one group, new rows several."""
    current: str | None = None
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        files: Any = batch.column(FILE)
        runs = pc.run_end_encode(files)
        start = 0
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            if name != current:
                if pending and current is not None:
                    yield current, pending
                current, pending = name, []
            rows = batch.slice(start, end - start)
            start = end
            if name.startswith(NEW_ROWS):
                yield name, [rows]
            else:
                pending.append(rows)
    if pending and current is not None:
        yield current, pending


def _key(path: str) -> str:
    """Normalize a file's path to a key.

    Args:
        path: the path, prefixed by `_ENCODED` or `_DECODED`.
    """
    prefix, path = path[0], path[1:]
    path = unquote(path) if prefix == _ENCODED else path
    scheme, separator, rest = path.partition(":")
    if path.startswith("/") or not separator:
        return path
    if scheme == "file":
        return "/" + rest.lstrip("/")
    return f"s3:{rest}" if scheme in ("s3", "s3n", "s3a") else path


def _file_key(file: ScanFile) -> str:
    return _key(_DECODED + file.status.path)
