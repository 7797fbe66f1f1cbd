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
"""Errors that may be transient, so that a failed batch is retried."""


class BatchFailedError(PipelineError):
    """A batch and all its retries failed with an error that may be transient."""


_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


def retry_delay(retry: int) -> float:
    """Return the number of seconds to wait before a retry.

    The number doubles with each retry, up to 30 seconds.

    Args:
        retry: the number of the retry, from 1.
    """
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (retry - 1)))


def restart_interval(topic: Topic, error: BayouError | None) -> float | None:
    """Return the number of seconds until a topic that failed with `error` is restarted.

    None if the topic isn't restarted.
    """
    transient = isinstance(error, (*TRANSIENT_ERRORS, BatchFailedError))
    if not transient or isinstance(error, RecordsLostError):
        return None
    return topic.config.processing.restart_interval or None


def attempt_failed_event(
    topic: Topic, what: Literal["batch", "topic", "registration"], retry: int, error: BayouError
) -> AttemptFailed:
    """Return the event for a failed attempt that will be retried.

    Args:
        what: the operation that failed; see `AttemptFailed`.
        retry: the number of the next retry, from 1.
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
