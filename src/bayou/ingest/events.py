"""Events of a run, and the `Reporter` protocol that receives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from bayou.errors import BayouError
from bayou.ingest.offsets import OffsetSpan

MaintenanceTask: TypeAlias = Literal["compaction", "optimize", "vacuum", "forget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStarted:
    """A run starts to read a topic.

    Attributes:
        waiting: number of offsets that the run has yet to read, from `positions` to the ends of the
            Kafka partitions.
        positions: the next offset to read from each Kafka partition.
        unseen_masks: paths in the setting `masks` for which the table has no column. Such a path is
            misspelled, or no record has contained its field yet.
        unseen_fields: paths of fields that expressions read but for which the table has no column.
        table_differences: settings in the configuration, such as `cluster-by`, that the existing
            table doesn't match.
        table_changed: whether the run has changed the table to match the settings in
            `table_differences`.
    """

    topic: str
    kafka_topic: str
    table_path: str
    partitions: int
    waiting: int
    positions: Mapping[int, int] = field(default_factory=dict)
    unseen_masks: tuple[str, ...] = ()
    unseen_fields: tuple[str, ...] = ()
    table_differences: tuple[str, ...] = ()
    table_changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedRows:
    """The rows that a batch wrote to one of the tables of `route-by`.

    Attributes:
        table: the name of the table.
        version: the version of this table that the batch committed.
        created: whether the batch has created the table.
        new_columns: names of the columns that the commit added to an existing table.
    """

    table: str
    table_path: str
    rows: int
    version: int
    created: bool = False
    new_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """A micro-batch was committed to the table.

    Attributes:
        spans: the range of the batch's offsets in each Kafka partition.
        rows: number of rows added to the target and the tables of `route-by`; in an upsert, number
            of inserted and updated rows.
        left_out: number of records that were skipped, because a row or a dead letter of the record
            existed.
        filtered: number of records that `processing.where` filtered out.
        deleted: number of rows that an upsert deleted.
        superseded: in an upsert, number of records that changed no row. Such a record is older than
            another record of its key, or it deletes a key that the table doesn't have.
        version: the version of the target that the batch committed; None if it committed none.
        ignored: paths of fields that weren't stored, because the table has no column for them;
            at most 1,000 for each task.
        new_columns: names of the columns that the commit added. If the commit created the table,
            these are all columns.
        seconds: time from the start of the batch's first attempt to the commit, in seconds.
        commit_seconds: time spent in commits, in seconds. For an upsert, this includes the merge.
        bytes: total size of the data files committed to the target.
        record_bytes: total size of the batch's records: their keys, values and headers.
        retries: number of failed attempts before this commit.
        conflicts: number of failed attempts that conflicted with a commit of another writer.
        tables: the rows written to each table of `route-by`.
    """

    topic: str
    spans: Mapping[int, OffsetSpan] = field(default_factory=dict)
    rows: int = 0
    dead_letters: int = 0
    left_out: int = 0
    filtered: int = 0
    deleted: int = 0
    superseded: int = 0
    version: int | None = None
    ignored: tuple[str, ...] = ()
    new_columns: tuple[str, ...] = ()
    seconds: float = 0.0
    commit_seconds: float = 0.0
    bytes: int = 0
    record_bytes: int = 0
    retries: int = 0
    conflicts: int = 0
    tables: tuple[RoutedRows, ...] = ()

    @property
    def records(self) -> int:
        """Number of records that the batch processed, without the records in `left_out`."""
        return self.rows + self.dead_letters + self.filtered + self.deleted + self.superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """An attempt failed and will be retried.

    Attributes:
        what: the failed operation: `batch` for a batch, `topic` for a request to the brokers or a
            table, `registration` for an update of the table in the catalog.
        retry: the number of the next retry, from 1.
        of: the maximum number of retries (`max-retries`); None if there is no maximum.
        pause: seconds until the retry.
        conflict: whether another writer's commit caused the failure.
    """

    topic: str
    what: Literal["batch", "topic", "registration"]
    retry: int
    of: int | None
    pause: float
    conflict: bool = False
    error: BayouError


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsLost:
    """Kafka deleted records before they were read. The pipeline continues with later records.

    `spans` contains the offsets of the deleted records, by partition.
    """

    topic: str
    spans: Mapping[int, OffsetSpan]

    @property
    def offsets(self) -> int:
        return sum(span.end - span.start for span in self.spans.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """The result of a topic's run.

    Attributes:
        rows: number of rows added to the target.
        filtered: number of records that `processing.where` filtered out.
        commits: number of commits to the target.
        version: the target's last version; None if there is no table.
        seconds: time from the start of reading to the end of the last batch.
        error: the error that stopped the topic; None if there was none.
        restart: seconds until the pipeline restarts the topic; None if it doesn't restart the
            topic. If all topics have stopped by then, the run ends without the restart.
    """

    topic: str
    table_path: str
    rows: int = 0
    dead_letters: int = 0
    filtered: int = 0
    commits: int = 0
    version: int | None = None
    seconds: float = 0.0
    error: BayouError | None = None
    restart: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """A maintenance task of a table ended.

    Attributes:
        task: the kind of task. `compaction` compacts small files in partitions with new files since
            the last compaction. `optimize` compacts small files in all partitions. `vacuum` deletes
            files that no version within the retention needs. `forget` removes keys that exceed
            their retention from the table of deleted keys.
        started: start time in seconds since the epoch.
        result: `done`, `nothing` if there was nothing to do, or `failed`.
        files_added: number of data files that the task added to the table.
        files_removed: number of data files that the task removed from the table; for `vacuum`,
            number of deleted files.
        keys: for `forget`, the number of deleted keys that it removed.
        left: number of table partitions that remain for the next run of the task.
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
        source: the folder of the JSON files.
        files: number of files read by this migration.
        known: number of files that earlier migrations have read.
        waiting: number of files read by this migration whose last line was skipped. Such a line has
            no newline, so it may be incomplete.
        records: number of records read by this migration.
        rows: number of rows that this migration added or changed.
        filtered: number of records that `processing.where` filtered out.
        from_kafka: number of records that were skipped, because the pipeline reads them from Kafka.
        version: the version of the table that the migration committed last; None if it committed
            none.
        offsets: for each Kafka partition, the highest offset of all records that this migration and
            earlier ones have migrated.
        other_files: number of files that weren't read, because they don't have the file extension
            of a JSON file.
        other_file: name of one of the files that weren't read; None if there are none.
    """

    topic: str
    source: str
    files: int = 0
    known: int = 0
    waiting: int = 0
    records: int = 0
    rows: int = 0
    dead_letters: int = 0
    filtered: int = 0
    from_kafka: int = 0
    version: int | None = None
    seconds: float = 0.0
    offsets: Mapping[int, int] = field(default_factory=dict)
    other_files: int = 0
    other_file: str | None = None


class Reporter(Protocol):
    """Receives the events of a run.

    Methods are called from several threads. The events of one topic arrive in order.
    """

    def topic_started(self, event: TopicStarted) -> None: ...

    def batch_committed(self, event: BatchReport) -> None: ...

    def attempt_failed(self, event: AttemptFailed) -> None: ...

    def records_lost(self, event: RecordsLost) -> None:
        """Called if Kafka deleted unread records and `on-data-loss` is `continue`."""
        ...

    def migrated(self, event: MigrationReport) -> None:
        """Called after a topic's JSON files were migrated, before records from Kafka are read."""
        ...

    def maintenance_finished(self, event: MaintenanceReport) -> None:
        """Called after a maintenance task ended, from the thread of the task."""
        ...

    def topic_finished(self, event: TopicSummary) -> None:
        """Called after the run of a topic ended, with or without an error.

        The pipeline may restart the topic later.
        """
        ...
