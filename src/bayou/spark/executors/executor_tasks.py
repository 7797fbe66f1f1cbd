"""Operations that run as a Spark job: tasks write files, and the driver commits the files.

A task returns its error as a result. If a task raised its error, Spark would kill the other tasks
of the job, and the driver couldn't know which files they have written. With a returned error, the
other tasks finish, and the driver deletes the files of all tasks. If a Python worker is killed, the
worker's unfinished files remain until VACUUM deletes them.

Driver and executors exchange rows as serialized Arrow batches.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from bayou.errors import BayouError, FileMissingError, StorageError
from bayou.spark.errors import as_bayou_error, readable_errors
from bayou.spark.executors.jobs import TaggedJobs
from bayou.spark.jvm.jobs import max_task_attempts

_DONE, _FAILED = b"+", b"-"


def encode_result(run: Callable[[], bytes], attempts: int) -> bytes:
    """Run a function in a task; return the function's result or error, encoded.

    A transient error, such as an unreachable store, is raised, so that Spark retries the task. In
    the last attempt, it is returned. All other errors are returned in every attempt.

    Args:
        run: the function. If it fails, it deletes the files that it has written, and raises an
            error.
        attempts: maximum number of attempts of a task.
    """
    try:
        return _DONE + run()
    except Exception as error:
        if _is_transient(error) and _attempt() + 1 < attempts:
            raise
        return _FAILED + _pickled(error)


def is_failure(result: bytes) -> bool:
    """Whether a result that `encode_result` returned contains an error."""
    return result[:1] == _FAILED


def decode_results(encoded: Iterable[bytes]) -> tuple[list[bytes], Exception | None]:
    """Decode the results of tasks into the successful results, in order, and the first error.

    The error is None if no task failed.
    """
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
    """Accumulator of encoded task results, which the driver can read even if the job fails."""

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
    except (pickle.PicklingError, TypeError, AttributeError):  # the error can't be pickled
        return pickle.dumps(RuntimeError(formatted))
    return data


_TASKS_PER_CORE = 2

ItemT = TypeVar("ItemT")
InputT = TypeVar("InputT")


def number_of_tasks(spark: Any) -> int:
    """Return the number of tasks for a job on the whole cluster: two tasks for each core."""
    return max(1, int(spark.sparkContext.defaultParallelism)) * _TASKS_PER_CORE


def split_by_size(
    items: Sequence[ItemT], size: Callable[[ItemT], int], count: int
) -> list[list[ItemT]]:
    """Distribute items over at most `count` lists of similar total size; no list is empty."""
    count = min(count, len(items))
    lists: list[list[ItemT]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for item in sorted(items, key=size, reverse=True):
        load, number = heapq.heappop(loads)
        lists[number].append(item)
        heapq.heappush(loads, (load + max(1, size(item)), number))
    return lists


def run_tasks(
    spark: Any,
    inputs: Sequence[InputT],
    run: Callable[[int, InputT], bytes],
    *,
    table: str,
    description: str,
    discard: Callable[[list[bytes]], None],
) -> list[bytes]:
    """Run a Spark job with a task for each input; return the results in the order of the inputs.

    Args:
        inputs: the inputs of the tasks; objects that can be pickled.
        run: function that a task calls with the index of the input and the input. If the function
            fails, it deletes the files that it has written, and raises an error.
        table: the table's path, for errors.
        description: description of the job in Spark's UI.
        discard: function that deletes the files of successful tasks. If the job fails, the function
            is called with the results of these tasks.
    """
    context = spark.sparkContext
    finished = context.accumulator([], TaskResults())
    attempts = max_task_attempts(spark)

    def task(number: int, items: Any) -> Any:
        with readable_errors():
            for task_input in items:
                result = encode_result(functools.partial(run, number, task_input), attempts)
                finished.add([result])
                yield result

    with _discarding(finished, discard, table), TaggedJobs(spark, description).tagged():
        job = context.parallelize(list(inputs), len(inputs)).mapPartitionsWithIndex(task)
        results, error = decode_results(job.collect())
        if error is not None:
            raise error
        return results


def run_shuffled_tasks(
    spark: Any,
    inputs: Sequence[InputT],
    split: Callable[[InputT], Iterable[tuple[int, int, bytes]]],
    merge: Callable[[int, Iterator[list[bytes]]], bytes],
    groups: int,
    *,
    table: str,
    description: str,
    discard: Callable[[list[bytes]], None],
) -> dict[int, bytes]:
    """Run a Spark job with map tasks, a shuffle and reduce tasks.

    A map task splits an input into records. The records are shuffled by group. A reduce task merges
    the records of a group.

    Args:
        inputs: the inputs of the map tasks; objects that can be pickled.
        split: function that a map task calls with an input. Returns the records as (group number,
            sort key, data).
        merge: function that a reduce task calls with the group number and the data of the group's
            records: one list for each sort key, in ascending order of the keys. If the function
            fails, it deletes the files that it has written, and raises an error.
        groups: number of groups.
        table: the table's path, for errors.
        description: description of the job in Spark's UI.
        discard: function that deletes the files of successful reduce tasks. If the job fails, the
            function is called with the results of these tasks.

    Returns:
        The results of `merge` by group number. A group without records has no result.
    """

    def map_task(items: Any) -> Any:
        with readable_errors():
            for task_input in items:
                for group, sort_key, data in split(task_input):
                    yield (group, sort_key), data

    def reduce(number: int, pairs: list[Any]) -> bytes:
        records: dict[int, list[bytes]] = {}
        pairs.reverse()
        while pairs:  # removes the pairs, so that their memory can be freed
            (_, sort_key), data = pairs.pop()
            records.setdefault(sort_key, []).append(data)
        return merge(number, (records.pop(sort_key) for sort_key in sorted(records)))

    mapped = spark.sparkContext.parallelize(list(inputs), len(inputs)).mapPartitions(map_task)
    grouped = mapped.partitionBy(groups, lambda key: key[0])
    return run_on_partitions(
        spark, grouped, reduce, table=table, description=description, discard=discard
    )


def run_on_partitions(
    spark: Any,
    rows: Any,
    run: Callable[[int, list[Any]], bytes],
    *,
    table: str,
    description: str,
    discard: Callable[[list[bytes]], None],
) -> dict[int, bytes]:
    """Run a Spark job with a task for each partition of an RDD.

    Args:
        rows: the RDD.
        run: function that a task calls with the number of the partition and a list of the
            partition's items. If the function fails, it deletes the files that it has written, and
            raises an error.
        table: the table's path, for errors.
        description: description of the job in Spark's UI.
        discard: function that deletes the files of successful tasks. If the job fails, the function
            is called with the results of these tasks.

    Returns:
        The results of `run` by partition number. A partition without items has no result.
    """
    finished = spark.sparkContext.accumulator([], TaskResults())
    attempts = max_task_attempts(spark)

    def task(number: int, items: Any) -> Any:
        with readable_errors():
            if partition := list(items):
                result = encode_result(functools.partial(run, number, partition), attempts)
                finished.add([result])
                yield number, result

    with _discarding(finished, discard, table), TaggedJobs(spark, description).tagged():
        collected = dict(rows.mapPartitionsWithIndex(task).collect())
        results, error = decode_results(collected.values())
        if error is not None:
            raise error
        return dict(zip(collected, results, strict=True))


@contextlib.contextmanager
def _discarding(
    finished: Accumulator[list[bytes]], discard: Callable[[list[bytes]], None], table: str
) -> Iterator[None]:
    """Context manager: if the job in its block fails, call `discard` for the successful tasks.

    The error of the failed task is raised instead of Spark's error.
    """
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


def encode_batch(batch: pa.RecordBatch) -> bytes:
    """Serialize a batch and its schema to compressed Arrow IPC bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def decode_batch(data: bytes) -> pa.RecordBatch:
    """Deserialize a batch that `encode_batch` serialized."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def concatenated(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate one or more batches of the same schema."""
    concat_batches: Any = vars(pa)["concat_batches"]  # pyarrow's stubs lack it
    batch: pa.RecordBatch = concat_batches(list(batches))
    return batch


_Function: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_in_arrow(frame: Any, function: _Function, schema: str) -> Any:
    """Call `DataFrame.mapInArrow`; column names may contain dots and backticks.

    PySpark's method fails for column names with these characters. Therefore such a DataFrame's
    columns are renamed before the call, and the function gets batches with the original names.
    """
    names = tuple(frame.columns)
    if not any(character in name for name in names for character in ".`"):
        return frame.mapInArrow(function, schema)
    renamed = frame.toDF(*(f"column{number}" for number in range(len(names))))
    return renamed.mapInArrow(_WithNames(function, names), schema)


@dataclass(frozen=True, slots=True)
class _WithNames:
    function: _Function
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.function(batch.rename_columns(list(self.names)) for batch in batches)
