"""Streams that begin behind the latest commit: they wait for the next one without a first batch.

Spark's `MicroBatchExecution.constructNextBatch` runs a batch wherever a source's end isn't the
start that it knows, and for a stream without a checkpoint it knows none
(`isNewDataAvailable`, `getOrElse(true)`); `PythonMicroBatchStreamWithAdmissionControl.latestOffset`
never answers null, by which a source of the JVM says that there is no end yet. So the driver's
process sets the start in the query's `StreamExecutionContext` while the source waits for that.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError

from bayou.spark.hooks.requests import ReadRequest
from bayou.spark.jvm.classes import java_class
from bayou.spark.streaming.driver_files import FAILED, session_lives, watch
from bayou.spark.streaming.options import DRIVER_FOLDER, LATEST
from bayou.spark.streaming.starting_version import STARTED, WAITS, WaitingStream, waiting_streams

__all__ = ["offer_to_wait"]

_LOG = logging.getLogger(__name__)
_PROGRESS = "org.apache.spark.sql.execution.streaming.runtime.StreamProgress"


def offer_to_wait(request: ReadRequest) -> Any:
    """Let a stream with `startingVersion` `latest` wait for a commit; declines."""
    given = {key.lower(): value for key, value in request.options.items()}
    if request.connect or len(request.paths) != 1 or DRIVER_FOLDER in given:
        return NotImplemented
    if given.get("startingversion", "").lower() == LATEST:
        offer = _Offer(spark=request.spark, path=request.paths[0])
        request.reader.option(DRIVER_FOLDER, str(watch(offer)))
    return NotImplemented


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """Queries of the session's application that read through a folder may wait."""

    spark: Any
    path: str

    @property
    def holds(self) -> bool:
        return session_lives(self.spark)

    def look_into(self, folder: Path) -> None:
        for waiting in waiting_streams(folder):
            (waiting.folder / WAITS).unlink(missing_ok=True)
            threading.Thread(target=self.answer, args=(folder, waiting), daemon=True).start()

    def answer(self, folder: Path, waiting: WaitingStream) -> None:
        """Tell Spark where the stream begins, or the stream that nobody could."""
        try:
            told = _tell(self.spark, str(folder), waiting.offset)
        except Py4JError as error:
            _LOG.warning(
                "This Spark keeps the offsets of queries in another way than Bayou knows; a "
                "stream of %s begins with an empty batch (%s).",
                self.path,
                str(error).splitlines()[0],
            )
            told = False
        with contextlib.suppress(OSError):
            (waiting.folder / (STARTED if told else FAILED)).touch()


def _tell(spark: Any, folder: str, offset: str) -> bool:
    """Set a stream's start in the one query that is new and reads through a folder."""
    session = spark._jsparkSession  # noqa: SLF001  # published nowhere, as all that follows
    found = []
    for query in session.sharedState().activeStreamingQueries().values():
        stream = _new_stream(query, folder)
        if stream is not None:
            found.append((query.getLatestExecutionContext(), stream))
    if len(found) != 1:  # queries of one `load()` that begin at once can't be told apart
        return False
    ((context, stream),) = found
    jvm = spark._jvm  # noqa: SLF001
    begin = stream.deserializeOffset(offset)
    # Not `++`: the JVM has it in several forms, and py4j takes any of them.
    known = context.startOffsets().updated(stream, begin)
    progress = java_class(jvm, "org.apache.spark.sql.execution.streaming.runtime.StreamProgress")(
        known
    )
    getattr(context, "startOffsets_$eq")(progress)
    return True


def _new_stream(query: Any, folder: str) -> Any:
    """A query's source that reads through a folder and hasn't begun; None without one."""
    try:
        leaves = query.logicalPlan().collectLeaves()
    except Py4JError:  # it isn't planned yet, so it waits for nothing
        return None
    context = query.getLatestExecutionContext()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.nodeName() != "StreamingDataSourceV2ScanRelation":
            continue
        if leaf.relation().options().get(DRIVER_FOLDER) == folder:
            stream = leaf.stream()
            return None if context.startOffsets().contains(stream) else stream
    return None
