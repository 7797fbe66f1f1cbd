"""Streams with `startingVersion` `latest` wait for a commit without an empty first batch.

Spark's `MicroBatchExecution.constructNextBatch` runs a batch if a source's end offset differs from
its start offset, or if it has no start offset, as in a stream without a checkpoint
(`isNewDataAvailable`, `getOrElse(true)`). A JVM source can return null for "no end offset yet", but
`PythonMicroBatchStreamWithAdmissionControl.latestOffset` never does. Therefore the driver's process
sets the start offset in the query's `StreamExecutionContext` while the source waits.
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
from bayou.spark.streaming.driver_files import FAILED, is_session_active, watch
from bayou.spark.streaming.options import DRIVER_FOLDER, LATEST
from bayou.spark.streaming.starting_version import STARTED, WAITS, WaitingStream, waiting_streams

__all__ = ["offer_to_wait"]

_LOG = logging.getLogger(__name__)
_PROGRESS = "org.apache.spark.sql.execution.streaming.runtime.StreamProgress"


def offer_to_wait(request: ReadRequest) -> Any:
    """Hook of `load`: let a stream from `latest` wait for a commit. Always NotImplemented."""
    options = {key.lower(): value for key, value in request.options.items()}
    if request.connect or len(request.paths) != 1 or DRIVER_FOLDER in options:
        return NotImplemented
    if options.get("startingversion", "").lower() == LATEST:
        offer = _Offer(spark=request.spark, path=request.paths[0])
        request.reader.option(DRIVER_FOLDER, str(watch(offer)))
    return NotImplemented


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """Handles the requests of streams that wait; see `driver_files.RequestHandler`."""

    spark: Any
    path: str

    @property
    def is_active(self) -> bool:
        return is_session_active(self.spark)

    def handle_requests(self, folder: Path) -> None:
        for waiting in waiting_streams(folder):
            (waiting.folder / WAITS).unlink(missing_ok=True)
            threading.Thread(target=self.answer, args=(folder, waiting), daemon=True).start()

    def answer(self, folder: Path, waiting: WaitingStream) -> None:
        """Set the stream's start offset in Spark, and report the result to the stream."""
        try:
            is_set = _set_start_offset(self.spark, str(folder), waiting.offset)
        except Py4JError as error:
            _LOG.warning(
                "Table %s: a stream with startingVersion latest starts with an empty batch, "
                "because the start offset can't be set in this version of Spark (%s).",
                self.path,
                str(error).splitlines()[0],
            )
            is_set = False
        with contextlib.suppress(OSError):
            (waiting.folder / (STARTED if is_set else FAILED)).touch()


def _set_start_offset(spark: Any, folder: str, offset: str) -> bool:
    """Set the start offset of the new query with a folder; False unless there is exactly one."""
    session = spark._jsparkSession  # noqa: SLF001  # no public API, here and below
    streams = []
    for query in session.sharedState().activeStreamingQueries().values():
        stream = _new_stream(query, folder)
        if stream is not None:
            streams.append((query.getLatestExecutionContext(), stream))
    if len(streams) != 1:  # concurrent queries of one `load()` can't be distinguished
        return False
    ((context, stream),) = streams
    jvm = spark._jvm  # noqa: SLF001
    start = stream.deserializeOffset(offset)
    # Not `++`: it is overloaded in the JVM, and py4j may choose the wrong overload.
    offsets = context.startOffsets().updated(stream, start)
    progress = java_class(jvm, _PROGRESS)(offsets)
    getattr(context, "startOffsets_$eq")(progress)
    return True


def _new_stream(query: Any, folder: str) -> Any:
    """A query's source that reads with a folder and has no start offset; None without one."""
    try:
        leaves = query.logicalPlan().collectLeaves()
    except Py4JError:  # the query isn't planned yet, so no source waits
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
