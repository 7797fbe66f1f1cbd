"""Reads the status of topics from their tables and the brokers, without a running pipeline.

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
from bayou.ingest.batch.target.existing_rows import existing_offsets
from bayou.ingest.broker import describe_topic, first_start, topic_names
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.inspection.kafka_records import first_record_time
from bayou.ingest.local_state import is_running_locally
from bayou.ingest.maintenance import LastRun, completed_task, last_runs
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    next_offsets,
    recorded_start,
    resume_positions,
)
from bayou.ingest.routing.inspection import RoutedTableStatus, routed_statuses
from bayou.ingest.topic_errors import topic_error


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTables:
    """Handles of a topic's target table and dead letter table. The tables may not exist yet."""

    topic: Topic
    target: TableHandle
    dead_letters: TableHandle

    @classmethod
    def of(cls, configuration: Configuration, topic: Topic) -> TopicTables:
        options = configuration.connector.storage.storage_options()
        return cls(
            topic=topic,
            target=table(topic.table_path, options),
            dead_letters=table(dead_letters_path(topic.table_path), options),
        )

    @property
    def letters_filter(self) -> str | None:
        """SQL condition that selects the topic's dead letters in the dead letter table.

        None if no other topic writes to the target. All dead letters in the table then belong to
        this topic.
        """
        if not self.topic.shares_table:
            return None
        return f"topic = '{self.topic.config.kafka_topic}'"

    def count_letters(self, letters: SnapshotHandle) -> int:
        """Return the number of the topic's dead letters in a version of the dead letter table."""
        if self.letters_filter is None:
            return letters.count()
        batches = letters.to_batches(["partition"], self.letters_filter)
        return sum(batch.num_rows for batch in batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatusReport:
    """The status of a Kafka partition.

    Attributes:
        position: the next offset that the pipeline reads.
        start: the earliest offset that the brokers have.
        end: the offset after the last offset that the brokers have.
    """

    partition: int
    position: int
    start: int
    end: int

    @property
    def waiting(self) -> int:
        """Number of offsets that the brokers have and that the pipeline has yet to read."""
        return max(0, self.end - max(self.position, self.start))

    @property
    def lost(self) -> int:
        """Number of offsets that Kafka deleted before the pipeline read them."""
        return max(0, self.start - self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatusReport:
    """The status of a topic.

    Attributes:
        version: the table's latest version; None if there is no table yet.
        last_commit: time of the latest version, ms since the epoch.
        last_operation: operation of the latest version, such as `STREAMING UPDATE`.
        rows: number of rows in the latest version; None if the table can't be read.
        files: number of data files in the latest version; None if the table can't be read.
        bytes: total size of these files; None if the table can't be read.
        dead_letters: number of dead letters; None if they can't be read.
        partitions: the status of each Kafka partition; empty if the brokers didn't answer.
        freshness_seconds: age of the oldest record that the pipeline has yet to read; 0 if it has
            read all records; None if the brokers didn't answer.
        objective_seconds: the maximum of `freshness_seconds` in the setting
            `slo.freshness-seconds`; None if it isn't set.
        running: whether a pipeline on this machine holds the topic's lock.
        tables: the status of each table of `route-by`; empty if there are no such tables. `rows`,
            `files` and `bytes` include these tables.
        maintenance: the last run of each maintenance task that is recorded in the state path of
            this machine or in the table's newest 1,000 commits.
        error: the message of the error because of which the status is incomplete; None if there was
            none.
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
    tables: tuple[RoutedTableStatus, ...] = ()
    maintenance: Mapping[str, LastRun]
    error: str | None = None

    @property
    def waiting(self) -> int | None:
        """Number of offsets that the pipeline has yet to read; None if brokers didn't answer."""
        return sum(p.waiting for p in self.partitions) if self.partitions else None

    @property
    def late(self) -> bool:
        """Whether `freshness_seconds` exceeds `objective_seconds`; False without a limit."""
        fresh, objective = self.freshness_seconds, self.objective_seconds
        return fresh is not None and objective is not None and fresh > objective


def topic_status_reports(
    configuration: Configuration, topics: tuple[Topic, ...]
) -> tuple[TopicStatusReport, ...]:
    """Read the status of topics in parallel. A failure is reported in the topic's `error`."""
    return tuple(run_parallel(lambda topic: _topic_status(configuration, topic), topics))


def _topic_status(configuration: Configuration, topic: Topic) -> TopicStatusReport:
    status = TopicStatusReport(
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
        topic.check_table()
        if tables.target.exists():
            snapshot = tables.target.snapshot()
            facts = _table_facts(tables, snapshot.count(), status.maintenance)
            status = replace(status, **facts)
            status = _with_routed(status, routed_statuses(configuration, topic, snapshot))
        else:
            status = replace(status, rows=0, files=0, bytes=0)
        waiting = 0
        if tables.dead_letters.exists():
            dead_letters = tables.dead_letters.snapshot()
            letters = dead_letters.transactions
            waiting = tables.count_letters(dead_letters)
        status = replace(status, dead_letters=waiting)
        properties = configuration.connector.kafka.client_properties()
        kafka = describe_topic(topic.config.kafka_topic, properties)
        transactions: Mapping[str, int] = {}
        existing: dict[int, int] = {}
        if snapshot is not None:
            transactions = snapshot.transactions
            covered = next_offsets(kafka, transactions)
            options = configuration.connector.storage.storage_options()
            existing = existing_offsets(topic, kafka, covered, snapshot, options)
        known: Mapping[int, int] = resume_positions(kafka, transactions, letters, existing)
        if not known:
            known = first_start(topic, kafka, properties, recorded_start(kafka, letters))
        partitions = tuple(
            PartitionStatusReport(
                partition=p,
                position=known.get(p, bounds.start),
                start=bounds.start,
                end=bounds.end,
            )
            for p, bounds in sorted(kafka.bounds.items())
        )
        status = replace(status, partitions=partitions)
        return replace(status, freshness_seconds=_freshness(properties, kafka, partitions))
    except Exception as fault:  # noqa: BLE001  # a failure doesn't affect other topics
        return replace(status, error=topic_error(fault, topic.key).message)


def _with_routed(
    status: TopicStatusReport, tables: tuple[RoutedTableStatus, ...]
) -> TopicStatusReport:
    return replace(
        status,
        tables=tables,
        rows=(status.rows or 0) + sum(table.rows for table in tables),
        files=(status.files or 0) + sum(table.files for table in tables),
        bytes=(status.bytes or 0) + sum(table.bytes for table in tables),
    )


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
    """A topic of the configuration or of the brokers.

    Attributes:
        topic: the topic's key in the configuration; None if the topic isn't configured.
        table_path: the target table; None if the topic isn't configured.
        partitions: number of partitions; None if the topic doesn't exist or can't be described.
        offsets: number of offsets that the brokers have in all partitions; None if `partitions` is
            None.
    """

    kafka_topic: str
    topic: str | None = None
    table_path: str | None = None
    partitions: int | None = None
    offsets: int | None = None


def list_topics(
    configuration: Configuration, *, include_unconfigured: bool = False
) -> list[ListedTopic]:
    """List the topics of the configuration, with their number of partitions and offsets.

    Args:
        include_unconfigured: whether to add the brokers' topics that aren't in the configuration.
            Internal topics, whose names start with `__`, aren't added.

    Raises:
        KafkaError: no broker answers.
    """
    properties = configuration.connector.kafka.client_properties()
    existing = topic_names(properties)
    topics: list[tuple[str, str | None, str | None]] = [
        (t.config.kafka_topic, t.key, t.table_path) for t in configuration.topics
    ]
    if include_unconfigured:
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
                    raise  # an error of the brokers, not of this topic
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
