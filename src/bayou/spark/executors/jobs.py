"""Spark jobs that can be recognised, and ended.

An end to jobs whose tasks report their errors as outcomes.

Such a job goes on to its end, so that the driver hears what each of its tasks has written. Where it
has more tasks than run at once that may take long for nothing: it is cancelled, then, and what its
running tasks leave is VACUUM's.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

__all__ = ["ReplayJobs", "failure_reports", "report_failure"]


class ReplayJobs:
    """The jobs of one replay, started from one thread at a time.

    Args:
        spark: a session, classic or Connect; Connect's jobs have no description of ours.
        description: what Spark's UI shows for them.
    """

    def __init__(self, spark: Any, description: str) -> None:
        self._spark = spark
        self._description = description
        self._tag = f"bayou-{uuid.uuid4()}"

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Jobs that this thread starts within are these jobs; others keep their description."""
        if not isinstance(self._spark, SparkSession):
            self._spark.addTag(self._tag)
            try:
                yield
            finally:
                self._spark.removeTag(self._tag)
            return
        context = self._spark.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setJobDescription(self._description)
        context.addJobTag(self._tag)
        try:
            yield
        finally:
            context.removeJobTag(self._tag)
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # null unsets

    def cancel(self) -> None:
        """End those that are running; from any thread, also when the session has been stopped."""
        if not isinstance(self._spark, SparkSession):
            self._spark.interruptTag(self._tag)
            return
        with contextlib.suppress(Py4JError):
            if self._spark.sparkContext._jsc is not None:  # noqa: SLF001  # None: it was stopped
                self._spark.sparkContext.cancelJobsWithTag(self._tag)


_DESCRIPTION = "spark.job.description"


_LOOKS = 25
_SECONDS = 0.2
"""Between two looks at a stage of which a task has failed."""


def failure_reports(spark: Any, jobs: ReplayJobs) -> Accumulator[list[int]]:
    """What tasks report to that they have failed; on the driver it ends a long job.

    Args:
        spark: a classic session.
        jobs: those that end.
    """
    tracker = spark.sparkContext.statusTracker()

    def failed(stage: int) -> None:
        ended = threading.Event()
        for _ in range(_LOOKS):
            if _all_have_begun(tracker, stage):
                return
            ended.wait(_SECONDS)
        jobs.cancel()

    def in_background(stage: int) -> None:
        threading.Thread(target=failed, args=(stage,), daemon=True).start()

    reports: Accumulator[list[int]] = spark.sparkContext.accumulator([], _Reports(in_background))
    return reports


def report_failure(reports: Accumulator[list[int]]) -> None:
    """In a task: say that it has failed."""
    context = TaskContext.get()
    if context is not None:
        reports.add([context.stageId()])


def _all_have_begun(tracker: Any, stage: int) -> bool:
    """Whether no task of a stage waits for a place; also where the stage has ended."""
    try:
        info = tracker.getStageInfo(stage)
    except Py4JError:  # the session has been stopped
        return True
    if info is None or stage not in tracker.getActiveStageIds():
        return True
    return bool(info.numCompletedTasks + info.numActiveTasks >= info.numTasks)


class _Reports(AccumulatorParam[list[int]]):
    """Calls a function on the driver at the first report of each kind.

    Args:
        call: given the number of the stage; None in tasks.
    """

    def __init__(self, call: Callable[[int], None] | None = None) -> None:
        self._call = call

    def __reduce__(self) -> Any:
        return (_Reports, ())

    def zero(self, value: list[int]) -> list[int]:
        return []

    def addInPlace(self, value1: list[int], value2: list[int]) -> list[int]:  # noqa: N802
        new = set(value2).difference(value1)
        if self._call is not None:
            for stage in new:
                self._call(stage)
        value1.extend(new)
        return value1
