"""The target table of a topic: transactions, and changes of its definition."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from bayou.errors import (
    BayouError,
    CommitConflictError,
    ConcurrentTransactionError,
    IcebergCompatError,
    PipelineError,
    SchemaError,
    TablePropertyError,
    UnsupportedFeatureError,
)
from bayou.ingest.batch.filter_history import filter_properties
from bayou.ingest.batch.row_layout import RowLayout
from bayou.ingest.batch.target.stored_columns import input_properties
from bayou.ingest.batch.target.table_definition import (
    apply_definition,
    comment_columns,
    with_column_comments,
    with_definition,
)
from bayou.ingest.batch.target.target_checks import (
    CHECKED_VERSION,
    NEWEST_RESTORE,
    key_properties,
    restore_app_id,
)
from bayou.ingest.batch.target.target_state import TargetState
from bayou.ingest.config import Topic
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    app_id,
    start_app_id,
)
from bayou.ingest.retries import retry_delay
from bayou.kernel import Operation, Snapshot, Transaction, delete_data_files
from bayou.kernel.commands.optimize.auto_compaction import compact_after
from bayou.kernel.engine import Engine
from bayou.protocol.actions import AddFile
from bayou.protocol.properties import LOG_RETENTION
from bayou.version import ENGINE_INFO, INGEST_ENGINE_INFO

# `check_not_restored` looks for a RESTORE after the last commit with `INGEST_ENGINE_INFO`. Commits
# that don't check for a RESTORE, such as changes of comments, therefore have `ENGINE_INFO`.


class TargetTable(TargetState):
    """The target table of one topic, for reading and committing.

    Commits are based on the last version that was read. If `kafka` is None, no offsets are
    committed.
    """

    def __init__(self, engine: Engine, topic: Topic, kafka: KafkaTopic | None) -> None:
        super().__init__(engine, topic, kafka)
        self._starts: dict[int, int] = {}
        self._recorded_restore = -1  # the RESTORE that was recorded since the snapshot was read

    def begin(
        self,
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        transaction_ids: Mapping[str, int] | None = None,
        *,
        properties: Mapping[str, str] | None = None,
    ) -> tuple[Transaction, tuple[str, ...]]:
        """Start a transaction that adds rows and records the offsets of `spans`.

        Args:
            layout: the columns of the rows. Columns that the table doesn't have yet are added to
                it.
            spans: the offsets of the rows' records, by Kafka partition.
            transaction_ids: additional transaction identifiers to commit.
            properties: additional table properties to set. The properties that the method
                `table_properties` returns are always set.

        Returns:
            The transaction, and the names of the columns that it adds to the table.
        """
        destination, schema = self._topic.config.destination, layout.schema
        if self._snapshot is None:
            builder = (
                self._table.create_transaction_builder(
                    self._engine,
                    engine_info=INGEST_ENGINE_INFO,
                    operation=Operation.STREAMING_UPDATE,
                )
                .with_table_created()
                .with_partition_columns(destination.partition_columns)
            )
            builder = with_definition(builder, self._topic)
            schema = with_column_comments(self._topic, schema)
        else:
            builder = self._snapshot.build_update_table_transaction(
                INGEST_ENGINE_INFO, Operation.STREAMING_UPDATE
            ).with_schema_evolution(True)
        builder = builder.with_schema(schema).with_operation_parameters(
            {"outputMode": "Append", "topic": self._topic.config.kafka_topic}
        )
        builder = builder.with_table_properties(
            {**self.table_properties(layout), **(properties or {})}
        )
        ids = {**self.transaction_ids(spans), **(transaction_ids or {})}
        for application, version in ids.items():
            builder = builder.with_transaction_id(application, version)
        with schema_errors(self._topic):
            transaction = builder.build(self._engine)
        return transaction, self.new_columns(layout)

    def cover(self, offsets: Mapping[int, int], tags: Mapping[str, str] | None = None) -> None:
        """Commit offsets without rows.

        A conflict is retried `max-retries` times.

        Args:
            offsets: the last processed offset of each Kafka partition.
            tags: tags of the commit's `commitInfo` action.
        """
        self._retry_conflicts(lambda: self._cover(offsets, tags))

    def _cover(self, offsets: Mapping[int, int], tags: Mapping[str, str] | None) -> None:
        assert self._snapshot is not None
        builder = self._snapshot.build_update_table_transaction(
            INGEST_ENGINE_INFO, Operation.STREAMING_UPDATE
        ).with_table_properties(key_properties(self._topic))
        spans = {p: OffsetSpan(start=0, end=last + 1) for p, last in offsets.items()}
        for application, version in self.transaction_ids(spans).items():
            builder = builder.with_transaction_id(application, version)
        result = builder.build(self._engine).commit(self._engine, (), tags=tags)
        result.run_post_commit_hooks(self._engine)
        self.open()

    def commit_ids(self, transaction_ids: Mapping[str, int]) -> None:
        """Commit only transaction identifiers, neither rows nor offsets.

        The commit doesn't conflict with a transaction that `begin` started earlier.

        Raises:
            CommitConflictError: another writer committed one of these identifiers.
        """
        assert self._snapshot is not None
        builder = self._snapshot.build_update_table_transaction(
            INGEST_ENGINE_INFO, Operation.STREAMING_UPDATE
        )
        restore_ids = self._restore_ids()
        for application, version in {**transaction_ids, **restore_ids}.items():
            builder = builder.with_transaction_id(application, version)
        try:
            result = builder.build(self._engine).commit(self._engine, ())
        except ConcurrentTransactionError as error:
            raise CommitConflictError(
                error.message, table=self.path, winning_version=error.winning_version
            ) from error
        result.run_post_commit_hooks(self._engine)
        self._version = result.version
        self._recorded_restore = max([self._recorded_restore, *restore_ids.values()])

    def record_check(self) -> None:
        """Commit before log cleanup deletes a commit that the check for a RESTORE needs.

        `open` checks the commits since the last commit of a pipeline. If the oldest of these
        commits is older than half of the log retention, this method makes a new commit. The next
        check then starts at the new commit. A conflict is ignored, because the next start of the
        topic calls this method again.
        """
        if self._snapshot is None or self._needed_since is None:
            return
        age = time.time_ns() // 1_000_000 - self._needed_since
        if 2 * age >= (LOG_RETENTION.read(self._snapshot.properties) or 0):
            identifier = f"restore-check/{self._topic.config.kafka_topic}"
            with contextlib.suppress(CommitConflictError):
                self.commit_ids({identifier: self._snapshot.version})
                self._needed_since = None

    def create(self, transaction: Transaction) -> None:
        """Commit a transaction that creates the table without rows, and read the new version.

        The new version is read even if other processes have committed later versions.
        """
        version = self.commit(transaction, (), {})
        assert version is not None  # not skipped, because no transaction identifiers are committed
        self._set_snapshot(self._table.snapshot_as_of_version(self._engine, version))

    def commit(
        self,
        transaction: Transaction,
        adds: Sequence[AddFile],
        spans: Mapping[int, OffsetSpan],
        *,
        tags: Mapping[str, str] | None = None,
    ) -> int | None:
        """Commit data files and the Kafka offsets of the records in these files.

        Returns:
            The committed version; None if the table already had the offsets of `spans`.
        """
        if not spans and self._snapshot is not None:
            tags = {**(tags or {}), CHECKED_VERSION: str(self._snapshot.version)}
            if self._newest_restore >= 0:
                tags[NEWEST_RESTORE] = str(self._newest_restore)
        result = transaction.commit(self._engine, adds, tags=tags)
        result.run_post_commit_hooks(self._engine)
        compact_after(self._engine, transaction, result)
        if transaction.metadata is not None:
            self._table_id = transaction.metadata.id
        self.set_committed(result.version, spans)
        return None if result.already_committed else result.version

    def discard(self, adds: Sequence[AddFile]) -> None:
        """Delete data files that aren't committed."""
        if adds:
            delete_data_files(self._engine, self.path, adds)

    def transaction_ids(self, spans: Mapping[int, OffsetSpan]) -> dict[str, int]:
        """Return the transaction identifiers for a commit that records the offsets of `spans`.

        The identifiers of the topic's first commit also record the start offsets. If the topic has
        accepted a RESTORE and hasn't recorded it yet, the result also has the identifier of this
        RESTORE; see `restore_app_id`. If `spans` is empty and the topic has no upserts, the result
        is empty.
        """
        ids: dict[str, int] = {}
        if self._kafka is not None:
            ids = {app_id(self._kafka, p): span.end - 1 for p, span in spans.items()}
            if spans and not self._covered:
                ids |= {start_app_id(self._kafka, p): start for p, start in self._starts.items()}
        if spans or self._topic.upsert_keys is not None:
            ids |= self._restore_ids()
        return ids

    def _restore_ids(self) -> dict[str, int]:
        """Return the transaction identifier of an accepted RESTORE that isn't recorded yet."""
        if self._snapshot is None:
            return {}
        application = restore_app_id(self._snapshot.table_id, self._topic.config.kafka_topic)
        recorded = self._snapshot.transactions.get(application, -1)
        is_recorded = self._newest_restore <= max(recorded, self._recorded_restore)
        return {} if is_recorded else {application: self._newest_restore}

    def _set_snapshot(self, snapshot: Snapshot | None) -> None:
        super()._set_snapshot(snapshot)
        self._recorded_restore = -1

    def set_committed(self, version: int, spans: Mapping[int, OffsetSpan]) -> None:
        """Set the version and the covered offsets after a commit, without reading the table."""
        self._version = version
        self._covered |= {partition: span.end for partition, span in spans.items()}

    def table_properties(self, layout: RowLayout) -> dict[str, str]:
        """Return the table properties that each commit of rows sets."""
        known = {} if self._snapshot is None else self._snapshot.properties
        filters: dict[str, str] = {}
        if self._kafka is not None:
            filters = filter_properties(self._topic, known, self._covered)
        return {
            **self._checkpoint_properties,
            **key_properties(self._topic),
            **input_properties(layout, known),
            **filters,
        }

    def start_at(self, starts: Mapping[int, int]) -> None:
        """Set the start offset of each Kafka partition; the topic's first commit records it."""
        self._starts = dict(starts)

    def apply_definition(self) -> None:
        """Change the table to the configured definition, unless it has this definition already.

        A conflict is retried `max-retries` times: topics that share the table may start at the same
        time, and other topics may write to it.

        Raises:
            PipelineError: the table can't have the definition.
            CommitConflictError: another writer changed the table at the same time.
        """
        self._retry_conflicts(self._apply_definition)

    def _apply_definition(self) -> None:
        if self._snapshot is None:
            return
        try:
            apply_definition(self._engine, self._topic, self._snapshot, engine_info=ENGINE_INFO)
        except (
            IcebergCompatError,
            SchemaError,
            TablePropertyError,
            UnsupportedFeatureError,
        ) as error:
            raise PipelineError(
                f"topic {self._topic.key!r}: apply-table-changes: {error.message}",
                topic=self._topic.key,
            ) from error
        self.open()

    def comment_columns(self) -> None:
        """Set the configured comments of columns that the last commit added.

        Errors are ignored: the next start reports the missing comments as differences.
        """
        latest = self.latest_snapshot() if self._topic.config.destination.column_comments else None
        if latest is None:
            return
        with contextlib.suppress(BayouError):
            comment_columns(self._engine, self._topic, latest, engine_info=ENGINE_INFO)

    def _retry_conflicts(self, change: Callable[[], None]) -> None:
        """Call `change`; after a conflict, read the latest version and call it again.

        `ConcurrentTransactionError` isn't retried, because another pipeline wrote offsets of the
        topic.
        """
        for attempt in itertools.count(1):
            try:
                change()
                return
            except ConcurrentTransactionError:
                raise
            except CommitConflictError:
                if attempt > self._topic.config.processing.max_retries:
                    raise
            time.sleep(retry_delay(attempt))
            self.open()


@contextlib.contextmanager
def schema_errors(topic: Topic) -> Iterator[None]:
    """Context manager that converts a `SchemaError` to a `PipelineError` that names the topic."""
    try:
        yield
    except SchemaError as error:
        raise PipelineError(f"topic {topic.key!r}: {error.message}", topic=topic.key) from error
