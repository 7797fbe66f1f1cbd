"""What is known about a running pipeline, at a moment: values, for metrics, page and live view."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "BATCH_BUCKETS",
    "Histogram",
    "MaintenanceRun",
    "PipelineStatus",
    "Sample",
    "ShownCommit",
    "TopicStatus",
]

BATCH_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds in seconds; one more bucket holds the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Seconds of batches: how many fell below each of `BATCH_BUCKETS` and above the one before."""

    counts: tuple[int, ...] = (0,) * (len(BATCH_BUCKETS) + 1)
    total: float = 0.0

    def plus(self, seconds: float) -> Histogram:
        """With one batch more."""
        bucket = bisect.bisect_left(BATCH_BUCKETS, seconds)
        counts = tuple(count + (i == bucket) for i, count in enumerate(self.counts))
        return Histogram(counts=counts, total=self.total + seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A moment of a topic.

    Attributes:
        at: seconds since the epoch.
        lag: offsets that wait; None where it isn't known.
        freshness: age in seconds of the oldest record that isn't in the table.
        rows: rows added since the start.
    """

    at: float
    lag: int | None
    freshness: float | None
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCommit:
    """A batch that was committed; `at` in seconds since the epoch."""

    topic: str
    at: float
    version: int | None
    rows: int
    dead_letters: int
    seconds: float
    new_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRun:
    """The last run of a maintenance task of a topic; `at` in seconds since the epoch.

    `result` is `done`, `nothing` where there was nothing to do, or `failed: ` and why. `runs`
    counts those since the start: 0 where the last one was an earlier process'.
    """

    task: str
    at: float
    result: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """A topic.

    Attributes:
        topic, kafka_topic, table_path: which.
        state: `waiting` before it starts, `running`, `stopped`, or `failed`.
        error: why it failed.
        rows, dead_letters, left_out, batches, retries, conflicts, bytes: since the start.
        deleted, superseded: of an upsert, rows that it took out and records that changed no row.
        lost: offsets that retention took before they were read, since the start.
        batch_seconds, commit_seconds: of its batches, and of the commits in them.
        version: the table's latest version that is known.
        last_commit: seconds since the epoch.
        lag: offsets that wait, by Kafka partition; empty where it isn't known.
        freshness: age in seconds of the oldest record that isn't in the table; None: not known.
        objective: `slo.freshness-seconds`.
        checks, misses: how often freshness was looked at, and how often it missed the objective.
        rows_per_second: over the last minute.
        files, small_files, table_bytes: of the table; None where they weren't counted yet.
        letters_waiting: rows of the dead letters' table, None where they weren't counted yet.
        maintenance: the last run of each task.
        samples: the last hour, oldest first.
    """

    topic: str
    kafka_topic: str
    table_path: str
    state: Literal["waiting", "running", "stopped", "failed"] = "waiting"
    error: str | None = None
    rows: int = 0
    dead_letters: int = 0
    left_out: int = 0
    deleted: int = 0
    superseded: int = 0
    batches: int = 0
    retries: int = 0
    conflicts: int = 0
    lost: int = 0
    bytes: int = 0
    batch_seconds: Histogram = Histogram()
    commit_seconds: Histogram = Histogram()
    version: int | None = None
    last_commit: float | None = None
    lag: Mapping[int, int]
    freshness: float | None = None
    objective: float | None = None
    checks: int = 0
    misses: int = 0
    rows_per_second: float = 0.0
    files: int | None = None
    small_files: int | None = None
    table_bytes: int | None = None
    letters_waiting: int | None = None
    maintenance: tuple[MaintenanceRun, ...] = ()
    samples: tuple[Sample, ...] = ()

    @property
    def waiting(self) -> int | None:
        """Offsets that wait, of all partitions."""
        return sum(self.lag.values()) if self.lag else None

    @property
    def late(self) -> bool:
        """Whether the objective is missed."""
        fresh, objective = self.freshness, self.objective
        return fresh is not None and objective is not None and fresh > objective


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """All topics; `began` and `at` in seconds since the epoch.

    Attributes:
        watch_error: why brokers or tables couldn't be asked last time.
    """

    version: str
    configuration: str
    began: float
    at: float
    topics: tuple[TopicStatus, ...]
    commits: tuple[ShownCommit, ...]
    watch_error: str | None = None

    @property
    def ready(self) -> bool:
        """Whether every topic runs, or has done all there was."""
        return all(topic.state in ("running", "stopped") for topic in self.topics)

    @property
    def healthy(self) -> bool:
        """Whether any topic can still do something."""
        return not self.topics or any(topic.state != "failed" for topic in self.topics)
