"""Spark jobs that can be recognised, and ended."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

__all__ = ["ReplayJobs"]


class ReplayJobs:
    """The jobs of one replay, started from one thread at a time.

    Args:
        spark: a session, classic or Connect; Connect's jobs have no description of ours.
        description: what Spark's UI shows for them.
    """

    def __init__(self, spark: Any, description: str) -> None:
        self._spark = spark
        self._description = description
        self._tag = f"bayou-{uuid.uuid4()}"

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Jobs that this thread starts within are these jobs; others keep their description."""
        if not isinstance(self._spark, SparkSession):
            self._spark.addTag(self._tag)
            try:
                yield
            finally:
                self._spark.removeTag(self._tag)
            return
        context = self._spark.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setJobDescription(self._description)
        context.addJobTag(self._tag)
        try:
            yield
        finally:
            context.removeJobTag(self._tag)
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # null unsets

    def cancel(self) -> None:
        """End those that are running; from any thread, also when the session has been stopped."""
        if not isinstance(self._spark, SparkSession):
            self._spark.interruptTag(self._tag)
            return
        with contextlib.suppress(Py4JError):
            if self._spark.sparkContext._jsc is not None:  # noqa: SLF001  # None: it was stopped
                self._spark.sparkContext.cancelJobsWithTag(self._tag)


_DESCRIPTION = "spark.job.description"
