"""The retry policy: which errors are retried, and how long to wait before each retry."""

from __future__ import annotations

from typing import Literal

from bayou.errors import (
    BayouError,
    CommitConflictError,
    CommitFailedError,
    KafkaError,
    PipelineError,
    RecordsLostError,
    StorageError,
)
from bayou.ingest.config import Topic
from bayou.ingest.events import AttemptFailed
from bayou.ingest.spark_errors import SparkFailedError

TRANSIENT_ERRORS = (
    StorageError,
    CommitFailedError,
    CommitConflictError,
    KafkaError,
    SparkFailedError,
)
"""Errors of a batch that may be transient."""


class BatchFailedError(PipelineError):
    """A batch failed with a transient error, and all retries failed too."""


_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


def retry_delay(retry: int) -> float:
    """Return the seconds to wait before a retry.

    The wait doubles with each retry, up to 30 seconds. `retry` is the number of the retry, from 1.
    """
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (retry - 1)))


def restart_interval(topic: Topic, error: BayouError | None) -> float | None:
    """Return the seconds until a topic that failed with `error` is started again.

    Returns None if the topic isn't started again.
    """
    transient = isinstance(error, (*TRANSIENT_ERRORS, BatchFailedError))
    if not transient or isinstance(error, RecordsLostError):
        return None
    return topic.config.processing.restart_interval or None


def attempt_failed_event(
    topic: Topic, what: Literal["batch", "topic", "registration"], retry: int, error: BayouError
) -> AttemptFailed:
    """Return the event for a failed attempt that will be retried.

    `retry` is the number of the next retry, from 1. `what` is the operation that failed: a batch, a
    request to brokers or tables (`topic`), or an update of a catalog entry (`registration`).
    """
    return AttemptFailed(
        topic=topic.key,
        what=what,
        retry=retry,
        of=topic.config.processing.max_retries,
        pause=retry_delay(retry),
        conflict=isinstance(error, CommitConflictError),
        error=error,
    )
