"""Metrics of loading a snapshot."""

from __future__ import annotations

from collections.abc import Callable

from bayou.kernel.log.table_state import TableState
from bayou.kernel.metrics import MetricsReporter, SnapshotReport, Stopwatch, send_report

__all__ = ["measure_snapshot"]


def measure_snapshot(
    reporter: MetricsReporter, table: str, version: int | None, load: Callable[[], TableState]
) -> TableState:
    """Call `load` and report its duration and result, also if it fails."""
    watch = Stopwatch()
    try:
        with watch.measure():
            state = load()
    except Exception as error:
        report = SnapshotReport(
            table=table,
            requested_version=version,
            duration_ms=watch.milliseconds,
            error=f"{type(error).__name__}: {error}",
        )
        send_report(reporter, report)
        raise
    commits = state.log_segment.commits
    report = SnapshotReport(
        table=table,
        requested_version=version,
        version=state.version,
        duration_ms=watch.milliseconds,
        commits=len(commits),
        commit_bytes=sum(file.size for file in commits),
        checkpoint_bytes=state.checkpoint_bytes,
    )
    send_report(reporter, report)
    return state
