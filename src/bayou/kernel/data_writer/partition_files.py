"""Buffers of rows by partition, and a thread pool that writes partitions in parallel."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from bayou.errors import StorageError
from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.arrow.joined_batches import joined_batches
from bayou.kernel.data_writer.partitioner import PartitionKey, PartitionSlice
from bayou.protocol.actions import AddFile


@dataclass(frozen=True, slots=True)
class _SpilledRows:
    """The location of a partition's rows in an unlinked temporary file.

    The rows are in Arrow's stream format.
    """

    file: pa.OSFile
    offset: int
    size: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        # Threads share the file and its position, so each read passes its offset.
        file: Any = self.file  # the stub of `read_at` is wrong
        data = file.read_at(self.size, self.offset)
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            yield from stream


@dataclass(slots=True)
class BufferedRows:
    """The buffered rows of a partition; the rows on disk precede the rows in memory.

    Attributes:
        nbytes: approximate size of all rows, in memory and on disk.
    """

    batches: list[pa.RecordBatch] = field(default_factory=list)
    nbytes: int = 0
    spilled: list[_SpilledRows] = field(default_factory=list)

    def combined_batches(self) -> CloseableIterator[pa.RecordBatch]:
        """Return the rows in order; small adjacent batches are combined."""
        return joined_batches(self._all())

    def _all(self) -> Iterator[pa.RecordBatch]:
        for rows in self.spilled:
            yield from rows.batches()
        yield from self.batches


class PartitionBuffers:
    """Rows buffered by partition, in memory and on the local disk.

    The rows of a partition may be scattered over the input. They are buffered until the end of the
    input, so that they can be written to one file. If memory is full, `pop_full` returns the
    partitions that fill a file, and spills the others to unlinked temporary files in `tempfile`'s
    folder. The operating system deletes these files when the process ends.

    Args:
        memory_bytes: maximum size of the rows in memory. Added rows are slices of a batch. The
            whole batch stays in memory until all of its slices are taken out or spilled.
        file_bytes: size of the rows that fill a file.
    """

    def __init__(self, memory_bytes: int, file_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._file_bytes = file_bytes
        self._buffers: dict[PartitionKey, BufferedRows] = {}
        self.nbytes = 0

    def add(self, slices: Iterable[PartitionSlice]) -> None:
        for slice_ in slices:
            size = max(1, slice_.nbytes)
            buffered = self._buffers.get(slice_.key)
            if buffered is None:
                buffered = self._buffers[slice_.key] = BufferedRows()
            buffered.batches.append(slice_.rows)
            buffered.nbytes += size
            self.nbytes += size

    def pop_full(self) -> Iterator[tuple[PartitionKey, BufferedRows]]:
        """If memory is full, remove and yield partitions that fill a file, and spill the others."""
        if self.nbytes <= self._memory_bytes:
            return
        for key, buffered in list(self._buffers.items()):
            if buffered.nbytes >= self._file_bytes:
                yield key, self._buffers.pop(key)
        self._spill()
        self.nbytes = 0

    def pop_all(self) -> Iterator[tuple[PartitionKey, BufferedRows]]:
        """Remove and yield all partitions."""
        for key in list(reversed(self._buffers)):
            yield key, self._buffers.pop(key)
        self.nbytes = 0

    def _spill(self) -> None:
        in_memory = [buffered for buffered in self._buffers.values() if buffered.batches]
        if not in_memory:
            return
        folder = tempfile.gettempdir()
        try:
            handle, path = tempfile.mkstemp(prefix="bayou-rows-", suffix=".arrow")
            os.close(handle)
            try:
                ranges = _write_batches(path, in_memory)
                file = pa.OSFile(path, "rb")
            finally:
                os.unlink(path)  # the open file remains readable
        except OSError as error:
            raise StorageError(
                f"{folder}: buffered rows exceed the memory limit and can't be written to "
                f"temporary files: {error}. Free disk space there, or set TMPDIR to another "
                "folder.",
                path=folder,
            ) from error
        for buffered, (offset, size) in zip(in_memory, ranges, strict=True):
            buffered.spilled.append(_SpilledRows(file, offset, size))
            buffered.batches.clear()


def _write_batches(path: str, partitions: Iterable[BufferedRows]) -> list[tuple[int, int]]:
    """Write buffered rows to a file; return the offset and size of each partition's rows."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    ranges: list[tuple[int, int]] = []
    with pa.OSFile(path, "wb") as sink:
        for buffered in partitions:
            start = sink.tell()
            schema = buffered.batches[0].schema
            with pa.ipc.new_stream(sink, schema, options=options) as writer:
                for batch in joined_batches(buffered.batches):
                    writer.write_batch(batch)
            ranges.append((start, sink.tell() - start))
    return ranges


_THREADS = 8
_MAX_BYTES_IN_PROGRESS = 64 << 20
"""Maximum total size in bytes of the rows that threads write at a time.

A partition with more rows is written while no other partition is written.
"""


class PartitionWriterPool:
    """A thread pool that writes partitions. The end of its `with` block waits for the threads.

    Args:
        write: function that writes the rows of a partition. It appends the `add` action of each
            complete file to the list in its third argument.
        adds: list that receives the actions of all partitions when the `with` block ends, in the
            order of the `submit` calls. After an error, it has the actions of all complete files.
    """

    def __init__(
        self,
        write: Callable[[PartitionKey, BufferedRows, list[AddFile]], None],
        adds: list[AddFile],
    ) -> None:
        self._write = write
        self._adds = adds
        self._written: list[list[AddFile]] = []
        self._in_progress: dict[Future[None], int] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="bayou-write")

    def submit(self, key: PartitionKey, rows: BufferedRows) -> None:
        """Start writing a partition's rows. Blocks while too many rows are being written.

        If writing an earlier partition failed, its error is raised.
        """
        size = rows.nbytes
        while self._in_progress and sum(self._in_progress.values()) + size > _MAX_BYTES_IN_PROGRESS:
            self._check_done(wait(self._in_progress, return_when=FIRST_COMPLETED).done)
        actions: list[AddFile] = []
        self._written.append(actions)
        self._in_progress[self._pool.submit(self._write, key, rows, actions)] = size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        try:
            if error is None:
                for future in self._in_progress:
                    future.result()
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)
            for actions in self._written:
                self._adds.extend(actions)

    def _check_done(self, done: set[Future[None]]) -> None:
        for future in done:
            del self._in_progress[future]
            future.result()
