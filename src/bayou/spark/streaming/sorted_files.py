"""The sorted files of a stream's initial snapshot, in memory or on local disk.

The sort is an external merge sort: if the list of files exceeds a memory limit, sorted parts of the
list ("runs") are written to local disk, and then merged.
"""

from __future__ import annotations

import heapq
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.scan.scan_file import ADD_TYPE

BATCH_ROWS = 8192


def sorted_batches(
    batches: Iterable[pa.RecordBatch], keys: Sequence[str], folder: Path, memory: int
) -> Iterator[pa.RecordBatch]:
    """Sort rows, and yield them in batches of `BATCH_ROWS`; the last batch can be shorter.

    Args:
        batches: record batches of one schema, in any order.
        keys: names of the sort columns, most significant first. The columns must not have nulls.
            Strings are ordered by their UTF-8 bytes.
        folder: folder on local disk for runs (sorted parts of the rows). The runs are deleted when
            the iteration ends.
        memory: approximate size of a run in bytes. Sorting a run needs twice this memory; merging
            needs memory for `BATCH_ROWS` rows of each run.
    """
    runs: list[Path] = []
    buffered: list[pa.RecordBatch] = []
    size = 0
    try:
        for batch in batches:
            buffered.append(batch)
            size += batch.nbytes
            if size >= memory:
                runs.append(_write_run(_sorted(buffered, keys), folder / f"run-{len(runs)}.arrow"))
                buffered, size = [], 0
        last_run = _sorted(buffered, keys) if buffered else None
        buffered = []
        if not runs:
            merged: Iterable[pa.RecordBatch] = [] if last_run is None else _split(last_run)
        else:
            if last_run is not None:
                runs.append(_write_run(last_run, folder / f"run-{len(runs)}.arrow"))
            last_run = None
            merged = _merged(runs, keys)
        yield from rebatched(merged)
    finally:
        for run in runs:
            run.unlink(missing_ok=True)


def _sorted(batches: Sequence[pa.RecordBatch], keys: Sequence[str]) -> pa.Table:
    table = pa.Table.from_batches(batches).combine_chunks()
    order = [(key, "ascending") for key in keys]
    return table.take(pc.sort_indices(table, sort_keys=order))


def _split(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)


def _write_run(table: pa.Table, path: Path) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for batch in _split(table):
            writer.write_batch(batch)
    return path


