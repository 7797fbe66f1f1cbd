"""Where a topic stands: what its tables and the brokers say, whether a pipeline runs or not.

The topics that a configuration names, and those that the brokers have.

The two tables of a topic, opened with the configuration's storage settings.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bayou.api import SnapshotHandle, TableHandle, table
from bayou.errors import KafkaError
from bayou.ingest.background_task import all_at_once
from bayou.ingest.batch.existing_rows import existing_offsets
from bayou.ingest.broker import describe_topic, topic_names
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.inspection.kafka_records import first_record_time
from bayou.ingest.maintenance import LastRun, last_runs, task_of
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    fixed_start,
    next_offsets,
    where_it_goes_on,
)
from bayou.ingest.state import runs_here
from bayou.ingest.topic_errors import topic_error

__all__ = [
    "ListedTopic",
    "PartitionStanding",
    "TopicStanding",
    "TopicTables",
    "list_topics",
    "topic_standings",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTables:
    """Handles on a topic's target and on its dead letters; neither need be there yet."""

    target: TableHandle
    dead_letters: TableHandle

    @classmethod
    def of(cls, configuration: Configuration, topic: Topic) -> TopicTables:
        """Nothing is read yet."""
        options = configuration.connector.storage.storage_options()
        return cls(
            target=table(topic.table_path, options),
            dead_letters=table(dead_letters_path(topic.table_path), options),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStanding:
    """A Kafka partition.

    Attributes:
        partition: its number.
        position: the next offset that the table wants.
        start, end: the first offset that the brokers have, and the one after the last.
    """

    partition: int
    position: int
    start: int
    end: int

    @property
    def waiting(self) -> int:
        """Offsets that are there and not in the table."""
        return max(0, self.end - max(self.position, self.start))

    @property
    def lost(self) -> int:
        """Offsets that retention has taken before they were read."""
        return max(0, self.start - self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStanding:
    """A topic as a whole.

    Attributes:
        topic: its name in the configuration.
        kafka_topic: its name at the brokers.
        table_path: the target.
        version: its latest version, None where there is no table yet.
        last_commit: when that was, ms since the epoch, and what.
        rows, files, bytes: of that version; None where it can't be read.
        dead_letters: records that wait there; None likewise.
        partitions: where each stands; empty where the brokers didn't say.
        freshness_seconds: age of the oldest record that isn't in the table, 0 where all are; None
            where the brokers didn't say.
        objective_seconds: `slo.freshness-seconds`.
        running: whether a pipeline on this machine holds the topic's lock.
        maintenance: the last run of each task: what this machine's pipeline has told, or of the
            newest 1,000 commits, whatever is later.
        error: why something above isn't known.
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
    partitions: tuple[PartitionStanding, ...] = ()
    freshness_seconds: float | None = None
    objective_seconds: float | None = None
    running: bool = False
    maintenance: Mapping[str, LastRun]
    error: str | None = None

    @property
    def waiting(self) -> int | None:
        """Offsets that are there and not in the table, None where the brokers didn't say."""
        return sum(p.waiting for p in self.partitions) if self.partitions else None

    @property
    def late(self) -> bool:
        """Whether the objective is missed."""
        fresh, objective = self.freshness_seconds, self.objective_seconds
        return fresh is not None and objective is not None and fresh > objective


def topic_standings(
    configuration: Configuration, topics: tuple[Topic, ...]
) -> tuple[TopicStanding, ...]:
    """Ask brokers and tables, all topics at once; what fails is said in `error`."""
    return tuple(all_at_once(lambda topic: _standing(configuration, topic), topics))


def _standing(configuration: Configuration, topic: Topic) -> TopicStanding:
    standing = TopicStanding(
        topic=topic.key,
        kafka_topic=topic.config.kafka_topic,
        table_path=topic.table_path,
        objective_seconds=topic.config.slo.freshness_seconds,
        running=runs_here(configuration.state_path, topic.key),
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
            there = tables.dead_letters.snapshot()
            letters = there.transactions
            waiting = there.row_count()
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
        fixed = fixed_start(kafka, letters) if latest else None
        known = where_it_goes_on(kafka, covered, existing=existing, fixed=fixed)
        partitions = tuple(
            PartitionStanding(
                partition=p,
                position=known.get(p, there.start),
                start=there.start,
                end=there.end,
            )
            for p, there in sorted(kafka.bounds.items())
        )
        standing = replace(standing, partitions=partitions)
        return replace(standing, freshness_seconds=_freshness(properties, kafka, partitions))
    except Exception as fault:  # noqa: BLE001  # a topic ends no report of the others
        return replace(standing, error=topic_error(fault, topic.key).message)


def _table_facts(
    tables: TopicTables, rows: int, known_runs: Mapping[str, LastRun]
) -> dict[str, Any]:
    detail = tables.target.detail()
    commits = tables.target.history(1000)
    maintenance = dict(known_runs)
    for commit in commits:
        found = task_of(commit)
        if found is None:
            continue
        task, result = found
        told = maintenance.get(task)
        if told is None or told.at < commit["timestamp"]:
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
    properties: Mapping[str, str], kafka: KafkaTopic, partitions: tuple[PartitionStanding, ...]
) -> float:
    oldest = 0.0
    for partition in partitions:
        if not partition.waiting:
            continue
        span = OffsetSpan(start=max(partition.position, partition.start), end=partition.end)
        moment = first_record_time(properties, kafka.name, partition.partition, span)
        if moment is not None:
            oldest = max(oldest, time.time() - moment)
    return oldest


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTopic:
    """A Kafka topic.

    Attributes:
        kafka_topic: its name at the brokers.
        topic, table_path: its name in the configuration and its table, None where it isn't there.
        partitions, offsets: how many the brokers have, None where they have no such topic.
    """

    kafka_topic: str
    topic: str | None = None
    table_path: str | None = None
    partitions: int | None = None
    offsets: int | None = None


def list_topics(configuration: Configuration, *, every: bool = False) -> list[ListedTopic]:
    """Those of the configuration in its order; with `every` then the others of the brokers.

    Internal ones, whose names begin with `__`, are left out.

    Raises:
        KafkaError: no broker answers.
    """
    properties = configuration.connector.kafka.client_properties()
    there = topic_names(properties)
    named: list[tuple[str, str | None, str | None]] = [
        (t.config.kafka_topic, t.key, t.table_path) for t in configuration.topics
    ]
    if every:
        known = {name for name, _, _ in named}
        named += [(n, None, None) for n in sorted(there - known) if not n.startswith("__")]
    found = []
    for name, key, path in named:
        partitions = offsets = None
        if name in there:
            try:
                bounds = describe_topic(name, properties).bounds
                partitions, offsets = len(bounds), sum(s.end - s.start for s in bounds.values())
            except KafkaError as error:
                if error.topic is None:
                    raise  # of no topic in particular: the brokers have gone away
        found.append(
            ListedTopic(
                kafka_topic=name,
                topic=key,
                table_path=path,
                partitions=partitions,
                offsets=offsets,
            )
        )
    return found
