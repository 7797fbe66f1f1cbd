"""Shares of an operation on executors: one job, each task with files of its own.

Nothing of a share is part of the table until the driver commits. Where a share fails, the others
come to their end, and what they have written is deleted. Only what a worker was writing when it was
killed stays, for VACUUM.

What a task sends back: what it did, or the error that it failed with.

A task that raises has Spark end its job, and kill the workers of the job's other tasks wherever
they are. What those have written by then nobody hears of. So an error is sent back like any other
outcome: the other tasks come to their own end, and the driver knows all that was written when it
deletes it.

Arrow batches in binary cells of a DataFrame: what executors and driver send each other.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from bayou.errors import BayouError, FileMissingError, StorageError
from bayou.spark.errors import as_bayou_error, readable_errors
from bayou.spark.executors.jobs import ReplayJobs

__all__ = [
    "Outcomes",
    "attempts_of_tasks",
    "done_by",
    "from_cell",
    "is_failure",
    "number_of_tasks",
    "reported",
    "run_shares",
    "run_shuffled",
    "shares_by_size",
    "to_cell",
]


_DONE, _FAILED = b"+", b"-"


def attempts_of_tasks(spark: Any) -> int:
    """How often a task may fail before its job does."""
    return int(spark.sparkContext._jsc.sc().taskScheduler().maxTaskFailures())  # noqa: SLF001


def reported(run: Callable[[], bytes], attempts: int) -> bytes:
    """In a task: run a function, and say what it gave or what it raised.

    What may go by itself, such as a store that can't be reached, is raised while Spark has further
    attempts for the task.

    Args:
        run: deletes what it has written where it raises.
        attempts: of `attempts_of_tasks`.
    """
    try:
        return _DONE + run()
    except Exception as error:
        if _may_pass(error) and _attempt() + 1 < attempts:
            raise
        return _FAILED + _sent(error)


def is_failure(outcome: bytes) -> bool:
    """Whether an outcome is an error."""
    return outcome[:1] == _FAILED


def done_by(outcomes: Iterable[bytes]) -> tuple[list[bytes], Exception | None]:
    """On the driver: what functions gave, in order, and the first error among the outcomes."""
    done: list[bytes] = []
    error: Exception | None = None
    for outcome in outcomes:
        content = bytes(outcome[1:])
        if outcome[:1] == _DONE:
            done.append(content)
        elif error is None:
            error = pickle.loads(content)  # noqa: S301  # our own tasks' bytes
    return done, error


class Outcomes(AccumulatorParam[list[bytes]]):
    """What tasks have reported, known also where their job fails."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:  # noqa: N802
        value1.extend(value2)
        return value1


def _may_pass(error: Exception) -> bool:
    if isinstance(error, BayouError):
        return isinstance(error, StorageError) and not isinstance(error, FileMissingError)
    return True


def _attempt() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def _sent(error: Exception) -> bytes:
    """The error for the driver; one that isn't ours with where it was raised."""
    if isinstance(error, BayouError):
        return pickle.dumps(error)
    raised = "".join(traceback.format_exception(error)).rstrip()
    try:
        error.add_note(f"Raised by a task:\n{raised}")
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301  # what we have just written
    except (pickle.PicklingError, TypeError, AttributeError):  # its class isn't one that travels
        return pickle.dumps(RuntimeError(raised))
    return data


_TASKS_A_CORE = 2

ItemT = TypeVar("ItemT")
ShareT = TypeVar("ShareT")


def number_of_tasks(spark: Any) -> int:
    """How many tasks keep the cluster busy."""
    return max(1, int(spark.sparkContext.defaultParallelism)) * _TASKS_A_CORE


