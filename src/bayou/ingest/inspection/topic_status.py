"""The status of topics from their tables and the brokers, whether a pipeline runs or not.

Also lists the topics of a configuration and of the brokers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bayou.api import SnapshotHandle, TableHandle, table
from bayou.errors import KafkaError
from bayou.ingest.background_task import run_parallel
from bayou.ingest.batch.existing_rows import existing_offsets
from bayou.ingest.broker import describe_topic, topic_names
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.inspection.kafka_records import first_record_time
from bayou.ingest.maintenance import LastRun, completed_task, last_runs
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    next_offsets,
    recorded_start,
    resume_positions,
)
from bayou.ingest.state import is_running_locally
from bayou.ingest.topic_errors import topic_error

__all__ = [
    "ListedTopic",
    "PartitionStatusReport",
    "TopicStatusReport",
    "TopicTables",
    "list_topics",
    "topic_status_reports",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTables:
    """Handles of a topic's target table and dead letter table, which may not exist yet."""

    target: TableHandle
    dead_letters: TableHandle

    @classmethod
    def of(cls, configuration: Configuration, topic: Topic) -> TopicTables:
        """Return the handles without reading the tables."""
        options = configuration.connector.storage.storage_options()
        return cls(
            target=table(topic.table_path, options),
            dead_letters=table(dead_letters_path(topic.table_path), options),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatusReport:
    """The status of a Kafka partition.

    Attributes:
        partition: number of the partition.
        position: the next offset to read.
        start, end: the earliest offset and the end offset of the brokers.
    """

    partition: int
    position: int
    start: int
    end: int

    @property
    def waiting(self) -> int:
        """Number of offsets that aren't in the table yet."""
        return max(0, self.end - max(self.position, self.start))

    @property
    def lost(self) -> int:
        """Number of offsets that retention deleted before they were read."""
        return max(0, self.start - self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatusReport:
    """The status of a topic.

    Attributes:
        topic: the topic's key in the configuration.
        kafka_topic: the name of the Kafka topic.
        table_path: the target table.
        version: the latest version, None if there is no table yet.
        last_commit: time of the latest version, ms since the epoch.
        last_operation: operation of the latest version.
        rows, files, bytes: size of the latest version; None if it can't be read.
        dead_letters: number of dead letters; None if they can't be read.
        partitions: the status of each partition; empty if the brokers didn't answer.
        freshness_seconds: age of the oldest record that isn't in the table, 0 if all records are;
            None if the brokers didn't answer.
        objective_seconds: `slo.freshness-seconds`.
        running: whether a pipeline on this machine holds the topic's lock.
        maintenance: the last run of each task, from the state path of this machine or the newest
            1,000 commits, whichever is later.
        error: the error that prevented reading the status completely.
    """

    topic: str
    kafka_topic: str
    table_path: str
    version: int | None = None
    last_commit: int | None = None
    last_operation: str | None = None
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    dead_letters: int | None = None
    partitions: tuple[PartitionStatusReport, ...] = ()
    freshness_seconds: float | None = None
    objective_seconds: float | None = None
    running: bool = False
    maintenance: Mapping[str, LastRun]
    error: str | None = None

    @property
    def waiting(self) -> int | None:
        """Number of offsets that aren't in the table yet, None if the brokers didn't answer."""
        return sum(p.waiting for p in self.partitions) if self.partitions else None

    @property
    def late(self) -> bool:
        """Whether the objective is missed."""
        fresh, objective = self.freshness_seconds, self.objective_seconds
        return fresh is not None and objective is not None and fresh > objective


def topic_status_reports(
    configuration: Configuration, topics: tuple[Topic, ...]
) -> tuple[TopicStatusReport, ...]:
    """Read the status of topics from brokers and tables in parallel; failures are in `error`."""
    return tuple(run_parallel(lambda topic: _standing(configuration, topic), topics))


def _standing(configuration: Configuration, topic: Topic) -> TopicStatusReport:
    standing = TopicStatusReport(
        topic=topic.key,
        kafka_topic=topic.config.kafka_topic,
        table_path=topic.table_path,
        objective_seconds=topic.config.slo.freshness_seconds,
        running=is_running_locally(configuration.state_path, topic.key),
        maintenance=last_runs(configuration, topic),
    )
    tables = TopicTables.of(configuration, topic)
    snapshot: SnapshotHandle | None = None
    letters: Mapping[str, int] = {}
    try:
        if tables.target.exists():
            snapshot = tables.target.snapshot()
            facts = _table_facts(tables, snapshot.row_count(), standing.maintenance)
            standing = replace(standing, **facts)
        else:
            standing = replace(standing, rows=0, files=0, bytes=0)
        waiting = 0
        if tables.dead_letters.exists():
            dead_letters = tables.dead_letters.snapshot()
            letters = dead_letters.transactions
            waiting = dead_letters.row_count()
        standing = replace(standing, dead_letters=waiting)
        properties = configuration.connector.kafka.client_properties()
        kafka = describe_topic(topic.config.kafka_topic, properties)
        covered: dict[int, int] = {}
        existing: dict[int, int] = {}
        if snapshot is not None:
            covered = next_offsets(kafka, snapshot.transactions)
            options = configuration.connector.storage.storage_options()
            existing = existing_offsets(topic, kafka, covered, snapshot, options)
        latest = topic.config.starting_offsets == "latest"
        fixed = recorded_start(kafka, letters) if latest else None
        known = resume_positions(kafka, covered, existing=existing, recorded_start=fixed)
        partitions = tuple(
            PartitionStatusReport(
                partition=p,
                position=known.get(p, bounds.start),
                start=bounds.start,
                end=bounds.end,
            )
            for p, bounds in sorted(kafka.bounds.items())
        )
        standing = replace(standing, partitions=partitions)
        return replace(standing, freshness_seconds=_freshness(properties, kafka, partitions))
    except Exception as fault:  # noqa: BLE001  # a failure doesn't affect other topics
        return replace(standing, error=topic_error(fault, topic.key).message)


def _table_facts(
    tables: TopicTables, rows: int, known_runs: Mapping[str, LastRun]
) -> dict[str, Any]:
    detail = tables.target.detail()
    commits = tables.target.history(1000)
    maintenance = dict(known_runs)
    for commit in commits:
        completed = completed_task(commit)
        if completed is None:
            continue
        task, result = completed
        known = maintenance.get(task)
        if known is None or known.at < commit["timestamp"]:
            maintenance[task] = LastRun(at=commit["timestamp"], result=result)
    return {
        "version": detail.version,
        "last_commit": detail.last_modified,
        "last_operation": commits[0].get("operation") if commits else None,
        "rows": rows,
        "files": detail.num_files,
        "bytes": detail.size_in_bytes,
        "maintenance": maintenance,
    }


def _freshness(
    properties: Mapping[str, str], kafka: KafkaTopic, partitions: tuple[PartitionStatusReport, ...]
) -> float:
    oldest = 0.0
    for partition in partitions:
        if not partition.waiting:
            continue
        span = OffsetSpan(start=max(partition.position, partition.start), end=partition.end)
        timestamp = first_record_time(properties, kafka.name, partition.partition, span)
        if timestamp is not None:
            oldest = max(oldest, time.time() - timestamp)
    return oldest


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTopic:
    """A Kafka topic.

    Attributes:
        kafka_topic: the name of the Kafka topic.
        topic, table_path: its key in the configuration and its table, None if not configured.
        partitions, offsets: number of partitions and offsets, None if the topic doesn't exist.
    """

    kafka_topic: str
    topic: str | None = None
    table_path: str | None = None
    partitions: int | None = None
    offsets: int | None = None


def list_topics(configuration: Configuration, *, every: bool = False) -> list[ListedTopic]:
    """List the topics of the configuration, and with `every` the other topics of the brokers.

    Internal topics, whose names start with `__`, are skipped.

    Raises:
        KafkaError: no broker answers.
    """
    properties = configuration.connector.kafka.client_properties()
    existing = topic_names(properties)
    topics: list[tuple[str, str | None, str | None]] = [
        (t.config.kafka_topic, t.key, t.table_path) for t in configuration.topics
    ]
    if every:
        known = {name for name, _, _ in topics}
        topics += [(n, None, None) for n in sorted(existing - known) if not n.startswith("__")]
    result = []
    for name, key, path in topics:
        partitions = offsets = None
        if name in existing:
            try:
                bounds = describe_topic(name, properties).bounds
                partitions, offsets = len(bounds), sum(s.end - s.start for s in bounds.values())
            except KafkaError as error:
                if error.topic is None:
                    raise  # not an error of this topic: the brokers don't answer
        result.append(
            ListedTopic(
                kafka_topic=name,
                topic=key,
                table_path=path,
                partitions=partitions,
                offsets=offsets,
            )
        )
    return result
