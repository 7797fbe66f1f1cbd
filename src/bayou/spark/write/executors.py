"""Writes of a DataFrame's rows to data files on executors, with `mapInArrow`.

Each task of one job writes its rows and returns the actions of its files or its error, so that the
other tasks run to their end and their files can be deleted
(`bayou.spark.executors.executor_tasks`). Killed attempts and speculative tasks that lose return
nothing; their files aren't part of the table.
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
    TaskResults,
    decode_results,
    encode_result,
    is_failure,
    max_task_attempts,
)
from bayou.spark.executors.jobs import TaggedJobs, failure_reports, report_failure
from bayou.spark.write.started_write import StartedWrite
from bayou.spark.write.tasks import task_number

__all__ = ["write_frame"]

_LOG = logging.getLogger(__name__)
_COLUMN = "actions"


def write_frame(frame: Any, started: StartedWrite, tasks: int | None = None) -> list[bytes]:
    """Write a DataFrame's rows, without committing.

    Args:
        frame: a classic `DataFrame`.
        started: the planned write.
        tasks: maximum number of tasks; None if it is unknown.

    Returns:
        The task results, for the commit.

    Raises:
        BayouError: a task raised it.
        Exception: a task or Spark raised it. The files of successful tasks have been deleted.
    """
    spark = frame.sparkSession
    jobs = TaggedJobs(spark, f"Write to {started.plan.table}")
    # The accumulator has the results of successful tasks even if the job fails.
    finished = spark.sparkContext.accumulator([], TaskResults())
    failures = failure_reports(spark, jobs)
    writer = _TaskWriter(started, tasks, finished, failures, max_task_attempts(spark))
    try:
        with jobs.tagged():
            rows = frame.mapInArrow(writer, f"{_COLUMN} binary").collect()
        written, failure = decode_results(bytes(row[_COLUMN]) for row in rows)
        if failure is not None:
            raise failure
    except BaseException as error:
        written, failure = decode_results(finished.value)
        try:
            started.delete(written)
        except BayouError as delete_error:
            _LOG.warning(
                "%s: files of a failed write couldn't be deleted: %s. Run VACUUM to delete them.",
                started.plan.table,
                delete_error,
            )
        if failure is None or failure is error:
            raise
        raise failure from None  # the error for which the job was canceled
    return written


class _TaskWriter:
    """The function of a task; can be pickled."""

    def __init__(
        self,
        started: StartedWrite,
        tasks: int | None,
        finished: Accumulator[list[bytes]],
        failures: Accumulator[list[int]],
        attempts: int,
    ) -> None:
        self._started = started
        self._tasks = tasks
        self._finished = finished
        self._failures = failures
        self._attempts = attempts

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def run() -> bytes:
            return self._started.write_task(batches, task_number(), self._tasks)

        with readable_errors():
            result = encode_result(run, self._attempts)
            if is_failure(result):
                report_failure(self._failures)
                for _ in batches:  # Spark requires that all input is consumed
                    pass
            self._finished.add([result])
            column: Any = pa.array([result], pa.binary())
            yield pa.RecordBatch.from_arrays([column], [_COLUMN])
