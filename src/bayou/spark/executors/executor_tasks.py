"""Operations on executors: one Spark job, whose tasks write files that the driver commits.

A task that raises makes Spark end the job and kill its other tasks, and the driver never learns
which files those wrote. So a task returns an error as its result: the other tasks run to their end,
and the driver deletes the files of all tasks. Only files that a killed worker was writing remain,
for VACUUM.

Rows travel between driver and executors as Arrow batches in binary cells.
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
from bayou.spark.executors.jobs import TaggedJobs

__all__ = [
    "TaskResults",
    "decode_results",
    "encode_result",
    "from_cell",
    "is_failure",
    "max_task_attempts",
    "number_of_tasks",
    "run_shuffled_tasks",
    "run_tasks",
    "split_by_size",
    "to_cell",
]


_DONE, _FAILED = b"+", b"-"


def max_task_attempts(spark: Any) -> int:
    """Number of times a task may fail before its job fails (`spark.task.maxFailures`)."""
    return int(spark.sparkContext._jsc.sc().taskScheduler().maxTaskFailures())  # noqa: SLF001


def encode_result(run: Callable[[], bytes], attempts: int) -> bytes:
    """Run a function in a task and encode its result or its error.

    Transient errors, such as an unreachable store, are raised as long as Spark retries the task.

    Args:
        run: deletes the files that it wrote before it raises.
        attempts: see `max_task_attempts`.
    """
    try:
        return _DONE + run()
    except Exception as error:
        if _is_transient(error) and _attempt() + 1 < attempts:
            raise
        return _FAILED + _pickled(error)


def is_failure(result: bytes) -> bool:
    """Whether a task's encoded result is an error."""
    return result[:1] == _FAILED


def decode_results(encoded: Iterable[bytes]) -> tuple[list[bytes], Exception | None]:
    """Decode task results on the driver: the results in order, and the first error."""
    results: list[bytes] = []
    error: Exception | None = None
    for result in encoded:
        content = bytes(result[1:])
        if result[:1] == _DONE:
            results.append(content)
        elif error is None:
            error = pickle.loads(content)  # noqa: S301  # written by our own tasks
    return results, error


