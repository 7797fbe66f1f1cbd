"""`SnapshotCache`: the latest snapshots of tables, in the driver's process.

To open a cached table, Bayou lists the log once and reads only new commits. The cache contains no
lists of files. Parsed statistics take at most half of the cache's memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from bayou.kernel import Engine, Snapshot, Table
from bayou.kernel.checkpoint.stats import CheckpointStatisticsCache, StatisticsCache
from bayou.spark.session.settings import SNAPSHOT_CACHE_BYTES

DEFAULT_MAX_BYTES = 256 * 1024 * 1024


class SnapshotCache:
    """The latest known snapshot of each table, up to a maximum size; thread-safe.

    The least recently used tables are evicted first. Readers with different credentials share no
    snapshots. A table that was recreated at the same path is detected when its log is listed.

    `max_bytes` is approximate and includes statistics. A snapshot larger than this isn't cached.
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
        return len(self._snapshots)

    def latest(self, engine: Engine, path: str, max_bytes: int | None = None) -> Snapshot:
        """Return the latest snapshot of the table at a path, after listing the log.

        `max_bytes` is a new maximum size of the cache. If None, the maximum stays unchanged.
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
            if latest.statistics_cache is None:
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
                if cached.statistics_cache is not snapshot.statistics_cache:
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
    if snapshot.statistics_cache is not None:
        snapshot.statistics_cache.clear()


_SNAPSHOTS = SnapshotCache()


def latest_snapshot(engine: Engine, path: str, spark: Any = None) -> Snapshot:
    """The latest snapshot of a table, using this process's cache; see `SnapshotCache.latest`.

    The session's conf can set the cache's size; without a session, only the environment can.
    """
    limit = SNAPSHOT_CACHE_BYTES.integer(spark=spark)
    return _SNAPSHOTS.latest(engine, path, DEFAULT_MAX_BYTES if limit is None else limit)


def clear_cache() -> None:
    """Clear the snapshot cache of the driver's process.

    Clearing the cache releases memory. Reads always return the latest version, because each read
    lists the log. So clearing is necessary only after a file in a log was changed in place, which
    no writer does.

    Examples:
        >>> clear_cache()
    """
    _SNAPSHOTS.clear()
