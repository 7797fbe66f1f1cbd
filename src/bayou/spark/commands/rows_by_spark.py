"""Row changes that a Spark plan computes and the kernel writes.

The plan reads the table's rows. It adds the file path and the row index in the file to each row.
The changed rows are partitioned by file and sorted by row index. In the tasks, the kernel writes
data files and deletion vectors.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.engines import from_description
from bayou.errors import BayouError, CommitConflictError
from bayou.kernel import Snapshot
from bayou.kernel.arrow.compute import pc
from bayou.kernel.commands.merge.decisions import multiple_matches_error
from bayou.kernel.commands.row_changes.matched_rows import MatchedRows, MatchedRowsTask
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.deletion_vectors.deleted_rows import to_bitmap
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.scan.scan_file import ScanFile
from bayou.protocol.sql import quote_identifier
from bayou.spark.errors import as_bayou_error, readable_errors
from bayou.spark.executors.executor_tasks import (
    TaskResults,
    decode_results,
    encode_result,
    number_of_tasks,
)
from bayou.spark.executors.jobs import TaggedJobs
from bayou.spark.executors.small_rows import ArrowInput, unmarked, with_small_rows
from bayou.spark.jvm.jobs import max_task_attempts
from bayou.spark.jvm.plans import has_metadata_columns, observed_values
from bayou.spark.read.metadata_column import METADATA, metadata_name
from bayou.spark.target_table import TargetTable
from bayou.spark.target_view import INTERNAL
from bayou.spark.write.self_reads import snapshot_read
from bayou.spark.write.tasks import task_number

ResultT = TypeVar("ResultT")

_MAX_VERSIONS = 5
"""Maximum number of attempts of `run_at_version_read`."""

FILE, POSITION, ACTION = f"{INTERNAL}file", f"{INTERNAL}position", f"{INTERNAL}action"
NEW_ROWS = "~"
"""First character of the column `FILE` in new rows. A number follows.

New rows sort after the rows of existing files; see `_ENCODED` and `_DECODED`.
"""

SOURCE_ROWS = "bayou_source_rows"
"""Name of the observation (`DataFrame.observe`) that counts the source rows of a merge."""

_RESULT_SCHEMA = "changes binary, action_counts map<int, bigint>"
_ENCODED, _DECODED = "+", "-"
"""First character of the column `FILE` in rows of existing files. The file's path follows.

After `_ENCODED`, the path is URL-encoded, as Spark's reader returns it. After `_DECODED`, the path
isn't encoded, as the Python data source returns it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAction:
    """An insert, update or delete of rows.

    In the rows that `apply_rows` gets, the column `ACTION` is an index in a list of these objects.

    Attributes:
        kind: `insert`, `update` or `delete`.
        columns: names of the columns that a MERGE clause sets; empty for other commands. The new
            rows of an insert have exactly these columns.
    """

    kind: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRows:
    """The result of `apply_rows`, combined from the results of its tasks.

    Attributes:
        action_counts: number of changed rows of each action, by the value of the column `ACTION`.
        observed: the values of the observation `SOURCE_ROWS`; None if the plan doesn't have this
            observation.
    """

    changes: RowChanges
    action_counts: Counter[int]
    observed: tuple[Any, ...] | None


def located_rows(target: TargetTable, snapshot: Snapshot) -> Any:
    """Return the rows of a version as a DataFrame that also has the columns `FILE` and `POSITION`.

    `POSITION` is the row index in the file. If the target is a view, the rows have the view's
    columns and the hidden columns of `TargetView.rows` instead of the table's columns.
    """
    options = {**target.options, "versionAsOf": str(snapshot.version)}

    def load(**more_options: str) -> Any:
        reader = target.spark.read.format("delta").options(**options, **more_options)
        return reader.load(target.location)

    frame = load()
    prefix, metadata = _ENCODED, METADATA
    if not has_metadata_columns(frame):  # some rows don't come from Spark's own reader
        frame, prefix = load(metadataColumn="true"), _DECODED
        metadata = metadata_name(snapshot.schema)
    names = [quote_identifier(name) for name in snapshot.schema.names]
    frame = frame.select(
        *names,
        F.concat(F.lit(prefix), F.col(f"{metadata}.file_path")).alias(FILE),
        F.col(f"{metadata}.row_index").alias(POSITION),
    )
    return frame if target.view is None else target.view.rows(frame, (FILE, POSITION))


def user_columns(rows: Any) -> Any:
    """Return a DataFrame of `located_rows` without its internal columns, such as `FILE`."""
    return rows.drop(*(name for name in rows.columns if name.startswith(INTERNAL)))


