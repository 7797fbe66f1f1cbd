"""The streaming query that finds a topic's batches; may be asked also where its JVM has ended."""

from __future__ import annotations

import contextlib
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from bayou.errors import BayouError
from bayou.ingest.topic_errors import as_error

__all__ = ["BatchQuery"]

_SPARK_IS_GONE = (Py4JError, ConnectionError)


class BatchQuery:
    """A query that was started.

    Args:
        topic: the topic's name in the configuration, for messages.
        state_path: what Spark writes to by itself.
    """

    def __init__(self, query: StreamingQuery, *, topic: str, state_path: Path) -> None:
        self._query = query
        self._topic = topic
        self._state_path = state_path
        self._unanswered: Exception | None = None

    @property
    def active(self) -> bool:
        """Whether it goes on by itself; not where Spark failed to say, which `failure` tells."""
        if self._unanswered is not None:
            return False
        try:
            return bool(self._query.isActive)
        except _SPARK_IS_GONE as error:
            self._unanswered = error
            return False

    def failure(self) -> BayouError | None:
        """Why it ended; None where it goes on, or has done all there was."""
        try:
            fault: Exception | None = self._query.exception() or self._unanswered
        except _SPARK_IS_GONE as error:
            fault = error
        return None if fault is None else as_error(fault, self._topic, self._state_path)

    def stop(self) -> None:
        """End it, whatever it does; Spark forgets its name."""
        with contextlib.suppress(*_SPARK_IS_GONE, PySparkException):
            self._query.stop()
