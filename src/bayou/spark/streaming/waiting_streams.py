"""Prevents an empty first batch of a stream with `startingVersion` `latest`.

Such a stream reads only commits that are later than its start. Without this module, Spark would run
an empty batch before the first of these commits.

Spark runs a batch if a source's end offset differs from its start offset
(`MicroBatchExecution.constructNextBatch`). If a query has no checkpoint, its sources have no start
offset, and Spark runs a batch in any case. To prevent this batch, a JVM source can return null as
the end offset, but a Python source can't. Therefore the driver's process sets the start offset in
the query's `StreamExecutionContext`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayou.spark.hooks.requests import ReadRequest
from bayou.spark.jvm.jobs import is_session_active
from bayou.spark.jvm.objects import JvmError, error_reason
from bayou.spark.jvm.streaming import set_start_offset
from bayou.spark.streaming.driver_files import FAILED, watch
from bayou.spark.streaming.options import DRIVER_FOLDER, LATEST
from bayou.spark.streaming.starting_version import STARTED, WAITS, WaitingStream, waiting_streams

_LOG = logging.getLogger(__name__)


def respond_to_stream(request: ReadRequest) -> Any:
    """Handler of the hook `stream_load`: accept requests of a stream to set its start offset.

    If `startingVersion` is `latest`, the handler creates a folder for the requests. A background
    thread watches the folder. The stream gets the folder's path as a read option.

    Returns NotImplemented, so that Spark's `load` is called.
    """
    options = {key.lower(): value for key, value in request.options.items()}
    if request.connect or len(request.paths) != 1 or DRIVER_FOLDER in options:
        return NotImplemented
    if options.get("startingversion", "").lower() == LATEST:
        handler = _StartOffsetRequestHandler(spark=request.spark, path=request.paths[0])
        request.reader.option(DRIVER_FOLDER, str(watch(handler)))
    return NotImplemented


@dataclass(frozen=True, slots=True, kw_only=True)
class _StartOffsetRequestHandler:
    """The `RequestHandler` for requests to set the start offset of a waiting stream."""

    spark: Any
    path: str

    @property
    def is_active(self) -> bool:
        return is_session_active(self.spark)

    def handle_requests(self, folder: Path) -> None:
        for waiting in waiting_streams(folder):
            (waiting.folder / WAITS).unlink(missing_ok=True)
            threading.Thread(target=self.respond, args=(folder, waiting), daemon=True).start()

    def respond(self, folder: Path, waiting: WaitingStream) -> None:
        """Set the stream's start offset in Spark, and write the file `STARTED` or `FAILED`."""
        try:
            is_set = set_start_offset(self.spark, (DRIVER_FOLDER, str(folder)), waiting.offset)
        except JvmError as error:
            _LOG.warning(
                "Table %s: a stream with startingVersion latest starts with an empty batch, "
                "because the start offset can't be set in this version of Spark (%s).",
                self.path,
                error_reason(error),
            )
            is_set = False
        with contextlib.suppress(OSError):
            (waiting.folder / (STARTED if is_set else FAILED)).touch()