class _OtherVersionReadError(Exception):
    """Raised if an operation must be based on another version of the table; see `snapshot_read`."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot.version)
        self.snapshot = snapshot


def run_at_version_read(snapshot: Snapshot, run: Callable[[Snapshot], ResultT]) -> ResultT:
    """Run an operation on the oldest version of the table that its subqueries read.

    Args:
        snapshot: the version for the first attempt.
        run: function that runs the operation on a version. The function must call
            `check_version_read` before it changes rows. If this check fails, `run` is called again
            with the oldest version that the subqueries have read.

    Raises:
        CommitConflictError: in every attempt, the subqueries read another version than the
            operation.
    """
    read = snapshot
    for _ in range(_MAX_VERSIONS):
        try:
            return run(read)
        except _OtherVersionReadError as error:
            read = error.snapshot
    raise CommitConflictError(
        f"{snapshot.path}: the operation and its subqueries read different versions in each of "
        f"{_MAX_VERSIONS} attempts, because other writers committed in between (latest version: "
        f"{read.version}). Nothing was changed. Repeat the operation when fewer writers are "
        "active.",
        table=snapshot.path,
        winning_version=read.version,
    )


def check_version_read(target: TargetTable, snapshot: Snapshot, *frames: Any) -> None:
    """Check that `snapshot` is the oldest version of the table that an operation's DataFrames read.

    The check passes if no DataFrame reads the table. If the check fails, an internal error is
    raised, which `run_at_version_read` handles.
    """
    read = snapshot_read(target.engine, snapshot, *frames)
    if read is not snapshot:
        raise _OtherVersionReadError(read)


def apply_rows(
    target: TargetTable,
    rows: Any,
    files: Sequence[ScanFile],
    task: MatchedRowsTask,
    actions: Sequence[RowAction],
    *,
    allow_duplicates: bool = True,
) -> AppliedRows:
    """Write data files and deletion vectors for changed rows in Spark tasks, without a commit.

    If a task fails, the files that other tasks have written are deleted, and the error is raised.

    Args:
        rows: a DataFrame with the columns `FILE`, `POSITION`, `ACTION` (index in `actions`, or -1
            for no change), and the columns of updated and inserted rows.
        files: the files whose paths occur in `FILE`.
        task: the kernel's task, which writes the files.
        actions: the actions to which `ACTION` refers.
        allow_duplicates: whether several rows may have the same `FILE` and `POSITION`. If true, the
            first of these rows is applied. If false, `MultipleMatchesError` is raised.
    """
    tasks = number_of_tasks(target.spark)
    shuffled = rows.repartition(tasks, F.col(FILE)).sortWithinPartitions(FILE, POSITION)

    def run(arrow_rows: ArrowInput) -> AppliedRows:
        return _apply(target, arrow_rows, files, task, tuple(actions), allow_duplicates, tasks)

    return with_small_rows(shuffled, target.path, run)


def _apply(  # noqa: PLR0917  # the arguments of `apply_rows`
    target: TargetTable,
    rows: ArrowInput,
    files: Sequence[ScanFile],
    task: MatchedRowsTask,
    actions: tuple[RowAction, ...],
    allow_duplicates: bool,
    tasks: int,
) -> AppliedRows:
    spark = target.spark
    files_by_key = {_file_key(file): file.to_bytes() for file in files}
    broadcast = spark.sparkContext.broadcast(files_by_key)
    finished = spark.sparkContext.accumulator([], TaskResults())
    applier = _Applier(
        task.to_bytes(),
        target.engine.description(),
        broadcast,
        actions,
        allow_duplicates,
        tasks,
        finished,
        max_task_attempts(spark),
    )
    try:
        with TaggedJobs(spark, f"Change rows of {target.path}").tagged():
            applied = rows.map(applier, _RESULT_SCHEMA)
            task_rows = rows.collect(applied)
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
        broadcast.destroy()
    action_counts: Counter[int] = Counter()
    for row in task_rows:
        action_counts.update(row["action_counts"])
    return AppliedRows(
        changes=_changes(results),
        action_counts=action_counts,
        observed=observed_values(applied, SOURCE_ROWS),
    )


def _changes(results: Iterable[bytes]) -> RowChanges:
    return RowChanges.combined(map(RowChanges.from_bytes, results))


@dataclass(frozen=True, slots=True)
class _Applier:
    """Function for `mapInArrow` that writes the row changes of one Spark task."""

    task: bytes
    engine: EngineDescription
    files: Any
    actions: tuple[RowAction, ...]
    allow_duplicates: bool
    tasks: int
    finished: Any
    attempts: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with readable_errors():
            rows = (batch for batch in batches if batch.num_rows)
            first = next(rows, None)
            if first is None:
                return
            groups = _grouped(unmarked(itertools.chain([first], rows)))
            task = MatchedRowsTask.from_bytes(self.task).for_writer(task_number(), self.tasks)
            task_rows = _TaskRows(self, task, groups)

            def run() -> bytes:
                engine = from_description(self.engine)
                return task.run(engine, task_rows.changed(), task_rows.inserted()).to_bytes()

            result = encode_result(run, self.attempts)
            for _ in rows:  # Spark requires that all input is consumed, also after an error
                pass
            pairs = list(task_rows.action_counts.items())
            counts: Any = pa.array([pairs], pa.map_(pa.int32(), pa.int64()))
            self.finished.add([result])
            changes: Any = pa.array([result], pa.binary())
            yield pa.RecordBatch.from_arrays([changes, counts], ["changes", "action_counts"])


class _TaskRows:
    """The rows of one task. Rows of existing files (`changed`) precede new rows (`inserted`)."""

    def __init__(
        self,
        applier: _Applier,
        task: MatchedRowsTask,
        groups: Iterator[tuple[str, list[pa.RecordBatch]]],
    ) -> None:
        self._files = applier.files.value
        self._actions = applier.actions
        self._allow_duplicates = applier.allow_duplicates
        self._task = task
        self._groups = groups
        self._new: list[tuple[str, list[pa.RecordBatch]]] = []
        self.action_counts: Counter[int] = Counter()

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
        rows = pa.Table.from_batches(batches)
        positions = _column(rows, POSITION)
        duplicate = pc.equal(positions.slice(1), positions.slice(0, len(positions) - 1))
        if duplicate.true_count:
            if not self._allow_duplicates:
                raise multiple_matches_error(self._task.state.transaction_state.table)
            first = pa.concat_arrays([pa.array([True]), pc.invert(duplicate)])
            rows = rows.filter(first)
        rows = _filtered(rows, pc.greater_equal(_column(rows, ACTION), 0))
        if rows.num_rows == 0:
            return None
        numbers = _column(rows, ACTION)
        for entry in pc.value_counts(numbers).to_pylist():
            self.action_counts[entry["values"]] += entry["counts"]
        updates = [n for n, action in enumerate(self._actions) if action.kind == "update"]
        updated = pc.is_in(numbers, value_set=pa.array(updates, numbers.type))
        changed = _filtered(rows, updated)
        updated_positions: Any = _column(changed, POSITION).cast(pa.int64())
        return MatchedRows(
            file=file,
            deleted=to_bitmap(_column(rows, POSITION).filter(pc.invert(updated))),
            updated=updated_positions,
            values=changed.select(list(self._task.assigned)),
        )

    def _new_rows(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for number, action in enumerate(self._actions):
            if action.kind != "insert":
                continue
            rows = batch.filter(pc.equal(batch.column(ACTION), number))
            if rows.num_rows:
                yield rows.select(list(action.columns))


def collect_positions(rows: Any, *, table: str) -> dict[str, BitMap64]:
    """Collect the row indexes of `rows` in the driver, without a shuffle.

    Args:
        rows: a DataFrame with the columns `FILE` and `POSITION` (the row index in the file).

    Returns:
        The row indexes in each file, by normalized file path.
    """
    packed = rows.select(FILE, POSITION).mapInArrow(_pack, "file string, rows binary")
    try:
        collected = packed.collect()
    except Exception as error:
        task_error = as_bayou_error(error, table=table)
        if task_error is None:
            raise
        raise task_error from None
    by_key: dict[str, BitMap64] = {}
    for row in collected:
        key = _key(row["file"])
        positions = BitMap64.deserialize(bytes(row["rows"]))
        by_key[key] = by_key[key] | positions if key in by_key else positions
    return by_key


def pair_with_files(
    files: Iterable[ScanFile], positions: dict[str, BitMap64]
) -> list[tuple[ScanFile, BitMap64]]:
    """Return the files that have row indexes in `positions`, each with its row indexes.

    Args:
        positions: the result of `collect_positions`.
    """
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
    """Group rows by the column `FILE`, and drop this column.

    The input is sorted by `FILE`. All changed rows of a file form one group, even if they are in
    several batches. New rows of different batches are in different groups.
    """
    current: str | None = None
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        files: Any = batch.column(FILE)
        runs = pc.run_end_encode(files)
        others = batch.drop_columns([FILE])
        start = 0
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            if name != current:
                if pending and current is not None:
                    yield current, pending
                current, pending = name, []
            rows = others.slice(start, end - start)
            start = end
            if name.startswith(NEW_ROWS):
                yield name, [rows]
            else:
                pending.append(rows)
    if pending and current is not None:
        yield current, pending


def _column(rows: pa.Table, name: str) -> Any:
    """Return a column of numbers as one array."""
    return rows.column(name).combine_chunks()


def _filtered(rows: pa.Table, mask: Any) -> pa.Table:
    return rows if mask.true_count == len(mask) else rows.filter(mask)


def _key(path: str) -> str:
    """Return the normalized path of a value of the column `FILE`.

    Spark and Bayou can write the same path differently, such as `s3a://` and `s3://`.
    """
    prefix, path = path[0], path[1:]
    path = unquote(path) if prefix == _ENCODED else path
    scheme, separator, location = path.partition(":")
    if path.startswith("/") or not separator:
        return path
    if scheme == "file":
        return "/" + location.lstrip("/")
    return f"s3:{location}" if scheme in ("s3", "s3n", "s3a") else path


def _file_key(file: ScanFile) -> str:
    return _key(_DECODED + file.status.path)
