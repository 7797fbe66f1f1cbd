"""What the kernel and its engine measure: reports to a `MetricsReporter`.

An engine without a reporter costs nothing: no clock is read, nothing is counted.
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
    "send",
]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReport:
    """A version of a table was opened, or couldn't be.

    Attributes:
        table: its path.
        requested_version: None for the latest.
        version: the one opened, None where that failed.
        duration_ms: from the call to the end.
        commits: commit files replayed.
        commit_bytes: their size.
        checkpoint_bytes: size of the checkpoint's files, of which opening reads a few columns.
        error: type and message, None where all went well.
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

    Considered are the live files; each was pruned, skipped or selected.

    Attributes:
        table: its path.
        filter: the scan's, None for none.
        duration_ms: spent in the kernel and the engine, without the caller's own time.
        log_bytes: size of the checkpoint's parts that were replayed.
        files_considered: live files seen.
        files_pruned_by_partition: by their partition values.
        files_skipped_by_statistics: by the statistics in the log.
        files_selected: given to the caller.
        bytes_selected: size of those.
        is_complete: False where the caller stopped early.
        error: type and message, None where all went well.
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
    """A Parquet file of the table or its log was read, to its end or not.

    Attributes:
        path: of the file.
        duration_ms: spent in the engine, without the caller's own time.
        rows: given to the caller.
        bytes_read: size on the store of the column chunks that were read.
        row_groups_read: begun.
        row_groups_skipped: by the footer's statistics.
    """

    path: str
    duration_ms: float
    rows: int
    bytes_read: int
    row_groups_read: int
    row_groups_skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetrics:
    """What a commit took and what is in it.

    Attributes:
        duration_ms: of `commit`, the actions' own making included; not of post-commit hooks.
        attempts: versions that it was tried as, 0 where nothing was tried.
        files_added, files_removed: data files.
        change_files: of the change data feed.
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
    """A transaction was committed, or couldn't be.

    Attributes:
        table: its path.
        operation: as in the history: `WRITE`, `MERGE`, ...
        engine_info: who did it.
        read_version: the version it was made from, -1 for a new table.
        version: the one it became; None where it failed, or was committed before.
        metrics: numbers.
        error: type and message, None where all went well.
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
    """Takes reports, from any thread, one after the other or at once."""

    def report(self, report: Report) -> None:
        """Take a report. Quickly: the reader waits. An exception is logged and goes no further."""
        ...


class LoggingReporter:
    """Writes every report to the log `bayou.kernel.metrics`, level INFO."""

    def report(self, report: Report) -> None:
        """Write it as text."""
        _LOG.info("%s", report)


class Stopwatch:
    """Adds up the time of several pieces of work."""

    __slots__ = ("_nanoseconds",)

    def __init__(self) -> None:
        self._nanoseconds = 0

    @property
    def milliseconds(self) -> float:
        """So far."""
        return self._nanoseconds / 1e6

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time of the block counts."""
        start = time.perf_counter_ns()
        try:
            yield
        finally:
            self._nanoseconds += time.perf_counter_ns() - start


def send(reporter: MetricsReporter, report: Report) -> None:
    """Give a report to a reporter; what fails there is logged."""
    try:
        reporter.report(report)
    except Exception:  # noqa: BLE001 - a reporter is anyone's code, and reading goes on
        _LOG.warning("A metrics reporter failed on %s", report, exc_info=True)
