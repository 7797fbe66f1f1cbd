"""Rows of a DataFrame to data files on executors, by `mapInArrow`.

One job: each task writes its rows where they will stay and sends back the actions of its files. Of
attempts that fail, or that a faster copy overtakes, nothing is sent back; what those leave behind
is no part of the table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam

from bayou.errors import BayouError
from bayou.spark.errors import readable_errors
from bayou.spark.writing.begun import BegunWrite
from bayou.spark.writing.tasks import task_number

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
        Exception: as Spark throws it. What tasks that succeeded wrote has been deleted.
    """
    # Of a job that fails Spark gives no results; what tasks add here it brings all the same.
    finished = frame.sparkSession.sparkContext.accumulator([], _Messages())
    writer = _TaskWriter(begun, tasks, finished)
    try:
        rows = frame.mapInArrow(writer, f"{_COLUMN} binary").collect()
    except BaseException:
        try:
            begun.delete(finished.value)
        except BayouError as error:
            _LOG.warning("Files of a failed write to %s stay: %s", begun.plan.table, error)
        raise
    return [bytes(row[_COLUMN]) for row in rows]


class _Messages(AccumulatorParam[list[bytes]]):
    def zero(self, value: list[bytes]) -> list[bytes]:
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:  # noqa: N802
        value1.extend(value2)
        return value1


class _TaskWriter:
    """The part of one task; pickles."""

    def __init__(
        self, begun: BegunWrite, tasks: int | None, finished: Accumulator[list[bytes]]
    ) -> None:
        self._begun = begun
        self._tasks = tasks
        self._finished = finished

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with readable_errors():
            actions = self._begun.write_task(batches, task_number(), self._tasks)
            if actions:
                self._finished.add([actions])
                column: Any = pa.array([actions], pa.binary())
                yield pa.RecordBatch.from_arrays([column], [_COLUMN])
