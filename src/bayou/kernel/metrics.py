"""Metrics of the kernel and its engine, sent as reports to a `MetricsReporter`.

Without a reporter nothing is measured.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

__all__ = [
    "FileReadReport",
    "LoggingReporter",
    "MetricsReporter",
    "Report",
    "ScanReport",
    "SnapshotReport",
    "Stopwatch",
    "TransactionMetrics",
    "TransactionReport",
    "send_report",
]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReport:
    """A snapshot was loaded, or loading it failed.

    Attributes:
        table: path of the table.
        requested_version: None for the latest.
        version: the version loaded, None if that failed.
        duration_ms: duration of the call.
        commits: number of commit files replayed.
        commit_bytes: size of those commit files.
        checkpoint_bytes: size of the checkpoint's files; loading reads only a few of their columns.
        error: type and message of the error, None for success.
    """

    table: str
    requested_version: int | None
    version: int | None = None
    duration_ms: float
    commits: int = 0
    commit_bytes: int = 0
    checkpoint_bytes: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """The files of a scan, or of one slice of it, were listed.

    Each live file that was considered is either pruned, skipped or selected.

    Attributes:
        table: path of the table.
        filter: filter of the scan, None for none.
        duration_ms: time in the kernel and the engine, without the caller's time.
        log_bytes: size of the checkpoint's parts that were replayed.
        files_considered: number of live files.
        files_pruned_by_partition: files that their partition values rule out.
        files_skipped_by_statistics: files that their statistics in the log rule out.
        files_selected: files returned to the caller.
        bytes_selected: size of the selected files.
        is_complete: False if the caller stopped early.
        error: type and message of the error, None for success.
    """

    table: str
    filter: str | None
    duration_ms: float
    log_bytes: int
    files_considered: int
    files_pruned_by_partition: int
    files_skipped_by_statistics: int
    files_selected: int
    bytes_selected: int
    is_complete: bool
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReadReport:
    """A Parquet file of the table or its log was read, completely or in part.

    Attributes:
        path: path of the file.
        duration_ms: time in the engine, without the caller's time.
        rows: number of rows returned to the caller.
        bytes_read: compressed size of the column chunks that were read.
        row_groups_read: row groups whose reading started.
        row_groups_skipped: row groups that the statistics in the footer rule out.
    """

    path: str
    duration_ms: float
    rows: int
    bytes_read: int
    row_groups_read: int
    row_groups_skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetrics:
    """Duration and contents of a commit.

    Attributes:
        duration_ms: duration of `commit`, including the generation of actions, without post-commit
            hooks.
        attempts: number of versions tried, 0 if no commit was attempted.
        files_added, files_removed: number of data files.
        change_files: number of change data files.
        bytes_added, bytes_removed: size of those data files.
    """

    duration_ms: float
    attempts: int = 0
    files_added: int = 0
    files_removed: int = 0
    change_files: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionReport:
    """A transaction was committed, or its commit failed.

    Attributes:
        table: path of the table.
        operation: operation as in the history: `WRITE`, `MERGE`, ...
        engine_info: the writer, as in `commitInfo.engineInfo`.
        read_version: the version that the transaction read, -1 for a new table.
        version: the committed version; None if the commit failed, or was already committed earlier.
        metrics: duration and contents of the commit.
        error: type and message of the error, None for success.
    """

    table: str
    operation: str
    engine_info: str
    read_version: int
    version: int | None
    metrics: TransactionMetrics
    error: str | None = None


Report: TypeAlias = SnapshotReport | ScanReport | FileReadReport | TransactionReport


class MetricsReporter(Protocol):
    """Receives reports from any thread, possibly concurrently."""

    def report(self, report: Report) -> None:
        """Receive a report.

        The reported operation waits for the return, so it must be fast. Exceptions are logged.
        """
        ...


class LoggingReporter:
    """Writes every report to the logger `bayou.kernel.metrics` at level INFO."""

    def report(self, report: Report) -> None:
        """Log the report."""
        _LOG.info("%s", report)


class Stopwatch:
    """Measures the total time of several blocks of code."""

    __slots__ = ("_nanoseconds",)

    def __init__(self) -> None:
        self._nanoseconds = 0

    @property
    def milliseconds(self) -> float:
        """Total time of the blocks that have ended."""
        return self._nanoseconds / 1e6

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Add the time of a `with` block."""
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            self._nanoseconds += time.perf_counter_ns() - start


def send_report(reporter: MetricsReporter, report: Report) -> None:
    """Send a report to a reporter. An exception of the reporter is logged."""
    try:
        reporter.report(report)
    except Exception:  # noqa: BLE001 - a reporter is foreign code and must not stop the operation
        _LOG.warning("The metrics reporter failed on %s", report, exc_info=True)
