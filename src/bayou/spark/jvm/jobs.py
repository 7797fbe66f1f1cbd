"""Cancellation of a session's jobs, settings of the scheduler, and deletion of shuffle files."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayou.spark.jvm.objects import JvmError, error_reason, tested_with

__all__ = [
    "cancel_jobs",
    "delete_shuffle_files",
    "is_session_active",
    "max_task_attempts",
    "without_call_logs",
]

_LOG = logging.getLogger(__name__)


@tested_with("4.2", "4.3")
def is_session_active(spark: Any) -> bool:
    """Whether a session can still run jobs."""
    return spark.sparkContext._jsc is not None  # None after stop()


@tested_with("4.3")
def cancel_jobs(spark: Any, tag: str) -> None:
    """Cancel the running jobs that have a tag. Does nothing after the session has stopped.

    The function tries up to three times. The first try can fail after Ctrl+C, because Ctrl+C also
    ends the interrupted thread's connection to the JVM. If all tries fail, or if the JVM has ended,
    a warning is logged.
    """
    for _ in range(3):
        try:
            with without_call_logs():
                if is_session_active(spark):
                    spark.sparkContext.cancelJobsWithTag(tag)
        except ConnectionRefusedError:  # nothing listens on the JVM's port
            _LOG.warning(
                "Jobs with the tag %s: they can't be canceled, because Spark's JVM has ended. "
                "Start a new Spark session.",
                tag,
            )
            return
        except (JvmError, ConnectionError) as error:
            reason = error_reason(error)
        else:
            return
    _LOG.warning(
        "Jobs with the tag %s: Spark can't cancel them: %s. They run until they finish; cancel "
        "them in Spark's web UI.",
        tag,
        reason,
    )


@tested_with("4.3")
@contextlib.contextmanager
def without_call_logs() -> Iterator[None]:
    """Context manager for calls that may fail: py4j logs no tracebacks in its block."""
    root = logging.getLogger()
    root.addFilter(_is_not_of_py4j)
    try:
        yield
    finally:
        root.removeFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


@tested_with("4.2", "4.3")
def max_task_attempts(spark: Any) -> int:
    """Return the maximum number of attempts of a task (`spark.task.maxFailures`)."""
    return int(spark.sparkContext._jsc.sc().taskScheduler().maxTaskFailures())


@tested_with("4.3")
def delete_shuffle_files(rdd: Any) -> None:
    """Delete the files of an RDD's shuffle. Spark would delete them after a garbage collection."""
    rdd._jrdd.rdd().cleanShuffleDependencies(False)
