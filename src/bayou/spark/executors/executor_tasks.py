"""Operations on executors: one Spark job, whose tasks write files that the driver commits.

If a task raises an error, Spark ends the job and kills the job's other tasks, and the driver never
learns which files these tasks wrote. So a task returns an error as its result. The other tasks run
to their end, and the driver deletes the files of all tasks. If a Python worker is killed, the
worker's unfinished files remain until VACUUM deletes them.

Rows travel between driver and executors as serialized Arrow batches.
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
from bayou.spark.jvm.jobs import max_task_attempts

_DONE, _FAILED = b"+", b"-"


def encode_result(run: Callable[[], bytes], attempts: int) -> bytes:
    """Run a function in a task and encode its result or its error.

    A transient error, such as an unreachable store, is encoded only in the last attempt of the
    task. In earlier attempts, this function raises the error, so that Spark retries the task.

    Args:
        run: the function. If it fails, it deletes the files that it wrote and raises the error.
        attempts: maximum number of attempts of a task.
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
    """Pickle an error for the driver, with its traceback if it isn't a `BayouError`."""
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
    """Number of tasks for a job that uses all cores of the cluster: two for each core."""
    return max(1, int(spark.sparkContext.defaultParallelism)) * _TASKS_PER_CORE


def split_by_size(
    items: Sequence[ItemT], size: Callable[[ItemT], int], count: int
) -> list[list[ItemT]]:
    """Distribute items over at most `count` non-empty lists of similar total size."""
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
    """Run a Spark job with one task per chunk; return the results in the order of the chunks.

    Args:
        chunks: inputs of the tasks; objects that can be pickled.
        run: called in a task with the chunk's index and the chunk. If this function fails, it
            deletes the files that it wrote and then raises the error.
        description: name of the job in Spark's UI.
        discard: called with the results of the successful tasks if another task failed; deletes
            the files of these tasks.
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
    """Split inputs into pieces, shuffle the pieces by group, and run a function on each group.

    Return the results by group number; a group without pieces has no result.

    Args:
        shares: inputs of the map tasks; objects that can be pickled.
        split: called in a map task with an input. Returns (group number, sort key, piece) of each
            piece.
        merge: called in a reduce task with the group number and the group's pieces: one list for
            each sort key, in ascending order of the keys. If this function fails, it deletes the
            files that it wrote and then raises the error.
        groups: number of groups.
        description: name of the job in Spark's UI.
        discard: called with the results of the successful groups if another group failed; deletes
            the files of these groups.
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
    """Context manager for a job: if the job fails, discard its files and raise the task's error."""
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
    """Serialize a batch and its schema to compressed Arrow IPC bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def from_cell(data: bytes) -> pa.RecordBatch:
    """Deserialize a batch that `to_cell` serialized."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def concatenated(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate one or more batches of the same schema."""
    table: Any = pa.Table.from_batches(list(batches)).combine_chunks()
    batch: pa.RecordBatch = table.to_batches(max_chunksize=max(1, table.num_rows))[0]
    return batch
