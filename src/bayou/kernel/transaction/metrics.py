"""Metrics of commits."""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import replace

from bayou.kernel.metrics import (
    MetricsReporter,
    Stopwatch,
    TransactionMetrics,
    TransactionReport,
    send_report,
)
from bayou.kernel.transaction.commit import TransactionCommitResult
from bayou.kernel.transaction.commit_contents import CommitContents
from bayou.kernel.transaction.table_update import TableUpdate

__all__ = ["CommitMeasurements", "measure_commit"]


class CommitMeasurements:
    """Measurements of a commit, which the commit fills in.

    Attributes:
        contents: the file actions, None before they are read.
        attempts: a collection with one item per attempted version.
    """

    def __init__(self) -> None:
        self.contents: CommitContents | None = None
        self.attempts: Sized = ()

    def metrics(self, duration_ms: float) -> TransactionMetrics:
        """The measurements as metrics."""
        contents = self.contents
        if contents is None:
            return TransactionMetrics(duration_ms=duration_ms)
        return TransactionMetrics(
            duration_ms=duration_ms,
            attempts=len(self.attempts),
            files_added=contents.num_added,
            files_removed=len(contents.removed_paths),
            change_files=contents.num_changes,
            bytes_added=contents.added_bytes,
            bytes_removed=contents.removed_bytes,
        )


def measure_commit(
    reporter: MetricsReporter | None,
    update: TableUpdate,
    commit: Callable[[CommitMeasurements], TransactionCommitResult],
) -> TransactionCommitResult:
    """Call `commit`, add metrics to its result, and send a report, also if it fails."""
    watch = Stopwatch()
    measure = CommitMeasurements()

    def report(version: int | None, error: Exception | None) -> None:
        if reporter is None:
            return
        transaction_report = TransactionReport(
            table=update.table,
            operation=str(update.operation),
            engine_info=update.engine_info,
            read_version=update.read_version,
            version=version,
            metrics=measure.metrics(watch.milliseconds),
            error=None if error is None else f"{type(error).__name__}: {error}",
        )
        send_report(reporter, transaction_report)

    try:
        with watch.measure():
            result = commit(measure)
    except Exception as error:
        report(None, error)
        raise
    report(None if result.already_committed else result.version, None)
    return replace(result, metrics=measure.metrics(watch.milliseconds))
