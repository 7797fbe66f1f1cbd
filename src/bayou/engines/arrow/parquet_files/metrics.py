"""Metrics of reading a Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from bayou.kernel.metrics import FileReadReport, MetricsReporter, Stopwatch, send_report

__all__ = ["report_metrics"]


def report_metrics(
    reporter: MetricsReporter,
    batches: Iterable[pa.RecordBatch],
    path: str,
    footer: pq.FileMetaData,
    *,
    row_groups: Sequence[int],
    leaves: Sequence[int],
    candidates: int,
) -> Iterator[pa.RecordBatch]:
    """Pass the batches of a file through, and report metrics when the iterator ends or fails.

    Args:
        reporter: receives the report.
        batches: the batches of the file's selected row groups.
        path: path of the file.
        footer: footer of the file.
        row_groups: the selected row groups.
        leaves: the leaf columns that are read.
        candidates: number of row groups before the selection.
    """
    watch = Stopwatch()
    source = iter(batches)
    rows = 0
    try:
        while True:
            with watch.measure():
                batch = next(source, None)
            if batch is None:
                return
            rows += batch.num_rows
            yield batch
    finally:
        groups = list(_row_groups_read(footer, row_groups, rows))
        size = sum(
            footer.row_group(group).column(leaf).total_compressed_size
            for group in groups
            for leaf in leaves
        )
        report = FileReadReport(
            path=path,
            duration_ms=watch.milliseconds,
            rows=rows,
            bytes_read=size,
            row_groups_read=len(groups),
            row_groups_skipped=candidates - len(row_groups),
        )
        send_report(reporter, report)


def _row_groups_read(footer: pq.FileMetaData, kept: Sequence[int], rows: int) -> Iterator[int]:
    """The selected row groups that contain the first `rows` rows."""
    for group in kept:
        if rows <= 0:
            return
        yield group
        rows -= footer.row_group(group).num_rows
