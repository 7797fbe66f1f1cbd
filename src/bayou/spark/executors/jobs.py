"""Spark jobs with a tag for cancellation and a description for Spark's UI.

A task returns its error as a result, so that the other tasks finish and the driver learns which
files they wrote. After a failure, it would be useless to start further tasks. If some tasks still
wait for a slot a few seconds after the failure, the driver cancels the job. In this case, the files
of the running tasks remain until VACUUM deletes them.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark import TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from bayou.spark.jvm.jobs import cancel_jobs, without_call_logs
from bayou.spark.jvm.objects import JvmError


class TaggedJobs:
    """The Spark jobs of one operation. All of these jobs have the same tag and description.

    Only one thread at a time may start jobs. Under Spark Connect, jobs have no description.
    """

    def __init__(self, spark: Any, description: str) -> None:
        self._spark = spark
        self._description = description
        self._tag = f"bayou-{uuid.uuid4()}"

    @contextlib.contextmanager
    def tagged(self) -> Iterator[None]:
        """Context manager that tags and describes the jobs that this thread starts in its block.

        If the block is interrupted, for example by Ctrl-C, these jobs are cancelled. PySpark's own
        handler of Ctrl-C can't cancel jobs while the interrupted thread waits for the JVM.
        """
        handled = sys.exception()
        with self._tags():
            try:
                yield
            except BaseException as error:
                interruption = _interruption(error, handled)
                if interruption is None:
                    raise
                self.cancel()
                raise interruption from None

    @contextlib.contextmanager
    def _tags(self) -> Iterator[None]:
        if not isinstance(self._spark, SparkSession):
            self._spark.addTag(self._tag)
            try:
                yield
            finally:
                self._spark.removeTag(self._tag)
            return
        context = self._spark.sparkContext
        previous = context.getLocalProperty(_DESCRIPTION)
        context.setJobDescription(self._description)
        context.addJobTag(self._tag)
        try:
            yield
        finally:
            # If the JVM has ended, the jobs' own error or the next call reports it.
            with contextlib.suppress(JvmError, ConnectionError), without_call_logs():
                context.removeJobTag(self._tag)
                context.setLocalProperty(_DESCRIPTION, previous)  # type: ignore[arg-type]  # null

    def cancel(self) -> None:
        """Cancel the running jobs. Any thread may call this, also after the session has stopped."""
        if not isinstance(self._spark, SparkSession):
            self._spark.interruptTag(self._tag)
            return
        cancel_jobs(self._spark, self._tag)


@contextlib.contextmanager
def local_properties(spark: Any, properties: Mapping[str, str]) -> Iterator[None]:
    """Context manager that sets local properties of the jobs that this thread starts in its block.

    In the tasks, such a property has the effect of a setting of the session. If the session sets
    the same key, the session's value applies.
    """
    context = spark.sparkContext
    previous = {name: context.getLocalProperty(name) for name in properties}
    for name, value in properties.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        # If the JVM has ended, the jobs' own error or the next call reports it.
        with contextlib.suppress(JvmError, ConnectionError), without_call_logs():
            for name, before in previous.items():
                context.setLocalProperty(name, before)


_DESCRIPTION = "spark.job.description"


def _interruption(error: BaseException, handled: BaseException | None) -> BaseException | None:
    """Return the KeyboardInterrupt or SystemExit that led to an error; None if there is none.

    An interruption can break PySpark's connection to the JVM. If PySpark's clean-up then fails, the
    error of the clean-up hides the interruption.

    Args:
        handled: the exception that the caller was handling before the jobs started. This exception
            and its causes are ignored. None if there was none.
    """
    cause: BaseException | None = error
    while cause is not None and cause is not handled:
        if isinstance(cause, KeyboardInterrupt | SystemExit):
            return cause
        cause = cause.__context__
    return None


_POLLS = 25
_POLL_SECONDS = 0.2
"""Seconds between two checks whether all tasks of a stage have started."""


def failure_reports(spark: Any, jobs: TaggedJobs) -> Accumulator[list[int]]:
    """Create the accumulator to which `report_failure` reports failed tasks.

    After a report, the driver waits at most a few seconds until all tasks of the stage have
    started. If some tasks then still wait for a slot, the driver cancels `jobs`.
    """
    tracker = spark.sparkContext.statusTracker()

    def cancel_long_stage(stage: int) -> None:
        never_set = threading.Event()
        for _ in range(_POLLS):
            if _all_tasks_started(tracker, stage):
                return
            never_set.wait(_POLL_SECONDS)
        jobs.cancel()

    def in_background(stage: int) -> None:
        threading.Thread(target=cancel_long_stage, args=(stage,), daemon=True).start()

    reports: Accumulator[list[int]] = spark.sparkContext.accumulator([], _Reports(in_background))
    return reports


def report_failure(reports: Accumulator[list[int]]) -> None:
    """Report the failure of the current task to the driver; called in the task."""
    context = TaskContext.get()
    if context is not None:
        reports.add([context.stageId()])


def _all_tasks_started(tracker: Any, stage: int) -> bool:
    """Whether all tasks of a stage have started, or the stage has ended."""
    try:
        info = tracker.getStageInfo(stage)
    except (JvmError, ConnectionError):  # the session has been stopped, or the JVM has ended
        return True
    if info is None or stage not in tracker.getActiveStageIds():
        return True
    return bool(info.numCompletedTasks + info.numActiveTasks >= info.numTasks)


class _Reports(AccumulatorParam[list[int]]):
    """Accumulator of stage ids, which calls a function on the driver with each new stage id."""

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
