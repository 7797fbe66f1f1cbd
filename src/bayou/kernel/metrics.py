"""Metrics of the kernel and its engine, sent as reports to a `MetricsReporter`.

If the engine has no reporter, only commits are measured.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReport:
    """Reports that a snapshot was loaded, or that loading failed.

    Attributes:
        table: path of the table.
        requested_version: the requested version; None for the latest version.
        version: the loaded version; None if loading failed.
        duration_ms: duration of loading.
        commits: number of commit files replayed.
        commit_bytes: total size of the replayed commit files.
        checkpoint_bytes: size of the checkpoint's files. Loading reads only some of their columns.
        error: type and message of the error; None if there was no error.

    Examples:
        >>> class Opened:
        ...     def report(self, report):
        ...         if isinstance(report, SnapshotReport):
        ...             print(report.version, report.commits)
        >>> version = bayou.table(path, engine=ArrowEngine(metrics_reporter=Opened())).version()
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
    """Reports that the files of a scan were listed, or that listing them failed.

    If the files are listed slice by slice, each slice has its own report.

    Each live file is counted once: as pruned by its partition values, as skipped by its statistics,
    or as selected.

    Attributes:
        table: path of the table.
        filter: filter of the scan; None if the scan has no filter.
        duration_ms: time in the kernel and the engine, without the caller's time.
        log_bytes: approximate size of the checkpoint slices that were replayed.
        files_considered: number of live files in the scan or slice.
        files_pruned_by_partition: number of files without matching rows, according to their
            partition values.
        files_skipped_by_statistics: number of files without matching rows, according to their
            statistics in the log.
        files_selected: number of files returned to the caller.
        bytes_selected: total size of the selected files.
        is_complete: False if the caller stopped before all files were listed.
        error: type and message of the error; None if there was no error.

    Examples:
        >>> class Scans:
        ...     def report(self, report):
        ...         if isinstance(report, ScanReport):
        ...             print(report.files_considered, report.files_selected)
        >>> reported = bayou.table(path, engine=ArrowEngine(metrics_reporter=Scans()))
        >>> rows = reported.to_arrow(filter="country = 'NZ'")
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


@dataclass(slots=True)
class ScanCounts:
    """Counters for the `ScanReport` of one listing of scan files. Not thread-safe."""

    log_bytes: int = 0
    considered: int = 0
    pruned_by_partition: int = 0
    skipped_by_statistics: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReadReport:
    """Reports a complete or partial read of a Parquet file of the table or its log.

    Attributes:
        path: path of the file.
        duration_ms: time in the engine, without the caller's time.
        rows: number of rows returned to the caller.
        bytes_read: compressed size of the column chunks that were read.
        row_groups_read: number of row groups that were read, completely or in part.
        row_groups_skipped: number of row groups without matching rows, according to the statistics
            in the footer.

    Examples:
        >>> class Reads:
        ...     def report(self, report):
        ...         if isinstance(report, FileReadReport):
        ...             print(report.path, report.rows)
        >>> reading = ArrowEngine(metrics_reporter=Reads())
        >>> rows = bayou.table(path, engine=reading).to_arrow()
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
        duration_ms: duration of the method `commit`, without post-commit hooks.
        attempts: number of versions that the transaction tried to commit; 0 if there was nothing to
            commit, or if the commit failed before its first attempt.
        files_added, files_removed: number of data files.
        change_files: number of change data files.
        bytes_added, bytes_removed: total size in bytes of the added or removed data files.

    Examples:
        >>> adds = write_data(engine, transaction.transaction_state(engine), rows)
        >>> metrics = transaction.commit(engine, adds).metrics
        >>> print(metrics)
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
    """Reports that a transaction was committed, or that the commit failed.

    Attributes:
        table: path of the table.
        operation: operation as in the history: `WRITE`, `MERGE`, ...
        engine_info: the writer, as in `commitInfo.engineInfo`.
        read_version: the version that the transaction read; -1 for a new table.
        version: the committed version; None if the commit failed, or if nothing was written because
            the table had already recorded the transaction identifiers (`txn` actions).
        metrics: duration and contents of the commit.
        error: type and message of the error; None if there was no error.

    Examples:
        >>> class Commits:
        ...     def report(self, report):
        ...         if isinstance(report, TransactionReport):
        ...             print(report.operation, report.version, report.metrics.files_added)
        >>> orders = bayou.table(path, engine=ArrowEngine(metrics_reporter=Commits()))
        >>> metrics = orders.delete("id = 1")
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
    """Receives reports from any thread, possibly concurrently.

    Examples:
        >>> class Printed:
        ...     def report(self, report):
        ...         print(type(report).__name__)
        >>> reported = bayou.table(path, engine=ArrowEngine(metrics_reporter=Printed()))
        >>> rows = reported.to_arrow()
    """

    def report(self, report: Report) -> None:
        """Receive a report.

        The reported operation waits until this method returns, so the method must be fast.
        Exceptions are logged.
        """
        ...


class LoggingReporter:
    """Writes every report to the logger `bayou.kernel.metrics` at level INFO.

    Examples:
        >>> reported = bayou.table(path, engine=ArrowEngine(metrics_reporter=LoggingReporter()))
    """

    def report(self, report: Report) -> None:
        """Log the report."""
        _LOG.info("%s", report)


class Stopwatch:
    """Measures the time since the object was created, without the time of `paused` blocks."""

    __slots__ = ("_nanoseconds", "_started")

    def __init__(self) -> None:
        self._nanoseconds = 0
        self._started: int | None = time.perf_counter_ns()

    def stop(self) -> float:
        """Stop the stopwatch; return the measured time in ms. Later calls return the same time."""
        if self._started is not None:
            self._nanoseconds += time.perf_counter_ns() - self._started
            self._started = None
        return self._nanoseconds / 1e6

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Context manager that pauses the stopwatch while its block runs.

        If the block raises an exception, the stopwatch isn't started again.
        """
        self.stop()
        yield
        self._started = time.perf_counter_ns()


@contextmanager
def measured(
    reporter: MetricsReporter | None, report: Callable[[float, str | None], Report]
) -> Iterator[Stopwatch]:
    """Context manager that measures a block of code, and sends a report when the block ends.

    Args:
        reporter: receiver of the report. If None, no report is sent.
        report: function that creates the report. Its first argument is the duration in ms. Its
            second argument is the type and message of the block's exception; None if the block
            raises no exception.
    """
    watch = Stopwatch()
    error: str | None = None
    try:
        yield watch
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
        raise
    finally:
        duration_ms = watch.stop()
        if reporter is not None:
            created = report(duration_ms, error)
            try:
                reporter.report(created)
            except Exception:  # noqa: BLE001 - a reporter is foreign code and must not stop the operation
                _LOG.warning("The metrics reporter raised an error for %s", created, exc_info=True)
