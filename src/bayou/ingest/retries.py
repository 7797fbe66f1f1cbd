"""What is tried again after it failed, and how long is waited before."""

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
from bayou.ingest.topic_errors import SparkFailedError

__all__ = [
    "WORTH_A_RETRY",
    "BatchFailedError",
    "failed_attempt",
    "pause_before",
    "restart_interval",
]

WORTH_A_RETRY = (
    StorageError,
    CommitFailedError,
    CommitConflictError,
    KafkaError,
    SparkFailedError,
)
"""Errors of a batch that another attempt may not meet."""


class BatchFailedError(PipelineError):
    """A batch failed, and so did as many retries as there may be, at what may pass."""


_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


def pause_before(retry: int) -> float:
    """Seconds before a retry, the first of which is number 1; each twice the one before."""
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (retry - 1)))


def restart_interval(topic: Topic, error: BayouError | None) -> float | None:
    """Seconds until a topic that an error stopped is begun again; None where it stays stopped."""
    passes = isinstance(error, (*WORTH_A_RETRY, BatchFailedError))
    if not passes or isinstance(error, RecordsLostError):
        return None
    return topic.config.processing.restart_interval or None


def failed_attempt(
    topic: Topic, what: Literal["batch", "topic"], retry: int, error: BayouError
) -> AttemptFailed:
    """What is told of a failure before it is tried again.

    Args:
        retry: the number of the next attempt, 1 for the first retry.
    """
    return AttemptFailed(
        topic=topic.key,
        what=what,
        retry=retry,
        of=topic.config.processing.max_retries,
        pause=pause_before(retry),
        conflict=isinstance(error, CommitConflictError),
        error=error,
    )
