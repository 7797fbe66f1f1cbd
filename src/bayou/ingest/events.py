"""Events of a run, and the `Reporter` protocol that receives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from bayou.errors import BayouError
from bayou.ingest.offsets import OffsetSpan

__all__ = [
    "AttemptFailed",
    "BatchReport",
    "MaintenanceReport",
    "MaintenanceTask",
    "MigrationReport",
    "RecordsLost",
    "Reporter",
    "TopicStarted",
    "TopicSummary",
]

MaintenanceTask: TypeAlias = Literal["compaction", "optimize", "vacuum", "forget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStarted:
    """A topic starts to be read.

    Attributes:
        topic: the topic's key in the configuration.
        kafka_topic: the name of the Kafka topic.
        table_path: the target table.
        partitions: number of Kafka partitions.
        waiting: number of offsets in Kafka that the table doesn't cover yet.
        positions: for each partition the first offset to read.
        unseen_masks: paths of masks that match no column: misspelled, or not seen yet.
    """

    topic: str
    kafka_topic: str
    table_path: str
    partitions: int
    waiting: int
    positions: Mapping[int, int] = field(default_factory=dict)
    unseen_masks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """A micro-batch was committed to the table.

    Attributes:
        topic: the topic's key in the configuration.
        spans: the offsets of the batch in each Kafka partition.
        rows: rows added to the target; for an upsert, rows that are new or have new values.
        dead_letters: records added to the dead letter table.
        left_out: records that the table already had.
        deleted: rows that an upsert deleted.
        superseded: records of an upsert that changed no row, because the table has a newer record
            of their key, or doesn't have the key that they delete.
        version: the target's version, None if nothing was committed to it.
        ignored: paths of fields that the table has no column for and that were dropped.
        new_columns: columns that this commit added to the table or created it with.
        seconds: time from the batch's arrival to its commit.
        commit_seconds: time of the commits, for an upsert including the merge.
        bytes: size of the data files that were committed to the target.
        retries: attempts after the first.
        conflicts: retries that were caused by another writer's commit.
    """

    topic: str
    spans: Mapping[int, OffsetSpan] = field(default_factory=dict)
    rows: int = 0
    dead_letters: int = 0
    left_out: int = 0
    deleted: int = 0
    superseded: int = 0
    version: int | None = None
    ignored: tuple[str, ...] = ()
    new_columns: tuple[str, ...] = ()
    seconds: float = 0.0
    commit_seconds: float = 0.0
    bytes: int = 0
    retries: int = 0
    conflicts: int = 0

    @property
    def records(self) -> int:
        """Number of records with a result: a row, a deletion, superseded or a dead letter."""
        return self.rows + self.dead_letters + self.deleted + self.superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """A batch or a query failed and will be retried.

    Attributes:
        topic: the topic's key in the configuration.
        what: a `batch`, or the `topic` whose broker or tables can't be queried.
        retry: the number of the next attempt, 1 for the first retry.
        of: maximum number of retries (max-retries).
        pause: seconds until the retry.
        conflict: whether another writer's commit caused the failure.
        error: the failure.
    """

    topic: str
    what: Literal["batch", "topic"]
    retry: int
    of: int
    pause: float
    conflict: bool = False
    error: BayouError


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsLost:
    """Kafka's retention deleted records before they were read, and the topic continues.

    Attributes:
        topic: the topic's key in the configuration.
        spans: the lost offsets of each Kafka partition.
    """

    topic: str
    spans: Mapping[int, OffsetSpan]

    @property
    def offsets(self) -> int:
        """How many, of all partitions."""
        return sum(span.end - span.start for span in self.spans.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """The result of a topic's run.

    Attributes:
        topic: the topic's key in the configuration.
        table_path: the target table.
        rows: rows added to the target.
        dead_letters: records added to the dead letter table.
        commits: number of commits to the target.
        version: the target's final version, None if there is no table.
        seconds: from the start of reading to the end of the last batch.
        error: the error that stopped the topic, None if it succeeded.
        restart: seconds until the topic is restarted if other topics still run, None for never.
    """

    topic: str
    table_path: str
    rows: int = 0
    dead_letters: int = 0
    commits: int = 0
    version: int | None = None
    seconds: float = 0.0
    error: BayouError | None = None
    restart: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """A maintenance task of a table ended.

    Attributes:
        topic: the topic's key in the configuration.
        task: `compaction` compacts the small files of partitions written since the last one,
            `optimize` those of all partitions, `vacuum` deletes files that no version within the
            retention needs, `forget` removes deleted keys of an upsert that exceed their retention.
        table_path: the table.
        started: start time in seconds since the epoch.
        seconds: duration.
        result: `done`, `nothing` if there was nothing to do, or `failed`.
        version: the version of the last commit, None without a commit.
        files_added, files_removed: number of data files; for a vacuum, the deleted files.
        keys: number of keys that were removed.
        left: number of partitions left for the next run.
        error: the error of a failed task.
    """

    topic: str
    task: MaintenanceTask
    table_path: str
    started: float
    seconds: float = 0.0
    result: Literal["done", "nothing", "failed"] = "nothing"
    version: int | None = None
    files_added: int = 0
    files_removed: int = 0
    keys: int = 0
    left: int = 0
    error: BayouError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReport:
    """The result of a migration.

    Attributes:
        topic: the topic's key in the configuration.
        source: the folder of the JSON files.
        files: number of files read by this migration.
        known: number of files that earlier migrations have read.
        waiting: files of `files` whose last line has no newline and may still be written.
        records: number of records read by this migration.
        rows: rows that these records added or changed.
        dead_letters: records added to the dead letter table.
        from_kafka: records that were skipped because Kafka has them too.
        version: the table's version, None if nothing was written.
        seconds: duration.
        offsets: for each Kafka partition the last offset found in records of all migrations.
    """

    topic: str
    source: str
    files: int = 0
    known: int = 0
    waiting: int = 0
    records: int = 0
    rows: int = 0
    dead_letters: int = 0
    from_kafka: int = 0
    version: int | None = None
    seconds: float = 0.0
    offsets: Mapping[int, int] = field(default_factory=dict)


class Reporter(Protocol):
    """Receives the events of a run. Called from several threads; a topic's calls are in order."""

    def topic_started(self, event: TopicStarted) -> None:
        """A topic starts to be read."""
        ...

    def batch_committed(self, event: BatchReport) -> None:
        """A micro-batch was committed."""
        ...

    def attempt_failed(self, event: AttemptFailed) -> None:
        """A batch or a query failed and will be retried."""
        ...

    def records_lost(self, event: RecordsLost) -> None:
        """Records were lost before they were read, with `on-data-loss: continue`."""
        ...

    def migrated(self, event: MigrationReport) -> None:
        """A topic's JSON files were migrated, before the run reads the first record."""
        ...

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        """A maintenance task ended; called from maintenance threads."""
        ...

    def topic_finished(self, event: TopicSummary) -> None:
        """The topic's run ended, with or without an error; `topic_started` may follow."""
        ...
