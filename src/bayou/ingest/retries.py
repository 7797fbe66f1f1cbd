"""What is tried again after it failed, and how long is waited before."""

from __future__ import annotations

from typing import Literal

from bayou.errors import (
    BayouError,
    CommitConflictError,
    CommitFailedError,
    KafkaError,
    StorageError,
)
from bayou.ingest.config import Topic
from bayou.ingest.progress import AttemptFailed
from bayou.ingest.spark_errors import SparkFailedError

__all__ = ["WORTH_A_RETRY", "failed_attempt", "pause_before"]

WORTH_A_RETRY = (
    StorageError,
    CommitFailedError,
    CommitConflictError,
    KafkaError,
    SparkFailedError,
)
"""Errors of a batch that another attempt may not meet."""

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0


def pause_before(retry: int) -> float:
    """Seconds before a retry, the first of which is number 1; each twice the one before."""
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (retry - 1)))


def failed_attempt(
    topic: Topic, what: Literal["batch", "query"], retry: int, error: BayouError
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
