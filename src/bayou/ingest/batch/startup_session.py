"""Runs the first micro-batches of a pipeline without Spark, while Spark starts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bayou.errors import PipelineError
from bayou.ingest.batch.startup_worker import read_message, write_message
from bayou.ingest.local_state import state_path_error

MAX_RECORDS = 20_000
"""Maximum number of records of a batch while Spark starts."""


class StartupSession:
    """Runs tasks in one process, in place of the Spark session, until Spark has started.

    It has the methods of SparkSession, SparkContext and RDD that a micro-batch calls. Tasks run one
    after the other. If a task fails or ends the process, the task runs again in Spark after Spark
    has started, so that errors are the same as in a Spark session.

    Args:
        conf: the settings of the Spark session.
        log: file for the stderr of the process.
    """

    defaultParallelism = 1  # noqa: N815  # Spark's name

    def __init__(self, conf: Mapping[str, str], log: Path) -> None:
        self.conf = dict(conf)
        self._spark: SparkSession | None = None
        self._is_decided = threading.Event()
        self._is_needed = threading.Event()
        self._is_ending = False
        self._in_task = threading.Lock()
        try:
            stderr = log.open("ab")
            stderr.truncate(0)  # as the start of Spark does
        except OSError as error:
            raise state_path_error(log, error) from error
        with stderr:
            self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
                [sys.executable, "-m", "bayou.ingest.batch.startup_worker"],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )

    @property
    def sparkContext(self) -> StartupSession:  # noqa: N802  # Spark's name
        """This object, which is its own SparkContext."""
        return self

    def setJobDescription(self, description: str) -> None:  # noqa: N802  # Spark's name
        """Do nothing: there is no job."""

    def setLocalProperty(self, key: str, value: str) -> None:  # noqa: N802  # Spark's name
        """Do nothing: there are no jobs."""

    def parallelize(self, values: Iterable[Any], _slices: int) -> _Tasks:
        """Return one task for each value; `map` sets the function that the tasks call."""
        return _Tasks(self, list(values))

    def started(self, spark: SparkSession) -> None:
        """Set the Spark session that was started.

        The next tasks run in Spark, so the process of this object ends after its current task.
        """
        self._spark = spark
        self._is_decided.set()
        self._is_ending = True
        if self._in_task.acquire(blocking=False):
            try:
                self._end_process()
            finally:
                self._in_task.release()

    def not_started(self) -> None:
        """Make all calls of `spark_session` raise an error, because Spark can't be started."""
        self._is_decided.set()

    def close(self) -> None:
        """End the process. Waiting calls of `spark_session` raise an error."""
        self._is_decided.set()
        process = self._process
        if process is not None:
            process.kill()
        with self._in_task:
            self._end_process()

    @property
    def is_spark_needed(self) -> bool:
        """Whether a batch has called `spark_session`, because it needs Spark."""
        return self._is_needed.is_set()

    def spark_session(self) -> SparkSession:
        """Wait until Spark has started, and return its session.

        Raises:
            PipelineError: Spark didn't start, or the run has ended.
        """
        self._is_needed.set()
        self._is_decided.wait()
        if self._spark is None:
            raise PipelineError("the pipeline was stopped before Spark had started.", topic="")
        return self._spark

    def run(self, task: Callable[[Any], Any], value: Any) -> tuple[bool, Any]:
        """Run a task in the process.

        Returns:
            Whether the task was successful, and its result.
        """
        with self._in_task:
            process = self._process
            if process is None:
                return False, None
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                write_message(process.stdin, (task, value))
                successful, result = read_message(process.stdout)
            except (OSError, EOFError):
                self._is_ending = True
                successful, result = False, None
            if self._is_ending:
                self._end_process()
            return successful, result

    def _end_process(self) -> None:
        """End the process. The caller holds the lock `_in_task`."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        process.kill()
        process.wait()


class _Tasks:
    """The methods of RDD that a micro-batch calls."""

    def __init__(
        self, session: StartupSession, values: list[Any], task: Callable[[Any], Any] | None = None
    ) -> None:
        self._session = session
        self._values = values
        self._task = task

    def map(self, task: Callable[[Any], Any]) -> _Tasks:
        """Return tasks that call `task` with each value."""
        return _Tasks(self._session, self._values, task)

    def collect(self) -> list[Any]:
        """Run the tasks, and return their results in order."""
        assert self._task is not None
        results: list[Any] = []
        for done, value in enumerate(self._values):
            successful, result = self._session.run(self._task, value)
            if not successful:
                remaining = self._values[done:]
                context = self._session.spark_session().sparkContext
                return (
                    results
                    + context.parallelize(remaining, len(remaining)).map(self._task).collect()
                )
            results.append(result)
        return results


def spark_session(session: SparkSession | StartupSession) -> SparkSession:
    """Return the Spark session; if Spark is starting, wait until it has started."""
    return session.spark_session() if isinstance(session, StartupSession) else session
