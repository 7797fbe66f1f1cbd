"""The status of a running pipeline, for the metrics, the status page and the live view."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

BATCH_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the histogram's buckets, in seconds. One more bucket has no upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """A histogram of the durations of batches.

    Attributes:
        counts: number of batches in each bucket. The first elements are for `BATCH_BUCKETS`, and
            the last is for longer batches.
        total: sum of all durations, in seconds.
    """

    counts: tuple[int, ...] = (0,) * (len(BATCH_BUCKETS) + 1)
    total: float = 0.0

    def plus(self, seconds: float) -> Histogram:
        bucket = bisect.bisect_left(BATCH_BUCKETS, seconds)
        counts = tuple(count + (i == bucket) for i, count in enumerate(self.counts))
        return Histogram(counts=counts, total=self.total + seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Lag, freshness and rows of a topic at one time.

    Attributes:
        at: the time, in seconds since the epoch.
        lag: number of offsets that the pipeline has yet to read; None if unknown.
        freshness: age in seconds of the oldest record that the pipeline has yet to read; 0 if there
            is none, None if unknown.
        rows: number of rows added since the start of the run.
    """

    at: float
    lag: int | None
    freshness: float | None
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCommit:
    """A committed batch, as the status page shows it.

    The attribute `at` is the time of the commit, in seconds since the epoch. All other attributes
    are the same as in `BatchReport`.
    """

    topic: str
    at: float
    version: int | None
    rows: int
    dead_letters: int
    seconds: float
    new_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRun:
    """The last run of a maintenance task of a topic.

    Attributes:
        at: end of the last run, in seconds since the epoch.
        result: `done`, `nothing` if there was nothing to do, or `failed: ` followed by the error
            message.
        runs: number of runs of the task in this process; 0 if the last run was in an earlier
            process.
    """

    task: str
    at: float
    result: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedTable:
    """A table to which `route-by` writes records of a topic.

    Attributes:
        table: the name of the table.
        version: the table's latest known version.
        files: number of data files.
        bytes: total size of the data files.
    """

    table: str
    table_path: str
    version: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """The status of a topic.

    Attributes:
        state: `waiting` before the topic starts, `running`, `stopped`, or `failed`.
        error: the message of the error that stopped the topic; None if there was none.
        error_type: the name of the error class, such as `KafkaError`. The runbook has a section for
            each error class.
        rows, dead_letters, left_out, filtered, deleted, superseded, retries, conflicts, bytes:
            totals of these attributes of `BatchReport`, since the start of the run.
        batches: number of committed batches since the start of the run.
        lost: number of offsets that Kafka deleted before they were read, since the start of the
            run.
        batch_seconds: durations of batches, from the start of the first attempt to the commit.
        commit_seconds: durations of the commits of batches.
        version: the table's latest known version.
        last_commit: time of the last batch's commit, in seconds since the epoch.
        lag: for each Kafka partition, the number of offsets that the pipeline has yet to read;
            empty if unknown.
        freshness: age in seconds of the oldest record that the pipeline has yet to read. The value
            is 0 if it has read all records, and None if the age is unknown.
        objective: the maximum of `freshness` in the setting `slo.freshness-seconds`; None if it
            isn't set.
        checks: number of freshness checks since the start of the run.
        misses: number of checks in which `freshness` exceeded `objective`.
        rows_per_second: rows added per second, over the last minute.
        files: number of the table's data files; None if not counted yet.
        small_files: number of data files that are smaller than 16 MiB; None if not counted.
        table_bytes: total size of the data files; None if not counted yet.
        iceberg_lag: number of versions that aren't in the table's Iceberg metadata yet; None if the
            table has no Iceberg metadata.
        routed_tables: the tables of `route-by`, sorted by name; None if the topic has no
            `route-by`, or if its tables haven't been polled yet. The attributes `files`,
            `small_files` and `table_bytes` include these tables.
        letters_waiting: number of dead letters in the dead letter table; None if not counted yet.
        letters_by_reason: number of dead letters of each kind of reason. It is empty if there are
            too many dead letters to read their reasons.
        samples: the samples of the last hour, oldest first.
    """

    topic: str
    kafka_topic: str
    table_path: str
    state: Literal["waiting", "running", "stopped", "failed"] = "waiting"
    error: str | None = None
    error_type: str | None = None
    rows: int = 0
    dead_letters: int = 0
    left_out: int = 0
    filtered: int = 0
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
    iceberg_lag: int | None = None
    letters_waiting: int | None = None
    letters_by_reason: Mapping[str, int] = field(default_factory=dict)
    routed_tables: tuple[RoutedTable, ...] | None = None
    maintenance: tuple[MaintenanceRun, ...] = ()
    samples: tuple[Sample, ...] = ()

    @property
    def routed_table_count(self) -> int | None:
        """Number of `routed_tables`; None if `routed_tables` is None."""
        return None if self.routed_tables is None else len(self.routed_tables)

    @property
    def waiting(self) -> int | None:
        """Sum of `lag` over all Kafka partitions; None if `lag` is unknown."""
        return sum(self.lag.values()) if self.lag else None

    @property
    def late(self) -> bool:
        """Whether `freshness` exceeds `objective`; False if either is None."""
        fresh, objective = self.freshness, self.objective
        return fresh is not None and objective is not None and fresh > objective


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """The status of a pipeline.

    Attributes:
        version: Bayou's version.
        configuration: path of the YAML file.
        began: start of the run, in seconds since the epoch.
        at: time of this status, in seconds since the epoch.
        commits: the last committed batches, newest first.
        watch_error: the message of the error in the last poll of brokers and tables; None if the
            poll succeeded.
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
        """Whether each topic is running, or has stopped without an error."""
        return all(topic.state in ("running", "stopped") for topic in self.topics)

    @property
    def healthy(self) -> bool:
        """Whether at least one topic hasn't failed, or there are no topics."""
        return not self.topics or any(topic.state != "failed" for topic in self.topics)
