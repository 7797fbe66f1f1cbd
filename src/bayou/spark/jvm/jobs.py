"""Cancellation of a session's jobs, and settings of the scheduler."""

from __future__ import annotations

import logging
from typing import Any

from bayou.spark.jvm.objects import JvmError, error_reason, tested_with

__all__ = ["cancel_jobs", "is_session_active", "max_task_attempts"]

_LOG = logging.getLogger(__name__)


@tested_with("4.2", "4.3")
def is_session_active(spark: Any) -> bool:
    """Whether a session can still run jobs."""
    return spark.sparkContext._jsc is not None  # None after stop()


@tested_with("4.3")
def cancel_jobs(spark: Any, tag: str) -> None:
    """Cancel the running jobs with a tag. Has no effect after the session was stopped.

    A first call can fail, because an interruption also ends the thread's connection to the JVM. If
    three calls fail, a warning is logged.
    """
    for _ in range(3):
        try:
            if is_session_active(spark):
                spark.sparkContext.cancelJobsWithTag(tag)
        except JvmError as error:
            reason = error_reason(error)
        else:
            return
    _LOG.warning(
        "Jobs with the tag %s: Spark can't cancel them: %s. They run until they finish; cancel "
        "them in Spark's web UI.",
        tag,
        reason,
    )


@tested_with("4.2", "4.3")
def max_task_attempts(spark: Any) -> int:
    """Number of attempts of a task after which the job fails (`spark.task.maxFailures`)."""
    return int(spark.sparkContext._jsc.sc().taskScheduler().maxTaskFailures())
