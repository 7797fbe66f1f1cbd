"""Files of many partitions, written side by side: each waits for the disk or the store."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self

from bayou.kernel.data_writer.partition_buffers import WaitingRows
from bayou.kernel.data_writer.partitioner import PartitionKey
from bayou.protocol.actions import AddFile

__all__ = ["PartitionFiles"]

_THREADS = 8
_MOST_BYTES = 64 << 20
"""Of rows that are being written, unless one partition has more."""


class PartitionFiles:
    """Threads that write partitions, in a `with` block; its end waits for them.

    Args:
        write: writes rows of one partition and adds the actions of its files to the list, those
            that are complete also where it fails then.
        adds: where the actions go at the end, in the order in which partitions were begun.
    """

    def __init__(
        self,
        write: Callable[[PartitionKey, WaitingRows, list[AddFile]], None],
        adds: list[AddFile],
    ) -> None:
        self._write = write
        self._adds = adds
        self._written: list[list[AddFile]] = []
        self._under_way: dict[Future[None], int] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="bayou-write")

    def begin(self, key: PartitionKey, rows: WaitingRows) -> None:
        """Have a partition's rows written; waits where too many are under way.

        Raises:
            Exception: what a partition begun before failed with.
        """
        size = rows.nbytes
        while self._under_way and sum(self._under_way.values()) + size > _MOST_BYTES:
            self._take_done(wait(self._under_way, return_when=FIRST_COMPLETED).done)
        found: list[AddFile] = []
        self._written.append(found)
        self._under_way[self._pool.submit(self._write, key, rows, found)] = size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                for future in self._under_way:
                    future.result()
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)
            for found in self._written:
                self._adds.extend(found)

    def _take_done(self, done: set[Future[None]]) -> None:
        for future in done:
            del self._under_way[future]
            future.result()
