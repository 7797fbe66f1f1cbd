"""Sorting more rows than memory should hold: sorted runs on the local disk, merged in batches."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute

__all__ = ["evened", "sorted_batches"]

pc: Any = pyarrow.compute

BATCH_ROWS = 8192


def sorted_batches(
    batches: Iterable[pa.RecordBatch], keys: Sequence[str], folder: Path, memory: int
) -> Iterator[pa.RecordBatch]:
    """The rows in the order of some columns, which have no nulls.

    Args:
        batches: all of one schema, in any order.
        keys: names of columns, the weightiest first; texts are ordered by their UTF-8 bytes.
        folder: where runs are written, and deleted again.
        memory: about how many bytes of rows are held at a time. Two such runs are held while one is
            sorted; in the merge, `BATCH_ROWS` rows of each run.

    Returns:
        Batches of `BATCH_ROWS` rows, the last one of fewer.
    """
    runs: list[Path] = []
    held: list[pa.RecordBatch] = []
    size = 0
    try:
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size >= memory:
                runs.append(_write_run(_sorted(held, keys), folder / f"run-{len(runs)}.arrow"))
                held, size = [], 0
        rest = _sorted(held, keys) if held else None
        held = []
        if not runs:
            merged: Iterable[pa.RecordBatch] = [] if rest is None else _pieces(rest)
        else:
            if rest is not None:
                runs.append(_write_run(rest, folder / f"run-{len(runs)}.arrow"))
            rest = None
            merged = _merged(runs, keys)
        yield from evened(merged)
    finally:
        for run in runs:
            run.unlink(missing_ok=True)


def _sorted(batches: Sequence[pa.RecordBatch], keys: Sequence[str]) -> pa.Table:
    table = pa.Table.from_batches(batches).combine_chunks()
    order = [(key, "ascending") for key in keys]
    return table.take(pc.sort_indices(table, sort_keys=order))


def _pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)


def _write_run(table: pa.Table, path: Path) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for batch in _pieces(table):
            writer.write_batch(batch)
    return path


def _merged(runs: Sequence[Path], keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Round by round the rows of all runs up to the least of the last rows that are in sight."""
    with ExitStack() as files:
        heap: list[tuple[tuple[Any, ...], int]] = []
        sources: list[Iterator[pa.RecordBatch]] = []
        sight: list[pa.RecordBatch] = []
        for number, run in enumerate(runs):
            source = _read_run(files, run)
            first = next(source)
            sources.append(source)
            sight.append(first)
            heap.append((_last_key(first, keys), number))
        heapq.heapify(heap)
        while heap:
            limit, number = heap[0]
            due: list[pa.RecordBatch] = []
            for _, other in heap:
                batch = sight[other]
                count = len(batch) if other == number else _count_up_to(batch, keys, limit)
                due.append(batch.slice(0, count))
                sight[other] = batch.slice(count)
            following = next(sources[number], None)
            if following is None:
                heapq.heappop(heap)
            else:
                sight[number] = following
                heapq.heapreplace(heap, (_last_key(following, keys), number))
            yield from _pieces(_sorted(due, keys))


def _read_run(files: ExitStack, path: Path) -> Iterator[pa.RecordBatch]:
    reader = pa.ipc.open_file(files.enter_context(pa.OSFile(str(path), "rb")))
    return (reader.get_batch(i) for i in range(reader.num_record_batches))


def _last_key(batch: pa.RecordBatch, keys: Sequence[str]) -> tuple[Any, ...]:
    return _key(batch, keys, len(batch) - 1)


def _key(batch: pa.RecordBatch, keys: Sequence[str], row: int) -> tuple[Any, ...]:
    """Of a row, in an order that Python and Arrow agree on: texts as bytes."""
    values = (batch.column(key)[row].as_py() for key in keys)
    return tuple(v.encode() if isinstance(v, str) else v for v in values)


def _count_up_to(batch: pa.RecordBatch, keys: Sequence[str], limit: tuple[Any, ...]) -> int:
    """How many of the sorted rows aren't above the limit: a binary search."""
    low, high = 0, len(batch)
    while low < high:
        middle = (low + high) // 2
        if _key(batch, keys, middle) <= limit:
            low = middle + 1
        else:
            high = middle
    return low


def evened(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly `BATCH_ROWS`."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += len(batch)
        if rows >= BATCH_ROWS:
            pieces = list(_pieces(pa.Table.from_batches(held)))
            held, rows = [], 0
            if len(pieces[-1]) < BATCH_ROWS:
                held = [pieces.pop()]
                rows = len(held[0])
            yield from pieces
    if rows:
        yield from _pieces(pa.Table.from_batches(held))
