"""`SnapshotCache`: the latest snapshots of tables, in the driver's process.

A cached table costs one listing of the log, and a read of the commits that are new. The cache
doesn't contain lists of files, which scans replay. It contains parsed statistics, in up to half of
its memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from bayou.kernel import Engine, Snapshot, Table
from bayou.kernel.checkpoint.stats import CheckpointStatisticsCache, StatisticsCache
from bayou.spark.session.settings import SNAPSHOT_CACHE_BYTES

__all__ = ["DEFAULT_MAX_BYTES", "SnapshotCache", "clear_cache", "latest_snapshot"]

DEFAULT_MAX_BYTES = 256 * 1024 * 1024


class SnapshotCache:
    """The latest known snapshot of each table, up to a maximum size; thread-safe.

    The least recently used tables are evicted first. Readers with different credentials share no
    entries. A table that was recreated at the same path is detected by its log listing.

    Args:
        max_bytes: approximate maximum memory of snapshots and statistics; a larger snapshot isn't
            cached.
    """

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._snapshots: OrderedDict[tuple[str, bytes], Snapshot] = OrderedDict()
        self._bytes = 0
        self._statistics = StatisticsCache(max_bytes // 2)
        self._generation = 0

    @property
    def memory_bytes(self) -> int:
        """The approximate memory of the cache's entries."""
        return self._bytes + self._statistics.memory_bytes

    def __len__(self) -> int:
        """The number of cached tables."""
        return len(self._snapshots)

    def latest(self, engine: Engine, path: str, max_bytes: int | None = None) -> Snapshot:
        """The current latest snapshot of the table at a path.

        Args:
            engine: reads the log.
            path: the table's path.
            max_bytes: a new maximum size of the cache; None to leave it unchanged.

        Raises:
            TableNotFoundError, CorruptTableError, UnsupportedFeatureError: see
                `Table.latest_snapshot`.
        """
        table = Table.for_path(engine, path)
        key = (table.path, engine.description().to_bytes())
        with self._lock:
            if max_bytes is not None:
                self._max_bytes = max_bytes
                self._statistics.set_max_bytes(max_bytes // 2)
            cached, generation = self._snapshots.get(key), self._generation
        try:
            latest = table.latest_snapshot(engine) if cached is None else cached.refreshed(engine)
            if latest.known_statistics is None:
                latest = latest.with_statistics_cache(CheckpointStatisticsCache(self._statistics))
        except BaseException:
            self._remove(key)
            raise
        self._put(key, latest, generation)
        return latest

    def clear(self) -> None:
        """Remove all tables, including tables that another thread is opening."""
        with self._lock:
            self._snapshots.clear()
            self._statistics.clear()
            self._bytes = 0
            self._generation += 1

    def _put(self, key: tuple[str, bytes], snapshot: Snapshot, generation: int) -> None:
        with self._lock:
            if generation != self._generation:
                return
            cached = self._snapshots.pop(key, None)
            if cached is not None:
                self._bytes -= cached.memory_bytes
                if cached.known_statistics is not snapshot.known_statistics:
                    _forget_statistics(cached)
                if cached.table_id == snapshot.table_id and cached.version > snapshot.version:
                    snapshot = cached  # another thread has read a later version
            self._snapshots[key] = snapshot
            self._bytes += snapshot.memory_bytes
            while self._snapshots and self.memory_bytes > self._max_bytes:
                _, oldest = self._snapshots.popitem(last=False)
                self._bytes -= oldest.memory_bytes
                _forget_statistics(oldest)

    def _remove(self, key: tuple[str, bytes]) -> None:
        with self._lock:
            cached = self._snapshots.pop(key, None)
            if cached is not None:
                self._bytes -= cached.memory_bytes
                _forget_statistics(cached)


def _forget_statistics(snapshot: Snapshot) -> None:
    if snapshot.known_statistics is not None:
        snapshot.known_statistics.clear()


_SNAPSHOTS = SnapshotCache()


def latest_snapshot(engine: Engine, path: str, spark: Any = None) -> Snapshot:
    """The latest snapshot of a table, with the cache of this process; see `SnapshotCache.latest`.

    Args:
        engine: reads the log.
        path: the table's path.
        spark: the session whose conf can limit the cache; None for the environment only.
    """
    limit = SNAPSHOT_CACHE_BYTES.integer(spark=spark)
    return _SNAPSHOTS.latest(engine, path, DEFAULT_MAX_BYTES if limit is None else limit)


def clear_cache() -> None:
    """Clear the snapshot cache of the driver's process.

    Reads never require it, because each read lists the log for the latest version. It releases
    memory. It is also needed after a file of a log was changed in place, which no writer does.
    """
    _SNAPSHOTS.clear()
