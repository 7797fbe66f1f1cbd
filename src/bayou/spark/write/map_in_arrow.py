"""Writes a DataFrame's rows to data files on executors, with `mapInArrow`.

A task returns the actions of its files, or its error. An error therefore doesn't fail the Spark
job: the other tasks finish, and the driver can delete the files of all tasks. Spark discards the
results of killed attempts and of redundant speculative tasks. Their files aren't committed.
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
)
from bayou.spark.executors.jobs import TaggedJobs, failure_reports, report_failure
from bayou.spark.executors.small_rows import ArrowInput, unmarked, with_small_rows
from bayou.spark.executors.versions_read import versions_read
from bayou.spark.jvm.jobs import max_task_attempts
from bayou.spark.write.started_write import StartedWrite
from bayou.spark.write.tasks import task_number

_LOG = logging.getLogger(__name__)
_COLUMN = "actions"
_VERSIONS = "versions_read"


def write_frame(
    frame: Any, started: StartedWrite, tasks: int | None = None
) -> tuple[list[bytes], frozenset[int]]:
    """Write the rows of a DataFrame to data files, without a commit.

    If the write fails, the files of successful tasks are deleted before the error is raised.

    Args:
        tasks: maximum number of tasks; None if it is unknown. The values of identity columns depend
            on this number.

    Returns:
        The results of the tasks for `StartedWrite.commit`, and the versions of the target table
        that the tasks have read. The tasks report these versions only for an overwrite.
    """
    return with_small_rows(frame, started.plan.table, lambda rows: _write(rows, started, tasks))


def _write(
    rows: ArrowInput, started: StartedWrite, tasks: int | None
) -> tuple[list[bytes], frozenset[int]]:
    spark = rows.frame.sparkSession
    jobs = TaggedJobs(spark, f"Write to {started.plan.table}")
    # The accumulator has the results of successful tasks even if the job fails.
    finished = spark.sparkContext.accumulator([], TaskResults())
    failures = failure_reports(spark, jobs)
    writer = _TaskWriter(started, tasks, finished, failures, max_task_attempts(spark))
    try:
        with jobs.tagged():
            schema = f"{_COLUMN} binary, {_VERSIONS} array<bigint>"
            results = rows.collect(rows.map(writer, schema))
        written, failure = decode_results(bytes(row[_COLUMN]) for row in results)
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
        raise failure from None  # the cause of the job's cancellation
    return written, frozenset(version for row in results for version in row[_VERSIONS])


class _TaskWriter:
    """The function that `mapInArrow` calls to write the rows of a task. It can be pickled."""

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
            rows = unmarked(batches)
            return self._started.write_task(rows, task_number(), self._tasks)

        with readable_errors():
            result = encode_result(run, self._attempts)
            if is_failure(result):
                report_failure(self._failures)
                for _ in batches:  # Spark requires that all input is consumed
                    pass
            self._finished.add([result])
            plan, overwrites = self._started.plan, self._started.write.overwrites
            versions = sorted(versions_read(plan.table)) if overwrites else []
            columns: list[Any] = [
                pa.array([result], pa.binary()),
                pa.array([versions], pa.list_(pa.int64())),
            ]
            yield pa.RecordBatch.from_arrays(columns, [_COLUMN, _VERSIONS])
