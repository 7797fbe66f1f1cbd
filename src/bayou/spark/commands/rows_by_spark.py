"""Rows that a plan of Spark finds, and new values that it computes, put into files by the kernel.

The table is read with each row's file and position; whatever Spark can run decides. Rows that
change go to tasks by their file, in the order of their positions, and the kernel takes it from
there.
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
import pyarrow.compute
from pyroaring import BitMap64
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from bayou.engines import from_description
from bayou.errors import BayouError
from bayou.kernel import Snapshot
from bayou.kernel.commands.merge.external_join_merge import several_matches
from bayou.kernel.commands.row_changes.matched_rows import FoundRows, FoundRowsWork
from bayou.kernel.commands.row_changes.result import RowChanges
from bayou.kernel.deletion_vectors.deleted_rows import bitmap
from bayou.kernel.engine.engine import EngineDescription
from bayou.kernel.scan.scan_file import ScanFile
from bayou.spark.errors import as_bayou_error, readable_errors
from bayou.spark.executors.executor_tasks import (
    Outcomes,
    attempts_of_tasks,
    done_by,
    number_of_tasks,
    reported,
)
from bayou.spark.executors.jobs import ReplayJobs
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
    "by_file",
    "found_positions",
    "located_rows",
]

pc: Any = pyarrow.compute
_concatenated: Any = vars(pa)["concat_batches"]  # its stubs lack it

FILE, POSITION, ACTION = "__bayou_file", "__bayou_position", "__bayou_action"
NEW_ROWS = "~"
"""What stands for the file of a new row, with a number behind it: behind all names of files."""

SOURCE_ROWS = "bayou_source_rows"
"""The name of what is observed of a merge's source while it is read."""

_OUTCOME = "changes binary, taken map<int, bigint>"
_ENCODED, _DECODED = "+", "-"
"""How a path is spelled: percent-encoded by Spark's own reader, or plain by the data source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAction:
    """What happens to rows that have its number in `ACTION`; those with -1 stay.

    Attributes:
        kind: `update`, `delete` or `insert`.
        columns: that a new row brings; of an insert only.
    """

    kind: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRows:
    """What tasks have done.

    Attributes:
        changes: what was written.
        taken: how many rows each action took.
        observed: what the plan computed as `SOURCE_ROWS`; None where it did not.
    """

    changes: RowChanges
    taken: Counter[int]
    observed: tuple[Any, ...] | None


def located_rows(target: TargetTable, snapshot: Snapshot) -> Any:
    """The rows of a version, each with `FILE` and `POSITION`, the other columns first."""
    options = {**target.options, "versionAsOf": str(snapshot.version)}

    def load(**more: str) -> Any:
        reader = target.spark.read.format("delta").options(**options, **more)
        return reader.load(target.location)

    frame = load()
    hidden = frame._jdf.queryExecution().analyzed().metadataOutput()  # noqa: SLF001
    sign = _ENCODED
    if hidden.isEmpty():  # the data source, or rows that are read by both
        frame, sign = load(metadataColumn="true"), _DECODED
    names = ["`" + name.replace("`", "``") + "`" for name in snapshot.schema.names]
    return frame.select(
        *names,
        F.concat(F.lit(sign), F.col("_metadata.file_path")).alias(FILE),
        F.col("_metadata.row_index").alias(POSITION),
    )


def apply_rows(
    target: TargetTable,
    rows: Any,
    files: Sequence[ScanFile],
    work: FoundRowsWork,
    actions: Sequence[RowAction],
    *,
    several: bool = True,
) -> AppliedRows:
    """Have tasks put rows into files. Nothing is committed.

    Args:
        rows: a DataFrame with `FILE`, `POSITION`, `ACTION` and the columns that actions need.
        files: of the version that was read.
        several: a row may be there more than once; else that is an error.

    Raises:
        BayouError: one of ours that a task raised.
        Exception: another that a task raised, or as Spark throws it. What tasks that succeeded
            wrote has been deleted.
    """
    spark = target.spark
    tasks = number_of_tasks(spark)
    known = {_key_of(file): file.to_bytes() for file in files}
    shared = spark.sparkContext.broadcast(known)
    finished = spark.sparkContext.accumulator([], Outcomes())
    applier = _Applier(
        work.to_bytes(),
        target.engine.description(),
        shared,
        tuple(actions),
        several,
        tasks,
        finished,
        attempts_of_tasks(spark),
    )
    placed = rows.repartition(tasks, F.col(FILE)).sortWithinPartitions(FILE, POSITION)
    try:
        with ReplayJobs(spark, f"Change rows of {target.path}").named():
            applied = placed.mapInArrow(applier, _OUTCOME)
            outcomes = applied.collect()
        done, failure = done_by(row["changes"] for row in outcomes)
        if failure is not None:
            raise failure
    except BaseException as error:
        with contextlib.suppress(BayouError):
            _changes(done_by(finished.value)[0]).discard(target.engine, target.path)
        ours = None
        if isinstance(error, Exception):
            ours = as_bayou_error(error, table=target.path)
        if ours is None:
            raise
        raise ours from None
    finally:
        shared.destroy()
    taken: Counter[int] = Counter()
    for row in outcomes:
        taken.update(row["taken"])
    return AppliedRows(
        changes=_changes(done),
        taken=taken,
        observed=_observed(applied),
    )


def _observed(frame: Any) -> tuple[Any, ...] | None:
    """What a DataFrame that has run computed as `SOURCE_ROWS`, None where it didn't."""
    metrics = frame._jdf.queryExecution().observedMetrics()  # noqa: SLF001  # without waiting
    found = metrics.get(SOURCE_ROWS)
    if found.isEmpty():
        return None
    row = found.get()
    return tuple(row.get(place) for place in range(row.size()))


