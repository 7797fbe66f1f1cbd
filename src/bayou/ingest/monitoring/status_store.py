"""Collects a pipeline's status from its events and from polls of brokers and tables."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from bayou.ingest.config import Configuration
from bayou.ingest.events import (
    AttemptFailed,
    BatchReport,
    MaintenanceReport,
    MigrationReport,
    RecordsLost,
    TopicStarted,
    TopicSummary,
)
from bayou.ingest.maintenance import last_runs
from bayou.ingest.monitoring.status import (
    Histogram,
    MaintenanceRun,
    PipelineStatus,
    RoutedTable,
    Sample,
    ShownCommit,
    TopicStatus,
)
from bayou.ingest.offsets import OffsetSpan
from bayou.version import VERSION

_MAX_SAMPLES = 360
_SAMPLE_INTERVAL = 10.0
"""Seconds between samples, so that `_MAX_SAMPLES` samples cover an hour."""
_MAX_COMMITS = 50
_RATE_SECONDS = 60.0
_MAX_ARRIVALS = 1_024


class StatusStore:
    """A `Reporter` that collects the status of a run from its events. Thread-safe.

    Times are measured with a monotonic clock, so that ages and rates stay correct if the system
    clock changes. `status` converts them to the time of the system clock.
    """

    def __init__(
        self,
        configuration: Configuration,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._steady = steady
        self._since = clock() - steady()
        self._began = self._now()
        self._file = configuration.file
        self._lock = threading.Lock()
        self._watch_error: str | None = None
        self._commits: deque[ShownCommit] = deque(maxlen=_MAX_COMMITS)
        self._topics = _Topics(configuration)

    def topic_started(self, event: TopicStarted) -> None:
        with self._lock:
            topic = self._topics[event.topic]
            topic.state = "running"
            topic.error = topic.error_type = None
            topic.follow(event.positions, self._now())

    def batch_committed(self, event: BatchReport) -> None:
        now = self._now()
        with self._lock:
            topic = self._topics[event.topic]
            topic.add(event, now)
            self._commits.appendleft(
                ShownCommit(
                    topic=event.topic,
                    at=now,
                    version=event.version,
                    rows=event.rows,
                    dead_letters=event.dead_letters,
                    seconds=event.seconds,
                    new_columns=event.new_columns,
                )
            )

    def attempt_failed(self, event: AttemptFailed) -> None:
        with self._lock:
            topic = self._topics[event.topic]
            topic.retries += 1
            topic.conflicts += event.conflict

    def topic_finished(self, event: TopicSummary) -> None:
        with self._lock:
            topic = self._topics[event.topic]
            topic.state = "stopped" if event.error is None else "failed"
            topic.error = None if event.error is None else event.error.message
            topic.error_type = None if event.error is None else type(event.error).__name__
            topic.saw_version(event.version)

    def records_lost(self, event: RecordsLost) -> None:
        with self._lock:
            self._topics[event.topic].lose(event.spans)

    def migrated(self, event: MigrationReport) -> None:
        with self._lock:
            topic = self._topics[event.topic]
            topic.rows += event.rows
            topic.dead_letters += event.dead_letters
            topic.filtered += event.filtered

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        result = _result(event.result, None if event.error is None else event.error.message)
        at = event.started + event.seconds
        with self._lock:
            topic = self._topics[event.topic]
            topic.maintained(event.task, result, at)
            if event.table_path == topic.table_path:  # not the table of deleted keys
                topic.saw_version(event.version)

    def positions(self, topic: str) -> Mapping[int, int]:
        """Return the next offset that the pipeline reads from each Kafka partition.

        The result is empty before the topic starts.
        """
        with self._lock:
            return dict(self._topics[topic].positions)

    def active(self) -> list[str]:
        """Return the keys of the running topics."""
        with self._lock:
            return [key for key, topic in self._topics.items() if topic.state == "running"]

    def behind(self) -> list[str]:
        """Return the keys of the topics whose end offsets are polled.

        These topics are running, or have failed after their start.
        """
        with self._lock:
            return [
                key
                for key, topic in self._topics.items()
                if topic.state == "running" or (topic.state == "failed" and topic.positions)
            ]

    def set_end_offsets(
        self, topic: str, ends: Mapping[int, int], first_waiting: Mapping[int, float]
    ) -> None:
        """Set the end offset of each Kafka partition of a topic.

        Args:
            ends: the end offset of each partition.
            first_waiting: for each partition in the result of `unknown_arrivals`, the Kafka
                timestamp of its first unread record, in seconds since the epoch.
        """
        now, jump = self._now(), self._jump()
        written = {partition: time - jump for partition, time in first_waiting.items()}
        with self._lock:
            self._topics[topic].set_end_offsets(ends, written, now)

    def unknown_arrivals(self, topic: str, ends: Mapping[int, int]) -> dict[int, int]:
        """Return the offset of each partition's first unread record if the record's age is unknown.

        The caller reads the Kafka timestamps of these records.

        Args:
            ends: the end offset of each partition.
        """
        with self._lock:
            return self._topics[topic].unknown_arrivals(ends)

    def set_table(
        self,
        topic: str,
        *,
        version: int,
        files: int,
        small_files: int | None,
        table_bytes: int,
        iceberg_lag: int | None = None,
        letters: int,
        reasons: Mapping[str, int] | None = None,
        routed_tables: Iterable[RoutedTable] | None = None,
    ) -> None:
        """Set the state of a topic's tables from the last poll.

        Args:
            iceberg_lag: number of versions that aren't in the table's Iceberg metadata yet; None if
                the table has no Iceberg metadata.
            reasons: number of dead letters by kind of reason; None if the dead letters haven't
                changed.
            routed_tables: the tables of `route-by`; None if the topic has no `route-by`.
        """
        with self._lock:
            state = self._topics[topic]
            state.saw_version(version)
            state.files, state.small_files = files, small_files
            state.table_bytes, state.letters_waiting = table_bytes, letters
            state.iceberg_lag = iceberg_lag
            if reasons is not None:
                state.letters_by_reason = dict(reasons)
            state.routed_tables = (
                None
                if routed_tables is None
                else tuple(sorted(routed_tables, key=lambda routed: routed.table))
            )

    def watched(self, error: str | None) -> None:
        """Set the error message of a poll of brokers and tables; None if the poll succeeded."""
        with self._lock:
            self._watch_error = error

    def status(self) -> PipelineStatus:
        now, jump = self._now(), self._jump()
        with self._lock:
            return PipelineStatus(
                version=VERSION,
                configuration=self._file,
                began=self._began + jump,
                at=now + jump,
                topics=tuple(topic.status(now, jump) for topic in self._topics.values()),
                commits=tuple(_shifted(self._commits, jump)),
                watch_error=self._watch_error,
            )

    def _now(self) -> float:
        """Return the seconds since the epoch, not affected by later changes of the system clock."""
        return self._steady() + self._since

    def _jump(self) -> float:
        """Return the number of seconds by which the system clock has changed during the run.

        Changes of up to one second are returned as 0.
        """
        jump = self._clock() - self._now()
        return jump if abs(jump) > 1.0 else 0.0


Timed = TypeVar("Timed", Sample, ShownCommit)


def _shifted(items: Iterable[Timed], jump: float) -> Iterable[Timed]:
    return (replace(item, at=item.at + jump) for item in items) if jump else items


def _result(result: str, reason: str | None) -> str:
    return result if reason is None else f"failed: {reason}"


@dataclass(slots=True, kw_only=True)
class _Partition:
    """The end offsets of a Kafka partition over time. They show the age of the first unread record.

    Attributes:
        arrivals: pairs of a time and the end offset at this time, oldest first. If the pipeline has
            read all records below the first end offset in this list, the first unread record
            arrived after the first time in this list. Otherwise, the first unread record arrived
            before the first poll.
        waiting_since: the Kafka timestamp of the first record that was unread at the first poll. It
            is None if the timestamp is unknown, or if all records of the first poll have been read.
    """

    arrivals: deque[tuple[float, int]] = field(default_factory=deque)
    waiting_since: float | None = None

    def saw(self, end: int, now: float) -> None:
        if [seen for _, seen in list(self.arrivals)[-2:]] == [end, end]:
            self.arrivals.pop()  # only the first and last time of an end offset are needed
        self.arrivals.append((now, end))
        if len(self.arrivals) > _MAX_ARRIVALS:  # a long stall: drop every second pair
            first, *others = self.arrivals
            self.arrivals = deque([first, *others[1::2]])

    def cover(self, position: int) -> None:
        while len(self.arrivals) > 1 and self.arrivals[1][1] <= position:
            self.arrivals.popleft()
        if self.arrivals and self.arrivals[0][1] <= position:
            self.waiting_since = None

    def age(self, position: int, now: float) -> float | None:
        """Return an upper bound of the age of the first unread record, in seconds.

        The result is 0 if all records have been read, and None if the age is unknown.

        Args:
            position: the next offset that the pipeline reads.
            now: the current time, in seconds since the epoch.
        """
        if not self.arrivals:
            return None
        if self.arrivals[-1][1] <= position:
            return 0.0
        seen, end = self.arrivals[0]
        since = seen if end <= position or self.waiting_since is None else self.waiting_since
        return max(0.0, now - since)


class _Topics(dict[str, "_Topic"]):
    """The state of each topic, by the topic's key.

    A topic that was created during the run is added when it is first used.
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__()
        self._configuration = configuration
        for topic in configuration.topics:
            self[topic.key] = self.__missing__(topic.key)

    def __missing__(self, key: str) -> _Topic:
        topic = self._configuration.find_topic(key)
        assert topic is not None  # events only have the keys of topics
        self[key] = _Topic(
            topic=topic.key,
            kafka_topic=topic.config.kafka_topic,
            table_path=topic.table_path,
            objective=topic.config.slo.freshness_seconds,
            maintenance={
                task: MaintenanceRun(
                    task=task, at=run.at / 1000, result=_result(run.result, run.reason), runs=0
                )
                for task, run in last_runs(self._configuration, topic).items()
            },
        )
        return self[key]


