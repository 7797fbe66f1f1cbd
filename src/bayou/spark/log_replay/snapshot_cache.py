"""`SnapshotCache`: the latest snapshots of tables, in the driver's process.

When a cached table is opened, Bayou lists the log once and reads only new commits. The cache
contains no lists of files. Parsed statistics use at most half of the cache's maximum memory.
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
    """An LRU cache of the latest snapshots of tables; thread-safe.

    Readers with different credentials don't share snapshots. If a table is recreated at the same
    path, the cache notices this when it lists the table's log.

    Args:
        max_bytes: approximate maximum memory in bytes, including statistics. A larger snapshot
            isn't cached.
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
        """Approximate memory of the cached snapshots and statistics, in bytes."""
        return self._bytes + self._statistics.memory_bytes

    def __len__(self) -> int:
        return len(self._snapshots)

    def latest(self, engine: Engine, path: str, max_bytes: int | None = None) -> Snapshot:
        """Return the latest snapshot of the table at a path. The log is always listed.

        Args:
            max_bytes: new maximum memory of the cache in bytes; None for no change.
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
        """Remove all snapshots. A read that is in progress adds no snapshot to the cache."""
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
                    _clear_statistics(cached)
                if cached.table_id == snapshot.table_id and cached.version > snapshot.version:
                    snapshot = cached  # another thread has read a later version
            self._snapshots[key] = snapshot
            self._bytes += snapshot.memory_bytes
            while self._snapshots and self.memory_bytes > self._max_bytes:
                _, oldest = self._snapshots.popitem(last=False)
                self._bytes -= oldest.memory_bytes
                _clear_statistics(oldest)

    def _remove(self, key: tuple[str, bytes]) -> None:
        with self._lock:
            cached = self._snapshots.pop(key, None)
            if cached is not None:
                self._bytes -= cached.memory_bytes
                _clear_statistics(cached)


def _clear_statistics(snapshot: Snapshot) -> None:
    if snapshot.statistics_cache is not None:
        snapshot.statistics_cache.clear()


_SNAPSHOTS = SnapshotCache()


def latest_snapshot(engine: Engine, path: str, spark: Any = None) -> Snapshot:
    """Return the latest snapshot of a table, from the cache of this process.

    The setting `SNAPSHOT_CACHE_BYTES` determines the cache's maximum memory. If `spark` is None,
    the setting's environment variable is used.
    """
    max_bytes = SNAPSHOT_CACHE_BYTES.integer(spark=spark, default=DEFAULT_MAX_BYTES)
    return _SNAPSHOTS.latest(engine, path, max_bytes)


def clear_cache() -> None:
    """Clear the snapshot cache of the driver's process, to release memory.

    Reads return the latest version even without this function, because each read lists the log. The
    cache must be cleared only if a file in a log was changed in place, which no writer does.

    Examples:
        >>> clear_cache()
    """
    _SNAPSHOTS.clear()
