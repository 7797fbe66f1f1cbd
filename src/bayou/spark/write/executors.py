"""Rows of a DataFrame to data files on executors, by `mapInArrow`.

One job: each task writes its rows where they will stay and sends back the actions of its files, or
the error that it failed with, so that the others come to their end and what they wrote is deleted
(`bayou.spark.executors.executor_tasks`). Of attempts that are killed, or that a faster copy
overtakes, nothing is sent back; what those leave behind is no part of the table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.accumulators import Accumulator

from bayou.errors import BayouError
from bayou.spark.errors import readable_errors
from bayou.spark.executors.executor_tasks import (
    Outcomes,
    attempts_of_tasks,
    done_by,
    is_failure,
    reported,
)
from bayou.spark.executors.jobs import ReplayJobs, failure_reports, report_failure
from bayou.spark.write.started_write import BegunWrite
from bayou.spark.write.tasks import task_number

__all__ = ["write_frame"]

_LOG = logging.getLogger(__name__)
_COLUMN = "actions"


def write_frame(frame: Any, begun: BegunWrite, tasks: int | None = None) -> list[bytes]:
    """Write a DataFrame's rows.

    Args:
        frame: a classic `DataFrame`.
        begun: the write that they are for.
        tasks: how many tasks there are at most, None where nobody knows.

    Returns:
        What the tasks sent back, to be committed.

    Raises:
        BayouError: one of ours that a task raised.
        Exception: another that a task raised, or as Spark throws it. What tasks that succeeded
            wrote has been deleted.
    """
    spark = frame.sparkSession
    jobs = ReplayJobs(spark, f"Write to {begun.plan.table}")
    # Of a job that fails Spark gives no results; what tasks add here it brings all the same.
    finished = spark.sparkContext.accumulator([], Outcomes())
    failures = failure_reports(spark, jobs)
    writer = _TaskWriter(begun, tasks, finished, failures, attempts_of_tasks(spark))
    try:
        with jobs.named():
            rows = frame.mapInArrow(writer, f"{_COLUMN} binary").collect()
        written, failure = done_by(bytes(row[_COLUMN]) for row in rows)
        if failure is not None:
            raise failure
    except BaseException as error:
        written, failure = done_by(finished.value)
        try:
            begun.delete(written)
        except BayouError as left:
            _LOG.warning("Files of a failed write to %s stay: %s", begun.plan.table, left)
        if failure is None or failure is error:
            raise
        raise failure from None  # what the job was cancelled for
    return written


class _TaskWriter:
    """The part of one task; pickles."""

    def __init__(
        self,
        begun: BegunWrite,
        tasks: int | None,
        finished: Accumulator[list[bytes]],
        failures: Accumulator[list[int]],
        attempts: int,
    ) -> None:
        self._begun = begun
        self._tasks = tasks
        self._finished = finished
        self._failures = failures
        self._attempts = attempts

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def run() -> bytes:
            return self._begun.write_task(batches, task_number(), self._tasks)

        with readable_errors():
            outcome = reported(run, self._attempts)
            if is_failure(outcome):
                report_failure(self._failures)
                for _ in batches:  # Spark wants its rows to be taken
                    pass
            self._finished.add([outcome])
            column: Any = pa.array([outcome], pa.binary())
            yield pa.RecordBatch.from_arrays([column], [_COLUMN])
