"""Shares of an operation on executors: one job, each task with files of its own.

Nothing of a share is part of the table until the driver commits. Where a share fails, the others
come to their end, and what they have written is deleted. Only what a worker was writing when it was
killed stays, for VACUUM.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from pyspark.accumulators import Accumulator

from bayou.errors import BayouError
from bayou.spark.errors import as_bayou_error, readable_errors
from bayou.spark.executors.jobs import ReplayJobs
from bayou.spark.executors.task_results import Outcomes, attempts_of_tasks, done_by, reported

__all__ = ["number_of_tasks", "run_shares", "run_shuffled", "shares_by_size"]

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
