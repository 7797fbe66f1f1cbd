"""What a run tells while it works; the command line and tests listen."""

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
    """A topic is about to be read.

    Attributes:
        topic: its name in the configuration.
        kafka_topic: its name at the broker.
        table_path: the target.
        partitions: number of Kafka partitions.
        waiting: offsets that are there and that the table doesn't cover.
        positions: for each partition the offset that is read first.
        unseen_masks: paths of masks that no column is of: misspelt, or not met yet.
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
    """A micro-batch is in the table.

    Attributes:
        topic: its name in the configuration.
        spans: the covered offsets of each Kafka partition.
        rows: rows added to the target; of an upsert those that are new or have new values.
        dead_letters: records added to the dead letters.
        left_out: records that were there already.
        deleted: rows that an upsert took out.
        superseded: records of an upsert that changed no row: a newer one of their key is there, or
            the key that they delete isn't.
        version: the target's version, None where nothing was committed to it.
        ignored: paths of fields that the table doesn't have and that were left out.
        new_columns: columns that this commit added to the table, or made it with.
        seconds: from the batch's arrival to its commit.
        commit_seconds: those of them that the commits took, of an upsert the merge included.
        bytes: of the data files that were committed to the target.
        retries: attempts beyond the first.
        conflicts: those of them that another writer's commit made necessary.
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
        """Records that were decided."""
        return self.rows + self.dead_letters + self.deleted + self.superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """Something failed and is about to be tried again.

    Attributes:
        topic: its name in the configuration.
        what: a `batch`, or the `topic` whose broker or tables can't be queried.
        retry: the number of the next attempt, 1 for the first retry.
        of: how many there may be: max-retries.
        pause: seconds until then.
        conflict: another writer's commit made it necessary.
        error: why.
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
    """Kafka's retention took records before they were read, and the topic goes on without them.

    Attributes:
        topic: its name in the configuration.
        spans: the offsets of each Kafka partition.
    """

    topic: str
    spans: Mapping[int, OffsetSpan]

    @property
    def offsets(self) -> int:
        """How many, of all partitions."""
        return sum(span.end - span.start for span in self.spans.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """A topic's whole run.

    Attributes:
        topic: its name in the configuration.
        table_path: the target.
        rows: rows added to the target.
        dead_letters: records added to the dead letters.
        commits: commits to the target.
        version: the target's version in the end, None where there is no table.
        seconds: from the start of reading to the end of the last batch.
        error: what stopped the topic, None where it did all.
        restart: seconds until it is begun again if others still go on then, None where it isn't.
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
    """A table was kept in shape, or should have been.

    Attributes:
        topic: its name in the configuration.
        task: `compaction` packs small files of partitions written since the last one, `optimize`
            of all, `vacuum` deletes files that no version within the retention needs, `forget`
            takes out deleted keys of an upsert that are past their retention.
        table_path: the table.
        started: seconds since the epoch.
        seconds: how long it took.
        result: `done`, `nothing` where there was nothing to do, or `failed`.
        version: of its last commit, None for none.
        files_added, files_removed: data files; of a vacuum what was deleted.
        keys: that were forgotten.
        left: partitions that wait for the next time.
        error: why it failed.
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
    """What a migration did.

    Attributes:
        topic: its name in the configuration.
        source: the folder.
        files: that were read now, and `known` those that had been before.
        waiting: files of `files` whose last line has no newline yet and may still grow.
        records: that were read now, of which `rows` became or changed rows.
        from_kafka: records that the table has from Kafka or will get, and so were left out.
        version: the table's; None where nothing was written.
        offsets: for each Kafka partition the last offset that a record named, in all runs.
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
    """Listens to a run. Called from several threads, one topic's calls in order."""

    def topic_started(self, event: TopicStarted) -> None:
        """Reading begins."""
        ...

    def batch_committed(self, event: BatchReport) -> None:
        """A micro-batch is in the table."""
        ...

    def attempt_failed(self, event: AttemptFailed) -> None:
        """A batch or a query is tried again."""
        ...

    def records_lost(self, event: RecordsLost) -> None:
        """Records were gone before they were read; with `on-data-loss: continue`."""
        ...

    def migrated(self, event: MigrationReport) -> None:
        """A topic's JSON files are in its table, before its first record of this run is read."""
        ...

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        """A table was kept in shape; from threads beside those of the topics."""
        ...

    def topic_finished(self, event: TopicSummary) -> None:
        """The topic's run ended, well or with an error; `topic_started` may follow it."""
        ...
