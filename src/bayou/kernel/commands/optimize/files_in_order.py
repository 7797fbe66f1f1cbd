"""Reads the rows of several files in order; small files are read ahead in parallel."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.joined_batches import joined_batches
from bayou.kernel.engine import Engine
from bayou.kernel.scan.scan_file import ScanFile
from bayou.kernel.scan.scan_state import ScanState
from bayou.kernel.scan.transform import read_scan_file

_MAX_SMALL_SIZE = 4 << 20
"""Maximum size in bytes of files that are read ahead."""

_FILES_AHEAD = 8
"""Maximum number of files that are read ahead.

This number and `_MAX_SMALL_SIZE` bound the size of the buffered data.
"""


@closeable
def read_in_order(
    engine: Engine, state: ScanState, files: Sequence[ScanFile]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all files in the order of the files.

    Small neighboring batches are concatenated, because each batch has a fixed cost.
    """
    if len(files) == 1:
        yield from read_scan_file(engine, state, files[0])
        return
    with joined_batches(_in_order(engine, state, files)) as batches:
        yield from batches


def _in_order(
    engine: Engine, state: ScanState, files: Sequence[ScanFile]
) -> Iterator[pa.RecordBatch]:
    def whole(file: ScanFile) -> list[pa.RecordBatch]:
        with read_scan_file(engine, state, file) as batches:
            return list(batches)

    pool = ThreadPoolExecutor(_FILES_AHEAD, thread_name_prefix="bayou-rewrite-read")
    try:
        queue: deque[Future[list[pa.RecordBatch]] | ScanFile] = deque()
        rest = iter(files)
        while True:
            while len(queue) < _FILES_AHEAD and (file := next(rest, None)) is not None:
                queue.append(pool.submit(whole, file) if file.size <= _MAX_SMALL_SIZE else file)
            if not queue:
                return
            item = queue.popleft()
            if isinstance(item, Future):
                yield from item.result()
            else:
                with read_scan_file(engine, state, item) as batches:
                    yield from batches
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
