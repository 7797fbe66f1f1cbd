"""Files read one after the other in their order, small ones ahead of their turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ScanState
from bayou.kernel.scan.transform import read_scan_file

__all__ = ["read_in_order"]

_concatenated: Any = pa.concat_batches  # type: ignore[attr-defined]  # the stubs lack it

_SMALL = 4 << 20
"""Bytes up to which a file is read whole, before its turn."""

_ROWS_TOGETHER = 1 << 16

_AHEAD = 8
"""Most files that are read before their turn: what waits is this times `_SMALL`, decompressed."""


@closeable
def read_in_order(
    engine: Engine, state: ScanState, files: Sequence[ScanFile]
) -> Iterator[pa.RecordBatch]:
    """The rows of all files, those of one after those of the file before it.

    Neighbouring small batches come as one: each costs whoever takes it a while.

    Raises:
        DataFileError: a file or its deletion vector is missing or damaged; names it.
    """
    if len(files) == 1:
        yield from read_scan_file(engine, state, files[0])
        return
    with CloseableIterator(_in_order(engine, state, files)) as batches:
        yield from _together(batches)


def _in_order(
    engine: Engine, state: ScanState, files: Sequence[ScanFile]
) -> Iterator[pa.RecordBatch]:
    def whole(file: ScanFile) -> list[pa.RecordBatch]:
        with read_scan_file(engine, state, file) as batches:
            return list(batches)

    pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="bayou-rewrite-read")
    try:
        waiting: deque[Future[list[pa.RecordBatch]] | ScanFile] = deque()
        rest = iter(files)
        while True:
            while len(waiting) < _AHEAD and (file := next(rest, None)) is not None:
                waiting.append(pool.submit(whole, file) if file.size <= _SMALL else file)
            if not waiting:
                return
            turn = waiting.popleft()
            if isinstance(turn, Future):
                yield from turn.result()
            else:
                with read_scan_file(engine, state, turn) as batches:
                    yield from batches
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if held and rows + batch.num_rows > _ROWS_TOGETHER:
            yield held[0] if len(held) == 1 else _concatenated(held)
            held, rows = [], 0
        held.append(batch)
        rows += batch.num_rows
    if held:
        yield held[0] if len(held) == 1 else _concatenated(held)