def shares_by_size(
    items: Sequence[ItemT], size: Callable[[ItemT], int], count: int
) -> list[list[ItemT]]:
    """Items in at most `count` shares of about the same size, none of them empty."""
    count = min(count, len(items))
    shares: list[list[ItemT]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for item in sorted(items, key=size, reverse=True):
        load, number = heapq.heappop(loads)
        shares[number].append(item)
        heapq.heappush(loads, (load + max(1, size(item)), number))
    return shares


def run_shares(
    spark: Any,
    shares: Sequence[ShareT],
    run: Callable[[int, ShareT], bytes],
    *,
    table: str,
    description: str,
    discard: Callable[[list[bytes]], None],
) -> list[bytes]:
    """Run a function for each share, each in a task of its own.

    Args:
        spark: a classic session.
        shares: whatever pickles.
        run: given a share's number and the share, on an executor; deletes what it has written
            where it raises.
        discard: deletes what shares have written, where another has failed.

    Returns:
        The outcomes, in the order of the shares.

    Raises:
        BayouError: one of ours that a task raised.
        Exception: another that a task raised, or as Spark throws it.
    """
    context = spark.sparkContext
    finished = context.accumulator([], Outcomes())
    attempts = attempts_of_tasks(spark)

    def task(number: int, items: Any) -> Any:
        with readable_errors():
            for share in items:
                outcome = reported(functools.partial(run, number, share), attempts)
                finished.add([outcome])
                yield outcome

    with _discarding(finished, discard, table), ReplayJobs(spark, description).named():
        job = context.parallelize(list(shares), len(shares)).mapPartitionsWithIndex(task)
        done, error = done_by(job.collect())
        if error is not None:
            raise error
        return done


def run_shuffled(
    spark: Any,
    shares: Sequence[ShareT],
    split: Callable[[ShareT], Iterable[tuple[int, int, bytes]]],
    merge: Callable[[int, Iterator[list[bytes]]], bytes],
    groups: int,
    *,
    table: str,
    description: str,
    discard: Callable[[list[bytes]], None],
) -> dict[int, bytes]:
    """Split shares in tasks, bring what belongs together to one task, and run a function on that.

    Args:
        spark: a classic session.
        shares: whatever pickles.
        split: gives a share's pieces, each with the number of its group and its place there.
        merge: given a group's number and the pieces of each of its places, in the order of places;
            deletes what it has written where it raises.
        groups: how many groups there are.
        discard: deletes what groups have written, where another has failed.

    Returns:
        The outcome of each group that has a piece.

    Raises:
        BayouError: one of ours that a task raised.
        Exception: another that a task raised, or as Spark throws it.
    """
    context = spark.sparkContext
    finished = context.accumulator([], Outcomes())
    attempts = attempts_of_tasks(spark)

    def begin(items: Any) -> Any:
        with readable_errors():
            for share in items:
                for group, place, piece in split(share):
                    yield (group, place), piece

    def end(number: int, pairs: Any) -> Any:
        with readable_errors():
            places: dict[int, list[bytes]] = {}
            for (_, place), piece in pairs:
                places.setdefault(place, []).append(piece)
            if places:
                rows = (places.pop(place) for place in sorted(places))
                outcome = reported(functools.partial(merge, number, rows), attempts)
                finished.add([outcome])
                yield number, outcome

    with _discarding(finished, discard, table), ReplayJobs(spark, description).named():
        pieces = context.parallelize(list(shares), len(shares)).mapPartitions(begin)
        grouped = pieces.partitionBy(groups, lambda key: key[0])
        found = dict(grouped.mapPartitionsWithIndex(end).collect())
        done, error = done_by(found.values())
        if error is not None:
            raise error
        return dict(zip(found, done, strict=True))


@contextlib.contextmanager
def _discarding(
    finished: Accumulator[list[bytes]], discard: Callable[[list[bytes]], None], table: str
) -> Iterator[None]:
    """Around a job: where it fails nothing stays, and the error is ours where a task's was."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(BayouError):
            discard(done_by(finished.value)[0])
        ours = as_bayou_error(error, table=table) if isinstance(error, Exception) else None
        if ours is None:
            raise
        raise ours from None


_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def to_cell(batch: pa.RecordBatch) -> bytes:
    """A batch with its schema, compressed; only the rows that it shows, were it a slice."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def from_cell(data: bytes) -> pa.RecordBatch:
    """The inverse of `to_cell`."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def in_one(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of several batches of one schema, at least one, in one batch."""
    table: Any = pa.Table.from_batches(list(batches)).combine_chunks()
    found: pa.RecordBatch = table.to_batches(max_chunksize=max(1, table.num_rows))[0]
    return found
