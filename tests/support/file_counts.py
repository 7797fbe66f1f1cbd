"""Counts the data files that a query reads."""

from __future__ import annotations

import threading

from bayou.engines.arrow import ArrowEngine
from bayou.kernel.metrics import FileReadReport, Report

__all__ = ["CountingReporter", "counting_engine", "reading_threads"]


class CountingReporter:
    """Collects the paths of the data files that were read; implements `MetricsReporter`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paths: list[str] = []

    def report(self, report: Report) -> None:
        if isinstance(report, FileReadReport) and "/_delta_log/" not in report.path:
            with self._lock:
                self._paths.append(report.path)

    @property
    def data_files(self) -> int:
        """Number of data files that were read since the last call of `clear`."""
        return len(self._paths)

    def clear(self) -> None:
        """Forget the files."""
        with self._lock:
            self._paths.clear()


def counting_engine(reporter: CountingReporter) -> ArrowEngine:
    """Return an engine whose reads are counted."""
    return ArrowEngine(metrics_reporter=reporter)


def reading_threads() -> int:
    """Number of threads that read data files in this process."""
    return sum(thread.name.startswith("bayou-read") for thread in threading.enumerate())
