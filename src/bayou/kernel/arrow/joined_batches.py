"""Concatenation of small batches.

Each batch has a fixed cost, so reading many small batches is slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.closeable import CloseableIterator

_pa: Any = pa

_MAX_ROWS = 65_536
_MAX_BYTES = 16 << 20


def joined_batches(
    batches: Iterable[pa.RecordBatch], *, gradual: bool = False
) -> CloseableIterator[pa.RecordBatch]:
    """Concatenate consecutive small batches with equal schemas.

    Closing the result closes `batches`.

    Args:
        gradual: whether the first result is a single batch. A reader that needs only a few rows
            then gets them before many files are read. Each further result joins up to twice as many
            batches as the previous result.
    """
    return CloseableIterator(_joined(batches, 1 if gradual else None), batches)


def _joined(batches: Iterable[pa.RecordBatch], max_batches: int | None) -> Iterator[pa.RecordBatch]:
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        batch_bytes = batch.nbytes
        large = batch.num_rows > _MAX_ROWS // 2 or batch_bytes > _MAX_BYTES // 2
        if pending and (
            large
            or rows + batch.num_rows > _MAX_ROWS
            or size + batch_bytes > _MAX_BYTES
            or not batch.schema.equals(pending[0].schema, check_metadata=True)
        ):
            yield _concatenated(pending)
            pending, rows, size = [], 0, 0
        if large:
            yield batch
            continue
        pending.append(batch)
        rows += batch.num_rows
        size += batch_bytes
        if max_batches is not None and len(pending) >= max_batches:
            yield _concatenated(pending)
            pending, rows, size = [], 0, 0
            max_batches *= 2
    if pending:
        yield _concatenated(pending)


def _concatenated(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    joined: pa.RecordBatch = batches[0] if len(batches) == 1 else _pa.concat_batches(batches)
    return joined
