"""Files of many partitions, written side by side: each waits for the disk or the store.

Rows that wait for their partition's file: in memory up to a bound, on the local disk beyond.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from bayou.errors import StorageError
from bayou.kernel.data_writer.partitioner import Part, PartitionKey
from bayou.protocol.actions import AddFile

__all__ = ["PartitionBuffers", "PartitionFiles", "WaitingRows"]


_concatenated: Any = pa.concat_batches  # type: ignore[attr-defined]  # the stubs lack it

_ROWS_TOGETHER = 1 << 14


@dataclass(frozen=True, slots=True)
class _Place:
    """Where rows stand in a file that nobody sees: Arrow's stream format."""

    file: pa.OSFile
    offset: int
    size: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        # One file serves several threads: each says where it reads.
        file: Any = self.file  # the stubs have another `read_at`
        data = file.read_at(self.size, self.offset)
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            yield from stream


@dataclass(slots=True)
class WaitingRows:
    """Rows of a partition in the order in which they came.

    Attributes:
        batches: those in memory.
        nbytes: about how many bytes all of them take.
        spilled: those on the disk, which came before.
    """

    batches: list[pa.RecordBatch] = field(default_factory=list)
    nbytes: int = 0
    spilled: list[_Place] = field(default_factory=list)

    def together(self) -> Iterator[pa.RecordBatch]:
        """The batches, neighbours put together that are small: each costs the writer a while."""
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in self._all():
            held.append(batch)
            rows += batch.num_rows
            if rows >= _ROWS_TOGETHER:
                yield held[0] if len(held) == 1 else _concatenated(held)
                held, rows = [], 0
        if held:
            yield held[0] if len(held) == 1 else _concatenated(held)

    def _all(self) -> Iterator[pa.RecordBatch]:
        for place in self.spilled:
            yield from place.batches()
        yield from self.batches


class PartitionBuffers:
    """Rows that wait, by partition.

    A partition gets one file, however its rows are strewn, as long as they don't make up a file of
    their own before the end: what memory doesn't hold waits in temporary files (of `tempfile`'s
    folder), which have no name and go away with the process.

    Args:
        memory_bytes: of rows that wait in memory. Parts are slices of the batch they came in, and
            hold all of it; nothing is left of a batch once all that waited has been popped or is
            on the disk.
        file_bytes: of a partition's rows that are worth a file before the end.

    Attributes:
        nbytes: what waits in memory.
    """

    def __init__(self, memory_bytes: int, file_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._file_bytes = file_bytes
        self._waiting: dict[PartitionKey, WaitingRows] = {}
        self.nbytes = 0

    def keep(self, parts: Iterable[Part]) -> None:
        """Have rows wait."""
        for part in parts:
            size = max(1, part.nbytes)
            waiting = self._waiting.get(part.key)
            if waiting is None:
                waiting = self._waiting[part.key] = WaitingRows()
            waiting.batches.append(part.rows)
            waiting.nbytes += size
            self.nbytes += size

    def pop_full(self) -> Iterator[tuple[PartitionKey, WaitingRows]]:
        """Where memory is full, partitions that are worth a file; the others leave it too.

        Raises:
            StorageError: the disk refused.
        """
        if self.nbytes <= self._memory_bytes:
            return
        for key, waiting in list(self._waiting.items()):
            if waiting.nbytes >= self._file_bytes:
                yield key, self._waiting.pop(key)
        self._spill()
        self.nbytes = 0

    def pop_all(self) -> Iterator[tuple[PartitionKey, WaitingRows]]:
        """Everything that waits, partition after partition."""
        for key in list(reversed(self._waiting)):
            yield key, self._waiting.pop(key)
        self.nbytes = 0

    def _spill(self) -> None:
        left = [waiting for waiting in self._waiting.values() if waiting.batches]
        if not left:
            return
        folder = tempfile.gettempdir()
        try:
            handle, path = tempfile.mkstemp(prefix="bayou-rows-", suffix=".arrow")
            os.close(handle)
            try:
                places = _written(path, left)
                file = pa.OSFile(path, "rb")
            finally:
                os.unlink(path)  # it stays readable
        except OSError as error:
            raise StorageError(
                f"Rows that wait for their partition don't fit into memory, and the folder for "
                f"temporary files {folder} refused them: {error}. Make room there, or set TMPDIR "
                "to another folder.",
                path=folder,
            ) from error
        for waiting, (offset, size) in zip(left, places, strict=True):
            waiting.spilled.append(_Place(file, offset, size))
            waiting.batches.clear()


def _written(path: str, all_waiting: Iterable[WaitingRows]) -> list[tuple[int, int]]:
    """Where the rows in memory stand in the file, offset and size."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    places: list[tuple[int, int]] = []
    with pa.OSFile(path, "wb") as sink:
        for waiting in all_waiting:
            start = sink.tell()
            together = _concatenated(waiting.batches)
            with pa.ipc.new_stream(sink, together.schema, options=options) as writer:
                writer.write_batch(together)
            places.append((start, sink.tell() - start))
    return places


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