@dataclass(slots=True, kw_only=True)
class _Topic:
    topic: str
    kafka_topic: str
    table_path: str
    objective: float | None
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
    lost_below: dict[int, int] = field(default_factory=dict)
    bytes: int = 0
    batch_seconds: Histogram = field(default_factory=Histogram)
    commit_seconds: Histogram = field(default_factory=Histogram)
    version: int | None = None
    last_commit: float | None = None
    positions: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    partitions: dict[int, _Partition] = field(default_factory=dict)
    checks: int = 0
    misses: int = 0
    files: int | None = None
    small_files: int | None = None
    table_bytes: int | None = None
    iceberg_lag: int | None = None
    letters_waiting: int | None = None
    letters_by_reason: dict[str, int] = field(default_factory=dict)
    routed_tables: tuple[RoutedTable, ...] | None = None
    maintenance: dict[str, MaintenanceRun] = field(default_factory=dict)
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=_MAX_SAMPLES))

    def follow(self, positions: Mapping[int, int], now: float) -> None:
        self.positions.update(positions)
        for number, position in self.positions.items():
            self.partitions.setdefault(number, _Partition()).cover(position)
        self.keep(self._sample(now))

    def keep(self, sample: Sample) -> None:
        """Add a sample to `samples`, or replace the last sample by it.

        The last sample is replaced if it is less than `_SAMPLE_INTERVAL` after the sample before
        it.
        """
        if len(self.samples) > 1 and self.samples[-1].at - self.samples[-2].at < _SAMPLE_INTERVAL:
            self.samples.pop()
        self.samples.append(sample)

    def add(self, event: BatchReport, now: float) -> None:
        self.rows += event.rows
        self.dead_letters += event.dead_letters
        self.left_out += event.left_out
        self.filtered += event.filtered
        self.deleted += event.deleted
        self.superseded += event.superseded
        self.bytes += event.bytes
        self.batches += 1
        self.batch_seconds = self.batch_seconds.plus(event.seconds)
        if event.commit_seconds:
            self.commit_seconds = self.commit_seconds.plus(event.commit_seconds)
        self.last_commit = now
        self.saw_version(event.version)
        for number, span in event.spans.items():
            self.ends[number] = max(self.ends.get(number, 0), span.end)
        self.follow({number: span.end for number, span in event.spans.items()}, now)

    def saw_version(self, version: int | None) -> None:
        """Set the latest known version, unless a later version is known already.

        Events can arrive out of order.
        """
        if version is not None:
            self.version = version if self.version is None else max(version, self.version)

    def lose(self, spans: Mapping[int, OffsetSpan]) -> None:
        """Count lost offsets. An offset that is reported several times is counted once."""
        for number, span in spans.items():
            start = max(span.start, self.lost_below.get(number, span.start))
            self.lost += max(0, span.end - start)
            self.lost_below[number] = max(start, span.end)

    def maintained(self, task: str, result: str, now: float) -> None:
        before = self.maintenance.get(task)
        runs = 1 if before is None else before.runs + 1
        self.maintenance[task] = MaintenanceRun(task=task, at=now, result=result, runs=runs)

    def unknown_arrivals(self, ends: Mapping[int, int]) -> dict[int, int]:
        return {
            number: self.positions[number]
            for number, end in ends.items()
            if number in self.positions
            and end > self.positions[number]
            and not self.partitions.setdefault(number, _Partition()).arrivals
        }

    def set_end_offsets(
        self, ends: Mapping[int, int], first_waiting: Mapping[int, float], now: float
    ) -> None:
        for number, end in ends.items():
            self.ends[number] = end
            self.positions.setdefault(number, 0)
            partition = self.partitions.setdefault(number, _Partition())
            if number in first_waiting:
                partition.waiting_since = first_waiting[number]
            partition.saw(end, now)
            partition.cover(self.positions[number])
        sample = self._sample(now)
        self.keep(sample)
        if sample.freshness is not None:
            self.checks += 1
            self.misses += self.objective is not None and sample.freshness > self.objective

    def status(self, now: float, jump: float) -> TopicStatus:
        """Return the status.

        Args:
            now: the current time, measured with the monotonic clock.
            jump: the change of the system clock during the run. It is added to all times.
        """
        sample = self._sample(now)
        return TopicStatus(
            topic=self.topic,
            kafka_topic=self.kafka_topic,
            table_path=self.table_path,
            state=self.state,
            error=self.error,
            error_type=self.error_type,
            rows=self.rows,
            dead_letters=self.dead_letters,
            left_out=self.left_out,
            filtered=self.filtered,
            deleted=self.deleted,
            superseded=self.superseded,
            batches=self.batches,
            retries=self.retries,
            conflicts=self.conflicts,
            lost=self.lost,
            bytes=self.bytes,
            batch_seconds=self.batch_seconds,
            commit_seconds=self.commit_seconds,
            version=self.version,
            last_commit=None if self.last_commit is None else self.last_commit + jump,
            lag=self._lag(),
            freshness=sample.freshness,
            objective=self.objective,
            checks=self.checks,
            misses=self.misses,
            rows_per_second=self._rate(now),
            files=self.files,
            small_files=self.small_files,
            table_bytes=self.table_bytes,
            iceberg_lag=self.iceberg_lag,
            letters_waiting=self.letters_waiting,
            letters_by_reason=self.letters_by_reason,
            routed_tables=self.routed_tables,
            maintenance=tuple(self.maintenance.values()),
            samples=tuple(_shifted([*self.samples, sample], jump)),
        )

    def _lag(self) -> dict[int, int]:
        return {p: max(0, end - self.positions.get(p, 0)) for p, end in sorted(self.ends.items())}

    def _sample(self, now: float) -> Sample:
        ages = [
            partition.age(self.positions.get(number, 0), now)
            for number, partition in self.partitions.items()
        ]
        known = [age for age in ages if age is not None]
        return Sample(
            at=now,
            lag=sum(self._lag().values()) if self.ends else None,
            freshness=max(known) if known else None,
            rows=self.rows,
        )

    def _rate(self, now: float) -> float:
        before = next((s for s in self.samples if s.at >= now - _RATE_SECONDS), None)
        if before is None or now - before.at < 1e-3:
            return 0.0
        return (self.rows - before.rows) / (now - before.at)
