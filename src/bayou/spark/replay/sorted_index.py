"""Initial snapshots of large tables, sorted by Spark jobs for streams that are planned elsewhere.

A stream of a Python source is planned in a process without a session. After `enable` the driver's
process gives it a folder, watches that, and sorts there by a `DistributedScan` when it is asked to:
a query that goes on behind its initial snapshot never asks.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.engines import for_path
from bayou.errors import BayouError
from bayou.kernel import Engine, Snapshot, Table
from bayou.kernel.changes.path_order import path_order
from bayou.kernel.file_actions import tail_bytes
from bayou.spark.replay.builder import LOCAL_BYTES
from bayou.spark.replay.initial_snapshot import initial_snapshot_scan
from bayou.spark.replay.snapshot_cache import latest_snapshot
from bayou.spark.requests import ReadRequest
from bayou.spark.settings import INITIAL_SNAPSHOT_NUM_PARTITIONS, REPLAY_LOCAL_BYTES
from bayou.spark.storage_options import storage_options
from bayou.spark.streaming.handed_index import ALIVE, FAILED, WANTED, IndexRequest, requests
from bayou.spark.streaming.options import INDEX_FOLDER
from bayou.spark.streaming.sorted_files import SortedFiles

__all__ = ["offer_sorted_index", "write_index"]

_LOG = logging.getLogger(__name__)
_POLL = 0.2

pc: Any = pyarrow.compute


def offer_sorted_index(request: ReadRequest) -> Any:
    """Let executors sort the initial snapshot of a stream, where its table is large; declines."""
    given = {key.lower() for key in request.options}
    starts_somewhere = given & {"startingversion", "startingtimestamp", INDEX_FOLDER}
    if request.connect or starts_somewhere or len(request.paths) != 1:
        return NotImplemented
    (path,) = request.paths
    engine = for_path(path, storage_options(request.options))
    try:
        if _is_large(request.spark, latest_snapshot(engine, path)):
            folder = Path(tempfile.mkdtemp(prefix="bayou-index-"))
            (folder / ALIVE).touch()
            _Keeper(request.spark, engine, path, folder).start()
            request.reader.option(INDEX_FOLDER, str(folder))
    except BayouError:
        pass  # the source says what is wrong, as it does without a session
    return NotImplemented


def write_index(spark: Any, engine: Engine, snapshot: Snapshot, folder: Path) -> None:
    """Sort a version's files by a Spark job and write them to a folder, for `SortedFiles.open`."""
    scan = initial_snapshot_scan(spark, snapshot)

    def files() -> Iterator[tuple[pa.StructArray, pa.Array[Any]]]:
        with scan.scan_files(engine) as batches:
            for batch in batches:
                adds: Any = batch.selected().column("add")
                yield adds, path_order(pc.struct_field(adds, "path"))

    SortedFiles.write(files(), folder)


def _is_large(spark: Any, snapshot: Snapshot) -> bool:
    if INITIAL_SNAPSHOT_NUM_PARTITIONS.integer(spark=spark) is not None:
        return True
    limit = REPLAY_LOCAL_BYTES.integer(spark=spark)
    return snapshot.checkpoint_bytes + tail_bytes(snapshot) > (
        LOCAL_BYTES if limit is None else limit
    )


class _Keeper(threading.Thread):
    """Watches one folder for as long as the session lives, then deletes it."""

    def __init__(self, spark: Any, engine: Engine, path: str, folder: Path) -> None:
        super().__init__(target=self._watch, name="bayou-index", daemon=True)
        self._spark = spark
        self._engine = engine
        self._path = path
        self._folder = folder
        self._waiting = threading.Event()

    def _watch(self) -> None:
        try:
            while self._spark.sparkContext._jsc is not None:  # noqa: SLF001  # None: it was stopped
                (self._folder / ALIVE).touch()
                for request in requests(self._folder):
                    (request.folder / WANTED).unlink(missing_ok=True)
                    threading.Thread(target=self._answer, args=(request,), daemon=True).start()
                self._waiting.wait(_POLL)
        except OSError as error:
            _LOG.warning("Streams of %s sort their files themselves: %s", self._path, error)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _answer(self, request: IndexRequest) -> None:
        try:
            table = Table.for_path(self._engine, self._path)
            snapshot = table.snapshot_as_of_version(self._engine, request.version)
            if snapshot.table_id != request.table_id:
                raise BayouError(f"{table.path} was replaced by another table")
            write_index(self._spark, self._engine, snapshot, request.folder)
        except Exception as error:  # noqa: BLE001  # whatever it is, the stream helps itself
            _LOG.warning("A stream of %s sorts its files itself: %s", self._path, error)
            request.folder.mkdir(exist_ok=True)
            (request.folder / FAILED).touch()
