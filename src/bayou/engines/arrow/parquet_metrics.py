"""What reading a Parquet file took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from bayou.kernel.metrics import FileReadReport, MetricsReporter, Stopwatch, send

__all__ = ["measured"]


def measured(
    reporter: MetricsReporter,
    batches: Iterable[pa.RecordBatch],
    path: str,
    footer: pq.FileMetaData,
    *,
    kept: Sequence[int],
    leaves: Sequence[int],
    candidates: int,
) -> Iterator[pa.RecordBatch]:
    """The batches of a file's row groups `kept`, reported at their end, however they end.

    Args:
        leaves: the leaf columns that are read.
        candidates: how many row groups there were to choose from.
    """
    watch = Stopwatch()
    source = iter(batches)
    rows = 0
    try:
        while True:
            with watch.running():
                batch = next(source, None)
            if batch is None:
                return
            rows += batch.num_rows
            yield batch
    finally:
        begun = list(_begun(footer, kept, rows))
        size = sum(
            footer.row_group(group).column(leaf).total_compressed_size
            for group in begun
            for leaf in leaves
        )
        report = FileReadReport(
            path=path,
            duration_ms=watch.milliseconds,
            rows=rows,
            bytes_read=size,
            row_groups_read=len(begun),
            row_groups_skipped=candidates - len(kept),
        )
        send(reporter, report)


def _begun(footer: pq.FileMetaData, kept: Sequence[int], rows: int) -> Iterator[int]:
    """The row groups that so many rows came out of."""
    for group in kept:
        if rows <= 0:
            return
        yield group
        rows -= footer.row_group(group).num_rows