def _merged(runs: Sequence[Path], keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs into one sorted sequence of batches.

    Only one batch of each run is in memory. Each step takes the last sort key of each of these
    batches, and finds the smallest of these keys. It then sorts and yields all rows up to this key.
    """
    with ExitStack() as files:
        heap: list[tuple[tuple[Any, ...], int]] = []
        sources: list[Iterator[pa.RecordBatch]] = []
        current: list[pa.RecordBatch] = []
        for number, run in enumerate(runs):
            source = _read_run(files, run)
            first = next(source)
            sources.append(source)
            current.append(first)
            heap.append((_last_key(first, keys), number))
        heapq.heapify(heap)
        while heap:
            limit, number = heap[0]
            ready: list[pa.RecordBatch] = []
            for _, other in heap:
                batch = current[other]
                count = len(batch) if other == number else _count_up_to(batch, keys, limit)
                ready.append(batch.slice(0, count))
                current[other] = batch.slice(count)
            following = next(sources[number], None)
            if following is None:
                heapq.heappop(heap)
            else:
                current[number] = following
                heapq.heapreplace(heap, (_last_key(following, keys), number))
            yield from _split(_sorted(ready, keys))


def _read_run(files: ExitStack, path: Path) -> Iterator[pa.RecordBatch]:
    reader = pa.ipc.open_file(files.enter_context(pa.OSFile(str(path), "rb")))
    return (reader.get_batch(i) for i in range(reader.num_record_batches))


def _last_key(batch: pa.RecordBatch, keys: Sequence[str]) -> tuple[Any, ...]:
    return _key(batch, keys, len(batch) - 1)


def _key(batch: pa.RecordBatch, keys: Sequence[str], row: int) -> tuple[Any, ...]:
    """Return the sort key of a row. Strings are encoded, because Arrow sorts by UTF-8 bytes."""
    values = (batch.column(key)[row].as_py() for key in keys)
    return tuple(v.encode() if isinstance(v, str) else v for v in values)


def _count_up_to(batch: pa.RecordBatch, keys: Sequence[str], limit: tuple[Any, ...]) -> int:
    """Return the number of rows of a sorted batch whose key is at most `limit`."""
    low, high = 0, len(batch)
    while low < high:
        middle = (low + high) // 2
        if _key(batch, keys, middle) <= limit:
            low = middle + 1
        else:
            high = middle
    return low


def rebatched(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split rows into batches of exactly `BATCH_ROWS` rows; the last batch can be shorter."""
    buffered: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        buffered.append(batch)
        rows += len(batch)
        if rows >= BATCH_ROWS:
            full = list(_split(pa.Table.from_batches(buffered)))
            buffered, rows = [], 0
            if len(full[-1]) < BATCH_ROWS:
                buffered = [full.pop()]
                rows = len(buffered[0])
            yield from full
    if rows:
        yield from _split(pa.Table.from_batches(buffered))


DEFAULT_SORT_MEMORY = 64 * 1024 * 1024

_TOTALS = "totals.json"

_KEYS = ("time", "order")
_FIELDS: list[pa.Field[Any]] = [
    pa.field("time", pa.int64()),
    pa.field("order", pa.string()),
    *ADD_TYPE,  # single columns, because sorting a struct column takes three times as long
]
_SCHEMA = pa.schema(_FIELDS)


class SortedFiles:
    """A list of files, sorted by (modification time, path); the index of the first file is 0.

    A list that is too large for memory is stored on local disk, and read in parts on demand.
    `close` deletes the list from disk.

    Args:
        count: number of files.
        size: total bytes of the files.
        batches: the files, in batches of `BATCH_ROWS` files; empty if the list is on disk.
        folder: the folder with the list on disk; None if the list is in memory.
    """

    def __init__(
        self,
        *,
        count: int,
        size: int,
        batches: list[pa.RecordBatch],
        folder: Path | None,
    ) -> None:
        self.count = count
        self.size = size
        self._batches = batches
        self._folder = folder
        self._reader: Any = None

    @classmethod
    def build(
        cls, files: Iterable[tuple[pa.StructArray, pa.Array[Any]]], memory: int | None = None
    ) -> SortedFiles:
        """Sort files by modification time, then by the sort key of the path.

        Args:
            files: batches of files. Each batch is a pair of arrays of the same length: the files
                as `ADD_TYPE` structs, and the sort keys of their paths (see `path_order`).
            memory: approximate size in bytes of a run, and maximum size of a list in memory; None
                for `DEFAULT_SORT_MEMORY`.
        """
        limit = memory or DEFAULT_SORT_MEMORY
        folder = Path(tempfile.mkdtemp(prefix="bayou-stream-", dir=_local_folder()))
        count = size = memory_size = 0
        in_memory: list[pa.RecordBatch] = []
        writer: Any = None
        try:
            for batch in sorted_batches((_keyed(*f) for f in files), _KEYS, folder, limit):
                count += len(batch)
                size += pc.sum(batch.column("size")).as_py() or 0
                if writer is None:
                    in_memory.append(batch)
                    memory_size += batch.nbytes
                    if memory_size > limit:
                        writer = pa.ipc.new_file(str(_index(folder)), _SCHEMA)
                        for earlier in in_memory:
                            writer.write_batch(earlier)
                        in_memory = []
                else:
                    writer.write_batch(batch)
            if writer is not None:
                writer.close()
                return cls(count=count, size=size, batches=[], folder=folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
        return cls(count=count, size=size, batches=in_memory, folder=None)

    @classmethod
    def open(cls, folder: Path) -> SortedFiles | None:
        """Open a list that another process has written with `write`.

        Returns None if the process hasn't written the whole list yet. `close` deletes the folder.
        """
        try:
            totals = json.loads((folder / _TOTALS).read_text())
        except OSError:
            return None
        files = cls(count=totals["count"], size=totals["size"], batches=[], folder=folder)
        files._open()  # at once, because another stream can delete the folder later
        return files

    @staticmethod
    def write(files: Iterable[tuple[pa.StructArray, pa.Array[Any]]], folder: Path) -> None:
        """Write a sorted list of files to an existing folder, for `open`.

        Args:
            files: sorted batches of files; see `build`. Only one batch is in memory at a time.
        """
        count = size = 0
        with pa.ipc.new_file(str(_index(folder)), _SCHEMA) as writer:
            for batch in rebatched(_keyed(*f) for f in files):
                count += len(batch)
                size += pc.sum(batch.column("size")).as_py() or 0
                writer.write_batch(batch)
        unfinished = folder / f"{_TOTALS}.part"
        unfinished.write_text(json.dumps({"count": count, "size": size}))
        unfinished.rename(folder / _TOTALS)

    @property
    def is_available(self) -> bool:
        """Whether the list can be read.

        False only if the list is on disk, this object hasn't opened the list's file yet, and the
        file was deleted.
        """
        return self._folder is None or self._reader is not None or _index(self._folder).exists()

    def adds(self, start: int, end: int | None = None) -> Iterator[pa.StructArray]:
        """Yield the files from index `start` to `end` (exclusive), as arrays of `ADD_TYPE`.

        If `end` is None, all files from index `start` on are included.
        """
        end = self.count if end is None else min(end, self.count)
        index = start
        while index < end:
            number, offset = divmod(index, BATCH_ROWS)
            batch = self._batch(number).slice(offset, end - index)
            yield pa.StructArray.from_arrays(batch.columns[2:], fields=list(ADD_TYPE))
            index += len(batch)

    def sizes(self, start: int) -> Iterator[pa.Array[Any]]:
        """Yield the sizes in bytes of the files from index `start` on, as several arrays."""
        index = start
        while index < self.count:
            number, offset = divmod(index, BATCH_ROWS)
            sizes = self._batch(number).column("size").slice(offset)
            yield sizes
            index += len(sizes)

    def close(self) -> None:
        """Delete the list from disk. A list in memory remains."""
        self._reader = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _batch(self, number: int) -> pa.RecordBatch:
        if self._folder is None:
            return self._batches[number]
        if self._reader is None:
            self._open()
        batch: pa.RecordBatch = self._reader.get_batch(number)
        return batch

    def _open(self) -> None:
        assert self._folder is not None  # only a list on disk has a reader
        self._reader = pa.ipc.open_file(pa.memory_map(str(_index(self._folder))))


def _keyed(adds: pa.StructArray, order: pa.Array[Any]) -> pa.RecordBatch:
    times = pc.fill_null(pc.struct_field(adds, "modificationTime"), 0)
    fields = [pc.struct_field(adds, field.name) for field in ADD_TYPE]
    return pa.RecordBatch.from_arrays([times, order, *fields], schema=_SCHEMA)


def _index(folder: Path) -> Path:
    return folder / "sorted.arrow"


def _local_folder() -> str | None:
    """Return the first writable folder in `SPARK_LOCAL_DIRS`; None if there is none.

    Spark deletes the files in this folder, even after a crash of this process.
    """
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    writable = [f for f in folders if f and os.path.isdir(f) and os.access(f, os.W_OK)]
    return writable[0] if writable else None
