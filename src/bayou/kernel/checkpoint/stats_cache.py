"""Statistics out of checkpoints, kept as columns for the next scan of the same files.

In most checkpoints statistics are JSON text, and parsing that is most of what planning a filtered
read of a large table takes. A version knows where its statistics are kept (`keeping_statistics`);
a scan that parses all of a checkpoint's leaves them there.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.checkpoint.add_files import CheckpointAdds
from bayou.kernel.engine import FileSplit

__all__ = [
    "KnownStatistics",
    "StatisticsStore",
    "keeping_statistics",
    "with_known_statistics",
]


class StatisticsStore:
    """Statistics of many tables, up to a number of bytes; safe in threads.

    What was used longest ago goes first.

    Args:
        max_bytes: of all of it.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._known: OrderedDict[_Key, pa.RecordBatch] = OrderedDict()
        self._bytes = 0

    @property
    def memory_bytes(self) -> int:
        """What is kept."""
        return self._bytes

    def get(self, key: _Key) -> pa.RecordBatch | None:
        """What is kept under a key."""
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def put(self, key: _Key, statistics: pa.RecordBatch) -> None:
        """Keep it, unless it alone is over the limit."""
        size = statistics.nbytes
        with self._lock:
            self._drop(key)
            if size > self._max_bytes:
                return
            self._known[key] = statistics
            self._bytes += size
            self._shrink()

    def limit(self, max_bytes: int) -> None:
        """Another limit from now on."""
        with self._lock:
            self._max_bytes = max_bytes
            self._shrink()

    def forget(self, owner: KnownStatistics) -> None:
        """Drop all that was kept for one table."""
        with self._lock:
            for key in [key for key in self._known if key[0] == owner]:
                self._drop(key)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._known.clear()
            self._bytes = 0

    def _shrink(self) -> None:
        while self._bytes > self._max_bytes:
            _, oldest = self._known.popitem(last=False)
            self._bytes -= oldest.nbytes

    def _drop(self, key: _Key) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._bytes -= known.nbytes


class KnownStatistics:
    """A store as the scans of one checkpoint use it; what others keep there isn't seen.

    Args:
        store: shared with other tables.
    """

    __slots__ = ("_store",)

    def __init__(self, store: StatisticsStore) -> None:
        self._store = store

    def forget(self) -> None:
        """Drop all that was kept."""
        self._store.forget(self)

    def get(self, split: FileSplit, wanted: pa.Schema) -> pa.RecordBatch | None:
        """A row for each add of a slice of a checkpoint, in the file's order; None: not kept."""
        return self._store.get(self._key(split, wanted))

    def keep(
        self, split: FileSplit, wanted: pa.Schema, statistics: Sequence[pa.RecordBatch]
    ) -> None:
        """Keep what `get` gives for it from now on."""
        if statistics:
            joined = pa.Table.from_batches(statistics).combine_chunks().to_batches()
            if len(joined) == 1:
                self._store.put(self._key(split, wanted), joined[0])

    def _key(self, split: FileSplit, wanted: pa.Schema) -> _Key:
        groups = split.first_row_group, split.end_row_group
        return (self, split.path, *groups, str(wanted))


_Key: TypeAlias = tuple[KnownStatistics, str, int, int | None, str]


@closeable
def keeping_statistics(
    batches: CloseableIterator[CheckpointAdds],
    statistics: Callable[[CheckpointAdds], pa.RecordBatch],
    keep: Callable[[Sequence[pa.RecordBatch]], None],
) -> Iterator[CheckpointAdds]:
    """The same adds with their statistics, which are kept once all have been taken.

    Statistics that stand in the checkpoint as columns are left alone: reading them again is cheap.

    Args:
        batches: all adds of a slice; closed with the result.
        statistics: works them out.
        keep: is given them, for each batch in order.
    """
    found = []
    with batches:
        for files in batches:
            if files.parsed is not None:
                yield files
                yield from batches
                return
            found.append(statistics(files))
            yield replace(files, statistics=found[-1])
    keep(found)


@closeable
def with_known_statistics(
    batches: CloseableIterator[CheckpointAdds], statistics: pa.RecordBatch
) -> Iterator[CheckpointAdds]:
    """Adds that were read without statistics, with those that are known.

    Args:
        batches: all adds of a slice; closed with the result.
        statistics: a row for each.
    """
    start = 0
    with batches:
        for files in batches:
            yield replace(files, statistics=statistics.slice(start, len(files.adds)))
            start += len(files.adds)
