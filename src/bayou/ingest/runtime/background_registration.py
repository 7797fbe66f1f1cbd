"""Updates the catalog entry of a topic's table in the background, without delaying batches."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pyspark.sql import SparkSession

from bayou.errors import BayouError, StorageError
from bayou.ingest.background_task import BackgroundTask
from bayou.ingest.retries import retry_delay
from bayou.ingest.runtime.catalog_registration import Registration
from bayou.ingest.spark_errors import SparkFailedError, to_bayou_error

_RETRIED = (StorageError, SparkFailedError)
"""Errors after which an update is retried. They don't stop the topic."""

_END_SECONDS = 2.0


class BackgroundRegistration:
    """Updates a table's catalog entry in a background thread, after `request` was called.

    Args:
        topic: the topic's key, for messages.
        slots: semaphore that limits the number of concurrent updates.
        on_failure: function that is called before a retry. Its arguments are the error, the number
            of consecutive failures, and the seconds until the retry.
        stops: whether a permanent error, such as a name that belongs to another table, stops the
            topic. False for tables whose names depend on the values of records, because a record
            must not stop its topic.
    """

    def __init__(
        self,
        topic: str,
        registration: Registration,
        *,
        slots: AbstractContextManager[Any],
        on_failure: Callable[[BayouError, int, float], None],
        stops: bool = True,
    ) -> None:
        self._topic = topic
        self._registration = registration
        self._slots = slots
        self._on_failure = on_failure
        self._stops = stops
        self._task: BackgroundTask | None = None
        self._is_requested = False
        self._due = 0.0
        self._failures = 0

    def request(self) -> None:
        """Request an update, which a later call of `poll` starts.

        After a failed update, `poll` waits until the retry is due.
        """
        self._is_requested = True

    def poll(self, spark: SparkSession) -> None:
        """Start an update if an update was requested and is due. Doesn't wait for the update.

        Raises:
            BayouError: the last update has failed with a permanent error.
        """
        if self._task is not None:
            if self._task.is_running:
                return
            self._end_task()
        if self._is_requested and time.monotonic() >= self._due:
            self._is_requested = False
            self._task = BackgroundTask(lambda: self._update(spark))

    def end(self, spark: SparkSession) -> None:
        """Wait up to two seconds for a requested update.

        If the update takes longer, the next run repeats it.
        """
        if self._is_requested and self._task is None and not self._failures:
            self._task = BackgroundTask(lambda: self._update(spark))
        if self._task is not None:
            self._task.wait(_END_SECONDS)

    def complete(self, spark: SparkSession) -> None:
        """Update the catalog entry in the calling thread, after an update in progress has ended.

        Raises:
            BayouError: the update failed.
        """
        if self._task is not None:
            with contextlib.suppress(Exception):
                self._task.finish()
            self._task = None
        self._is_requested = False
        try:
            self._registration.update(spark)
        except Exception as exception:
            raise to_bayou_error(exception, self._topic) from exception

    def _update(self, spark: SparkSession) -> None:
        with self._slots:
            self._registration.update(spark)

    def _end_task(self) -> None:
        task, self._task = self._task, None
        assert task is not None
        try:
            task.finish()
        except Exception as exception:
            error = to_bayou_error(exception, self._topic)
            if self._stops and not isinstance(error, _RETRIED):
                raise error from exception
            self._failures += 1
            pause = retry_delay(self._failures)
            self._due = time.monotonic() + pause
            self._is_requested = True
            self._on_failure(error, self._failures, pause)
        else:
            self._failures = 0
