"""Metrics of listing the files of a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.metrics import MetricsReporter, ScanReport, Stopwatch, send_report
from bayou.kernel.scan.scan_file import ScanFileBatch

__all__ = ["ScanCounts", "measure_scan"]


@dataclass(slots=True)
class ScanCounts:
    """Counters of one listing of scan files. Not thread-safe."""

    log_bytes: int = 0
    considered: int = 0
    pruned_by_partition: int = 0
    skipped_by_statistics: int = 0


@closeable
def measure_scan(
    reporter: MetricsReporter,
    table: str,
    filter: str | None,
    plan: Callable[[ScanCounts], CloseableIterator[ScanFileBatch]],
) -> Iterator[ScanFileBatch]:
    """Iterate batches of scan files, and send a report when the iteration ends or fails."""
    counts = ScanCounts()
    watch = Stopwatch()
    selected = selected_bytes = 0
    error: str | None = None
    complete = False
    with plan(counts) as batches:
        try:
            while True:
                with watch.measure():
                    batch = next(batches, None)
                if batch is None:
                    complete = True
                    break
                selected += batch.num_selected
                sizes = pc.struct_field(batch.selected().column("add"), "size")
                selected_bytes += pc.sum(sizes).as_py() or 0
                yield batch
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
            raise
        finally:
            report = ScanReport(
                table=table,
                filter=filter,
                duration_ms=watch.milliseconds,
                log_bytes=counts.log_bytes,
                files_considered=counts.considered,
                files_pruned_by_partition=counts.pruned_by_partition,
                files_skipped_by_statistics=counts.skipped_by_statistics,
                files_selected=selected,
                bytes_selected=selected_bytes,
                is_complete=complete,
                error=error,
            )
            send_report(reporter, report)
