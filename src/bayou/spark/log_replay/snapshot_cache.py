"""The latest versions of tables that were read before, kept in the driver's process.

A table whose log hasn't changed costs one listing; one that has grown costs that and the commits
that are new. The list of files isn't kept: scans replay it. What they parse of statistics is, in
up to half of the cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from bayou.kernel import Engine, Snapshot, Table
from bayou.kernel.checkpoint.stats import KnownStatistics, StatisticsStore
from bayou.spark.session.settings import SNAPSHOT_CACHE_BYTES

__all__ = ["DEFAULT_MAX_BYTES", "SnapshotCache", "clear_cache", "latest_snapshot"]

DEFAULT_MAX_BYTES = 256 * 1024 * 1024


class SnapshotCache:
    """The latest known version of each table, up to a number of bytes; safe in threads.

    Tables that were read longest ago go first. Two readers with other credentials share nothing,
    nor do two tables that stand at one path one after the other: a listing tells them apart.

    Args:
        max_bytes: about what the snapshots and statistics may take in memory; a larger snapshot
            isn't kept.
    """

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, bytes], Snapshot] = OrderedDict()
        self._bytes = 0
        self._statistics = StatisticsStore(max_bytes // 2)
        self._generation = 0

    @property
    def memory_bytes(self) -> int:
        """About what is kept."""
        return self._bytes + self._statistics.memory_bytes

    def __len__(self) -> int:
        """How many tables are kept."""
        return len(self._known)

    def latest(self, engine: Engine, path: str, max_bytes: int | None = None) -> Snapshot:
        """The latest version of the table at a path, as the log has it now.

        Args:
            max_bytes: another limit from now on, None for the one there is.

        Raises:
            TableNotFoundError, CorruptTableError, UnsupportedFeatureError: see
                `Table.latest_snapshot`.
        """
        table = Table.for_path(engine, path)
        key = (table.path, engine.description().to_bytes())
        with self._lock:
            if max_bytes is not None:
                self._max_bytes = max_bytes
                self._statistics.limit(max_bytes // 2)
            known, generation = self._known.get(key), self._generation
        try:
            found = table.latest_snapshot(engine) if known is None else known.refreshed(engine)
            if found.known_statistics is None:
                found = found.keeping_statistics(KnownStatistics(self._statistics))
        except BaseException:
            self._forget(key)
            raise
        self._keep(key, found, generation)
        return found

    def clear(self) -> None:
        """Forget all tables, those too that are being opened now."""
        with self._lock:
            self._known.clear()
            self._statistics.clear()
            self._bytes = 0
            self._generation += 1

    def _keep(self, key: tuple[str, bytes], snapshot: Snapshot, generation: int) -> None:
        with self._lock:
            if generation != self._generation:
                return
            known = self._known.pop(key, None)
            if known is not None:
                self._bytes -= known.memory_bytes
                if known.known_statistics is not snapshot.known_statistics:
                    _forget_statistics(known)
                if known.table_id == snapshot.table_id and known.version > snapshot.version:
                    snapshot = known  # another thread has seen more
            self._known[key] = snapshot
            self._bytes += snapshot.memory_bytes
            while self._known and self.memory_bytes > self._max_bytes:
                _, oldest = self._known.popitem(last=False)
                self._bytes -= oldest.memory_bytes
                _forget_statistics(oldest)

    def _forget(self, key: tuple[str, bytes]) -> None:
        with self._lock:
            known = self._known.pop(key, None)
            if known is not None:
                self._bytes -= known.memory_bytes
                _forget_statistics(known)


def _forget_statistics(snapshot: Snapshot) -> None:
    if snapshot.known_statistics is not None:
        snapshot.known_statistics.forget()


_SNAPSHOTS = SnapshotCache()


def latest_snapshot(engine: Engine, path: str, spark: Any = None) -> Snapshot:
    """The latest version of a table, by the cache of this process; see `SnapshotCache.latest`.

    Args:
        spark: the session whose conf may limit the cache; None for the environment alone.
    """
    limit = SNAPSHOT_CACHE_BYTES.integer(spark=spark)
    return _SNAPSHOTS.latest(engine, path, DEFAULT_MAX_BYTES if limit is None else limit)


def clear_cache() -> None:
    """Forget what is kept of tables in the driver's process.

    Reads never need it: each asks the log for its latest version. It gives back memory, and helps
    where files of a log were changed in place, which no writer of Delta does.
    """
    _SNAPSHOTS.clear()