def _changes(outcomes: Iterable[bytes]) -> RowChanges:
    return RowChanges.combined(map(RowChanges.from_bytes, outcomes))


@dataclass(frozen=True, slots=True)
class _Applier:
    """A task's part; pickles."""

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
            work = FoundRowsWork.from_bytes(self.work).for_writer(task_number(), self.tasks)
            share = _Share(self, work, itertools.chain([first], groups))

            def run() -> bytes:
                engine = from_description(self.engine)
                return work.run(engine, share.found(), share.inserted()).to_bytes()

            outcome = reported(run, self.attempts)
            for _ in groups:  # of a failed share: Spark wants its rows to be taken
                pass
            taken: Any = pa.array([list(share.taken.items())], pa.map_(pa.int32(), pa.int64()))
            self.finished.add([outcome])
            written: Any = pa.array([outcome], pa.binary())
            yield pa.RecordBatch.from_arrays([written, taken], ["changes", "taken"])


class _Share:
    """The rows of one task: first those of files, then new ones."""

    def __init__(
        self,
        applier: _Applier,
        work: FoundRowsWork,
        groups: Iterator[tuple[str, list[pa.RecordBatch]]],
    ) -> None:
        self._files = applier.files.value
        self._actions = applier.actions
        self._several = applier.several
        self._work = work
        self._groups = groups
        self._new: list[tuple[str, list[pa.RecordBatch]]] = []
        self.taken: Counter[int] = Counter()

    def found(self) -> Iterator[FoundRows]:
        for key, batches in self._groups:
            if key.startswith(NEW_ROWS):
                self._new.append((key, batches))
                return
            found = self._of_file(ScanFile.from_bytes(self._files[_key(key)]), batches)
            if found is not None:
                yield found

    def inserted(self) -> Iterator[pa.RecordBatch]:
        for _, batches in itertools.chain(self._new, self._groups):
            for batch in batches:
                yield from self._new_rows(batch)

    def _of_file(self, file: ScanFile, batches: list[pa.RecordBatch]) -> FoundRows | None:
        rows = _concatenated(batches) if len(batches) > 1 else batches[0]
        positions = rows.column(POSITION)
        again = pc.equal(positions.slice(1), positions.slice(0, len(positions) - 1))
        if again.true_count:
            if not self._several:
                raise several_matches(self._work.state.write.table)
            first = pa.concat_arrays([pa.array([True]), pc.invert(again)])
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
        new: Any = changed.column(POSITION).cast(pa.int64())
        return FoundRows(
            file=file,
            deleted=bitmap(rows.filter(pc.invert(updated)).column(POSITION)),
            updated=new,
            values=changed.select(list(self._work.assigned)),
        )

    def _new_rows(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for number, action in enumerate(self._actions):
            if action.kind != "insert":
                continue
            rows = batch.filter(pc.equal(batch.column(ACTION), number))
            if rows.num_rows:
                yield rows.select(list(action.columns))


def found_positions(rows: Any) -> dict[str, BitMap64]:
    """Positions by file of rows with `FILE` and `POSITION`; no shuffle, whatever their order."""
    found: dict[str, BitMap64] = {}
    for row in rows.select(FILE, POSITION).mapInArrow(_pack, "file string, rows binary").collect():
        key = _key(row["file"])
        positions = BitMap64.deserialize(bytes(row["rows"]))
        found[key] = found[key] | positions if key in found else positions
    return found


def by_file(
    files: Iterable[ScanFile], positions: dict[str, BitMap64]
) -> list[tuple[ScanFile, BitMap64]]:
    """Files that have rows among those found, with their positions."""
    return [(file, positions[key]) for file in files if (key := _key_of(file)) in positions]


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found: dict[str, BitMap64] = {}
    for batch in batches:
        files: Any = batch.column(0)
        for file in files.unique().to_pylist():
            rows = bitmap(batch.filter(pc.equal(files, file)).column(1))
            found[file] = found[file] | rows if file in found else rows
    if found:
        packed: Any = pa.array([rows.serialize() for rows in found.values()], pa.binary())
        yield pa.RecordBatch.from_arrays([pa.array(list(found)), packed], ["file", "rows"])


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
    """Rows by file, which follow each other. A file's are held together, new ones not."""
    current: str | None = None
    held: list[pa.RecordBatch] = []
    for batch in batches:
        files: Any = batch.column(FILE)
        runs = pc.run_end_encode(files)
        start = 0
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            if name != current:
                if held and current is not None:
                    yield current, held
                current, held = name, []
            rows = batch.slice(start, end - start)
            start = end
            if name.startswith(NEW_ROWS):
                yield name, [rows]
            else:
                held.append(rows)
    if held and current is not None:
        yield current, held


def _key(path: str) -> str:
    """One spelling of a file's path, whoever gave it.

    Args:
        path: behind a sign of `_ENCODED` or `_DECODED`.
    """
    sign, path = path[0], path[1:]
    path = unquote(path) if sign == _ENCODED else path
    scheme, separator, rest = path.partition(":")
    if path.startswith("/") or not separator:
        return path
    if scheme == "file":
        return "/" + rest.lstrip("/")
    return f"s3:{rest}" if scheme in ("s3", "s3n", "s3a") else path


def _key_of(file: ScanFile) -> str:
    return _key(_DECODED + file.status.path)