class TaskResults(AccumulatorParam[list[bytes]]):
    """Accumulator of encoded task results, which are available even if the job fails."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:  # noqa: N802
        value1.extend(value2)
        return value1


def _is_transient(error: Exception) -> bool:
    if isinstance(error, BayouError):
        return isinstance(error, StorageError) and not isinstance(error, FileMissingError)
    return True


def _attempt() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def _pickled(error: Exception) -> bytes:
    """Pickle an error for the driver; other errors than `BayouError` with their traceback."""
    if isinstance(error, BayouError):
        return pickle.dumps(error)
    formatted = "".join(traceback.format_exception(error)).rstrip()
    try:
        error.add_note(f"Raised by a task:\n{formatted}")
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301  # pickled in the line above
    except (pickle.PicklingError, TypeError, AttributeError):  # its class can't be pickled
        return pickle.dumps(RuntimeError(formatted))
    return data


_TASKS_PER_CORE = 2

ItemT = TypeVar("ItemT")
ShareT = TypeVar("ShareT")


def number_of_tasks(spark: Any) -> int:
    """Number of tasks that keep the cluster busy."""
    return max(1, int(spark.sparkContext.defaultParallelism)) * _TASKS_PER_CORE


def split_by_size(
    items: Sequence[ItemT], size: Callable[[ItemT], int], count: int
) -> list[list[ItemT]]:
    """Distribute items over at most `count` non-empty chunks of similar total size."""
    count = min(count, len(items))
    shares: list[list[ItemT]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for item in sorted(items, key=size, reverse=True):
        load, number = heapq.heappop(loads)
        shares[number].append(item)
        heapq.heappush(loads, (load + max(1, size(item)), number))
    return shares


def run_tasks(
    spark: Any,
    chunks: Sequence[ShareT],
    run: Callable[[int, ShareT], bytes],
    *,
    table: str,
    description: str,
    discard: Callable[[list[bytes]], None],
) -> list[bytes]:
    """Run a function for each chunk, one Spark task per chunk.

    Args:
        spark: a classic session.
        chunks: the chunks; any objects that can be pickled.
        run: called on an executor with a chunk's number and the chunk; deletes the files that it
            wrote before it raises.
        discard: deletes the files of the successful tasks if another task failed.

    Returns:
        The task results, in the order of the chunks.

    Raises:
        BayouError: a task raised it.
        Exception: a task or Spark raised it.
    """
    context = spark.sparkContext
    finished = context.accumulator([], TaskResults())
    attempts = max_task_attempts(spark)

    def task(number: int, items: Any) -> Any:
        with readable_errors():
            for chunk in items:
                result = encode_result(functools.partial(run, number, chunk), attempts)
                finished.add([result])
                yield result

    with _discarding(finished, discard, table), TaggedJobs(spark, description).tagged():
        job = context.parallelize(list(chunks), len(chunks)).mapPartitionsWithIndex(task)
        results, error = decode_results(job.collect())
        if error is not None:
            raise error
        return results


def run_shuffled_tasks(
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
    """Split chunks into pieces, shuffle the pieces by group, and run a function on each group.

    Args:
        spark: a classic session.
        shares: the chunks; any objects that can be pickled.
        split: returns a chunk's pieces, each with its group number and its position in the group.
        merge: called with a group's number and the pieces of each position, in order of position;
            deletes the files that it wrote before it raises.
        groups: number of groups.
        discard: deletes the files of the successful groups if another group failed.

    Returns:
        The result of each group that has a piece.

    Raises:
        BayouError: a task raised it.
        Exception: a task or Spark raised it.
    """
    context = spark.sparkContext
    finished = context.accumulator([], TaskResults())
    attempts = max_task_attempts(spark)

    def map_task(items: Any) -> Any:
        with readable_errors():
            for chunk in items:
                for group, position, piece in split(chunk):
                    yield (group, position), piece

    def reduce_task(number: int, pairs: Any) -> Any:
        with readable_errors():
            pieces: dict[int, list[bytes]] = {}
            for (_, position), piece in pairs:
                pieces.setdefault(position, []).append(piece)
            if pieces:
                rows = (pieces.pop(position) for position in sorted(pieces))
                result = encode_result(functools.partial(merge, number, rows), attempts)
                finished.add([result])
                yield number, result

    with _discarding(finished, discard, table), TaggedJobs(spark, description).tagged():
        mapped = context.parallelize(list(shares), len(shares)).mapPartitions(map_task)
        grouped = mapped.partitionBy(groups, lambda key: key[0])
        collected = dict(grouped.mapPartitionsWithIndex(reduce_task).collect())
        results, error = decode_results(collected.values())
        if error is not None:
            raise error
        return dict(zip(collected, results, strict=True))


@contextlib.contextmanager
def _discarding(
    finished: Accumulator[list[bytes]], discard: Callable[[list[bytes]], None], table: str
) -> Iterator[None]:
    """Context manager around a job: discard its files on failure, and raise a task's error."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(BayouError):
            discard(decode_results(finished.value)[0])
        task_error = as_bayou_error(error, table=table) if isinstance(error, Exception) else None
        if task_error is None:
            raise
        raise task_error from None


_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def to_cell(batch: pa.RecordBatch) -> bytes:
    """Serialize a batch with its schema, compressed; of a slice only the rows in the slice."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def from_cell(data: bytes) -> pa.RecordBatch:
    """Deserialize a batch from `to_cell`."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def concatenated(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate one or more batches of the same schema."""
    table: Any = pa.Table.from_batches(list(batches)).combine_chunks()
    batch: pa.RecordBatch = table.to_batches(max_chunksize=max(1, table.num_rows))[0]
    return batch
