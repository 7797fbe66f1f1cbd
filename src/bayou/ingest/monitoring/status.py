"""The status of a running pipeline, for metrics, status page and live view."""

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
"""Upper bounds of the histogram's buckets in seconds; one more bucket has the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Histogram of durations: the number of batches in each of `BATCH_BUCKETS`."""

    counts: tuple[int, ...] = (0,) * (len(BATCH_BUCKETS) + 1)
    total: float = 0.0

    def plus(self, seconds: float) -> Histogram:
        """Return the histogram with another batch."""
        bucket = bisect.bisect_left(BATCH_BUCKETS, seconds)
        counts = tuple(count + (i == bucket) for i, count in enumerate(self.counts))
        return Histogram(counts=counts, total=self.total + seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The values of a topic at a time.

    Attributes:
        at: seconds since the epoch.
        lag: number of waiting offsets; None if unknown.
        freshness: age in seconds of the oldest record that isn't in the table.
        rows: rows added since the start.
    """

    at: float
    lag: int | None
    freshness: float | None
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCommit:
    """A committed batch; `at` is in seconds since the epoch."""

    topic: str
    at: float
    version: int | None
    rows: int
    dead_letters: int
    seconds: float
    new_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRun:
    """The last run of a maintenance task of a topic; `at` is in seconds since the epoch.

    `result` is `done`, `nothing` if there was nothing to do, or `failed: ` with the reason. `runs`
    is the number of runs since the start, 0 if the last run was in an earlier process.
    """

    task: str
    at: float
    result: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """The status of a topic.

    Attributes:
        topic: the topic's key in the configuration.
        kafka_topic: the name of the Kafka topic.
        table_path: the target table.
        state: `waiting` before it starts, `running`, `stopped`, or `failed`.
        error: the error of a failed topic.
        rows, dead_letters, left_out, batches, retries, conflicts, bytes: totals since the start.
        deleted, superseded: for an upsert, deleted rows and records that changed no row.
        lost: offsets that retention deleted before they were read, since the start.
        batch_seconds, commit_seconds: durations of batches, and of their commits.
        version: the table's latest known version.
        last_commit: time of the last commit, seconds since the epoch.
        lag: number of waiting offsets by Kafka partition; empty if unknown.
        freshness: age in seconds of the oldest record that isn't in the table; None if unknown.
        objective: `slo.freshness-seconds`.
        checks, misses: number of freshness checks, and of checks that missed the objective.
        rows_per_second: rate over the last minute.
        files, small_files, table_bytes: size of the table; None if not counted yet.
        letters_waiting: rows of the dead letter table, None if not counted yet.
        maintenance: the last run of each task.
        samples: values of the last hour, oldest first.
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
        """Number of waiting offsets of all partitions."""
        return sum(self.lag.values()) if self.lag else None

    @property
    def late(self) -> bool:
        """Whether the objective is missed."""
        fresh, objective = self.freshness, self.objective
        return fresh is not None and objective is not None and fresh > objective


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """The status of a pipeline; `began` and `at` are in seconds since the epoch.

    Attributes:
        version: Bayou's version.
        configuration: the path of the configuration.
        began: start of the run.
        at: time of this status.
        topics: the status of each topic.
        commits: the last commits, newest first.
        watch_error: the error of the last poll of brokers or tables.
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
        """Whether every topic runs or has ended without an error."""
        return all(topic.state in ("running", "stopped") for topic in self.topics)

    @property
    def healthy(self) -> bool:
        """Whether any topic hasn't failed."""
        return not self.topics or any(topic.state != "failed" for topic in self.topics)
