"""Concatenation of small batches, because each batch has a fixed cost for whoever reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.closeable import CloseableIterator

_pa: Any = pa

_MAX_ROWS = 65_536
_MAX_BYTES = 32 << 20


def joined_batches(
    batches: Iterable[pa.RecordBatch], *, first_rows: int = _MAX_ROWS
) -> CloseableIterator[pa.RecordBatch]:
    """Concatenate consecutive small batches with equal schemas.

    Closing the result closes `batches`.

    Args:
        first_rows: maximum number of rows of the first concatenated batch. Each further batch has
            up to twice as many rows as the one before, until 65,536 rows. With a small number, a
            reader that needs only a few rows gets them early.
    """
    return CloseableIterator(_joined(batches, first_rows), batches)


def _joined(batches: Iterable[pa.RecordBatch], max_rows: int) -> Iterator[pa.RecordBatch]:
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        batch_bytes = batch.nbytes
        large = batch.num_rows > max_rows // 2 or batch_bytes > _MAX_BYTES // 2
        if pending and (
            large
            or rows + batch.num_rows > max_rows
            or size + batch_bytes > _MAX_BYTES
            or not batch.schema.equals(pending[0].schema, check_metadata=True)
        ):
            yield _concatenated(pending)
            pending, rows, size = [], 0, 0
            max_rows = min(2 * max_rows, _MAX_ROWS)
        if large:
            yield batch
        else:
            pending.append(batch)
            rows += batch.num_rows
            size += batch_bytes
    if pending:
        yield _concatenated(pending)


def _concatenated(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    joined: pa.RecordBatch = batches[0] if len(batches) == 1 else _pa.concat_batches(batches)
    return joined
