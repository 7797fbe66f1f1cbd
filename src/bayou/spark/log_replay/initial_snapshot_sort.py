"""Sorts the files of a large initial snapshot with Spark jobs, when a stream requests it.

Spark plans a stream of a Python data source in a separate process without a session. This planning
process shares a folder with the driver's process. The stream writes a request to the folder. The
driver's process responds with the sorted files of a `DistributedScan`. A query that has already
read its initial snapshot sends no request.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bayou.errors import BayouError
from bayou.kernel import Engine, Snapshot, Table
from bayou.kernel.arrow.compute import pc
from bayou.kernel.log.file_actions import tail_bytes
from bayou.kernel.table_changes.change_plan import path_order
from bayou.spark.hooks.requests import ReadRequest
from bayou.spark.jvm.jobs import is_session_active
from bayou.spark.log_replay.builder import LOCAL_BYTES
from bayou.spark.log_replay.initial_snapshot import initial_snapshot_scan
from bayou.spark.log_replay.snapshot_cache import latest_snapshot
from bayou.spark.session.hadoop_storage import session_engine
from bayou.spark.session.settings import INITIAL_SNAPSHOT_NUM_PARTITIONS, REPLAY_LOCAL_BYTES
from bayou.spark.streaming.driver_files import (
    FAILED,
    WANTED,
    IndexRequest,
    index_requests,
    watch,
)
from bayou.spark.streaming.options import DRIVER_FOLDER
from bayou.spark.streaming.sorted_files import SortedFiles

_LOG = logging.getLogger(__name__)


def respond_to_stream(request: ReadRequest) -> Any:
    """Handler of the hook `stream_load`: watch a folder for requests from a stream.

    The stream requests the sorted files of its initial snapshot. The folder is created only if the
    table's log is large, or if the number of sort tasks is set. A read option passes the folder's
    path to the stream. Always returns NotImplemented, so that Spark's own `load` is called.
    """
    names = {key.lower() for key in request.options}
    without_snapshot = names & {"startingversion", "startingtimestamp", DRIVER_FOLDER}
    if request.connect or without_snapshot or len(request.paths) != 1:
        return NotImplemented
    (path,) = request.paths
    spark = request.spark
    tasks = INITIAL_SNAPSHOT_NUM_PARTITIONS.integer(request.options, spark)
    try:
        engine = session_engine(spark, path, request.options)
        if tasks is not None or _is_large(spark, latest_snapshot(engine, path, spark)):
            handler = _SortRequestHandler(
                spark=spark, engine=engine, path=path, num_partitions=tasks
            )
            request.reader.option(DRIVER_FOLDER, str(watch(handler)))
    except BayouError:
        pass  # the data source will raise the error
    return NotImplemented


def write_index(
    spark: Any,
    engine: Engine,
    snapshot: Snapshot,
    folder: Path,
    num_partitions: int | None = None,
) -> None:
    """Sort a version's files with Spark, and write the sorted list to a folder.

    `SortedFiles.open` reads the folder.
    """
    scan = initial_snapshot_scan(spark, snapshot, num_partitions)

    def files() -> Iterator[tuple[pa.StructArray, pa.Array[Any]]]:
        with scan.scan_files(engine) as batches:
            for batch in batches:
                adds: Any = batch.selected().column("add")
                yield adds, path_order(pc.struct_field(adds, "path"))

    SortedFiles.write(files(), folder)


def _is_large(spark: Any, snapshot: Snapshot) -> bool:
    limit = REPLAY_LOCAL_BYTES.integer(spark=spark, default=LOCAL_BYTES)
    return snapshot.checkpoint_bytes + tail_bytes(snapshot) > limit


@dataclass(frozen=True, slots=True, kw_only=True)
class _SortRequestHandler:
    """The `RequestHandler` that responds to requests for the sorted files of a table."""

    spark: Any
    engine: Engine
    path: str
    num_partitions: int | None

    @property
    def is_active(self) -> bool:
        return is_session_active(self.spark)

    def handle_requests(self, folder: Path) -> None:
        for request in index_requests(folder):
            (request.folder / WANTED).unlink(missing_ok=True)
            threading.Thread(target=self.respond, args=(request,), daemon=True).start()

    def respond(self, request: IndexRequest) -> None:
        """Write the sorted list to the request's folder, or the file `FAILED` after an error."""
        try:
            table = Table.for_path(self.engine, self.path)
            snapshot = table.snapshot_as_of_version(self.engine, request.version)
            if snapshot.table_id != request.table_id:
                raise BayouError(f"Table {table.path}: it was replaced by another table.")
            write_index(self.spark, self.engine, snapshot, request.folder, self.num_partitions)
        except Exception as error:  # noqa: BLE001  # after any error, the stream sorts the files
            _LOG.warning(
                "Table %s: Spark can't sort the files of the initial snapshot (%s). The stream "
                "sorts them in its own process.",
                self.path,
                error,
            )
            with contextlib.suppress(OSError):
                request.folder.mkdir(exist_ok=True)
                (request.folder / FAILED).touch()
