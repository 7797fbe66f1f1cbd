"""The target table of a topic: its state, its checks, and commits to it."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from bayou.api import SnapshotHandle
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
from bayou.ingest.batch.rows import RowLayout
from bayou.ingest.batch.target.stored_columns import input_properties, record_columns_of
from bayou.ingest.batch.target.table_definition import (
    TableDifference,
    apply_definition,
    comment_columns,
    table_differences,
    with_column_comments,
    with_definition,
)
from bayou.ingest.batch.target.target_checks import (
    CHECKED_VERSION,
    INGEST,
    NEWEST_RESTORE,
    check_not_restored,
    check_target,
    is_restore_app_id,
    key_properties,
    restore_app_id,
)
from bayou.ingest.config import Topic
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    app_id,
    next_offsets,
    start_app_id,
)
from bayou.ingest.retries import retry_delay
from bayou.ingest.upsert import DELETED, UPSERTS, UpsertResult, UpsertTable
from bayou.kernel import Operation, Snapshot, Table, Transaction, delete_data_files, write_data
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.commands.optimize.auto_compaction import compact_after
from bayou.kernel.data_writer.data_writer import uses_partition_folders
from bayou.kernel.engine import Engine
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.kernel.transaction.schema_evolution import merge_schemas
from bayou.protocol.actions import AddFile
from bayou.protocol.properties import CHECKPOINT_INTERVAL, TYPE_WIDENING
from bayou.protocol.schema import StructField, StructType
from bayou.version import ENGINE_INFO as BAYOU

ENGINE_INFO = f"{BAYOU}{INGEST}"
"""The `engineInfo` of commits that record offsets.

`check_not_restored` looks for a RESTORE after the last commit with this `engineInfo`. Commits that
don't check for a RESTORE, such as changes of comments, therefore have the `engineInfo` `BAYOU`.
"""


class TargetTable:
    """The target table of one topic.

    `open` reads the latest snapshot, and `refresh` reads the latest snapshot again before a batch.
    All other methods use the last snapshot read. If `kafka` is None, no offsets are committed.
    """

    def __init__(self, engine: Engine, topic: Topic, kafka: KafkaTopic | None) -> None:
        self._engine = engine
        self._topic = topic
        self._kafka = kafka
        self._table = Table.for_path(engine, topic.table_path)
        self._snapshot: Snapshot | None = None
        self._version: int | None = None
        self._table_id: str | None = None
        self._covered: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self._newest_restore = -1

    @property
    def path(self) -> str:
        return self._table.path

    @property
    def version(self) -> int | None:
        """The last version that was read or committed; None if there is no table."""
        return self._version

    @property
    def table_id(self) -> str | None:
        """The table's id; None if there is no table."""
        return self._table_id

    @property
    def snapshot(self) -> SnapshotHandle | None:
        """The last snapshot that was read; None if there is no table."""
        return None if self._snapshot is None else SnapshotHandle(self._engine, self._snapshot)

    @property
    def covered(self) -> dict[int, int]:
        """The next offset to read of each Kafka partition that has committed offsets."""
        return dict(self._covered)

    @property
    def columns(self) -> StructType:
        """The columns of record fields, without columns such as `_kafka_offset`.

        Fields that only expressions read are included. Empty if there is no table.
        """
        if self._snapshot is None:
            return StructType()
        return record_columns_of(self._topic, self._snapshot)

    @property
    def schema(self) -> StructType:
        """The table's schema; empty if there is no table."""
        return StructType() if self._snapshot is None else self._snapshot.schema

    @property
    def widens(self) -> bool:
        return self._snapshot is not None and TYPE_WIDENING.read(self._snapshot.properties)

    @property
    def folders_show_values(self) -> bool:
        if self._snapshot is None:
            return True
        return uses_partition_folders(self._snapshot.properties, self._snapshot.partition_columns)

    def open(self) -> None:
        """Read the latest version and check that it can be the topic's target.

        Unlike in `refresh`, the latest version may be older than the version read before.
        """
        self._set_snapshot(self._latest())
        if self._snapshot is not None:
            check_target(self._topic, self._kafka, self._snapshot)
            self._check_not_restored(None, self._snapshot)

    def differences(self) -> tuple[TableDifference, ...]:
        """Return the settings that differ from the table's; empty if there is no table."""
        return () if self._snapshot is None else table_differences(self._topic, self._snapshot)

    def apply_definition(self) -> None:
        """Change the table to the configured definition, unless it has this definition already.

        A conflict is retried `max-retries` times: topics that share the table may start at the same
        time, and other topics may write to it.

        Raises:
            PipelineError: the table can't have the definition.
            CommitConflictError: another writer changed the table at the same time.
        """
        self._without_conflict(self._apply_definition)

    def _apply_definition(self) -> None:
        if self._snapshot is None:
            return
        try:
            apply_definition(self._engine, self._topic, self._snapshot, engine_info=BAYOU)
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
        latest = self._latest() if self._topic.config.destination.column_comments else None
        if latest is None:
            return
        with contextlib.suppress(BayouError):
            comment_columns(self._engine, self._topic, latest, engine_info=BAYOU)

    def refresh(self) -> None:
        """Read the latest version.

        Raises:
            PipelineError: the table was deleted, replaced, restored or rolled back.
            ConcurrentTransactionError: another pipeline committed offsets of this topic.
        """
        covered = self._covered
        latest = self._set_successor()
        if latest is not None and self._covered != covered:
            raise ConcurrentTransactionError(
                f"{self.path}: another pipeline committed offsets of this topic. Nothing was "
                "written. Run only one pipeline for this topic and table.",
                table=self.path,
                winning_version=latest.version,
            )

    def reopen(self) -> None:
        """Read the latest version after a failed commit.

        `covered` may have changed, because the commit may have succeeded despite the error.

        Raises:
            PipelineError: the table was deleted, replaced, restored or rolled back.
        """
        covered = self._covered
        latest = self._set_successor()
        uncovered = [p for p, offset in covered.items() if self._covered.get(p, 0) < offset]
        if latest is not None and uncovered:
            raise self._changed_error("was rolled back and covers fewer offsets")

    @property
    def checkpoint_interval(self) -> int:
        """Number of commits between checkpoints: the configured number, else the table's."""
        known = {} if self._snapshot is None else self._snapshot.properties
        return CHECKPOINT_INTERVAL.read({**known, **self._checkpoint_properties})

    def merged(self, columns: StructType, others: StructType) -> StructType:
        """Return `columns` followed by the columns that only `others` has.

        Raises:
            PipelineError: a column has incompatible types in `columns` and `others`.
        """
        try:
            return merge_schemas(self.path, columns, others, widens=self.widens)
        except SchemaError as error:
            raise PipelineError(
                f"topic {self._topic.key!r}: schema-file doesn't fit the table: {error.message}",
                topic=self._topic.key,
            ) from error

    def with_column(self, columns: StructType, field: StructField) -> StructType | None:
        """Return `columns` with `field` added; None if `field` exists or can't be added."""
        try:
            merged = merge_schemas(self.path, columns, StructType((field,)))
        except SchemaError:
            return None
        return merged if merged != columns else None

    def start_at(self, starts: Mapping[int, int]) -> None:
        """Set the offset at which each partition starts; the topic's first commit records it."""
        self._starts = dict(starts)

    def transactions(self) -> Mapping[str, int]:
        """Return the latest version's transaction identifiers; empty if there is no table."""
        snapshot = self._latest()
        return {} if snapshot is None else snapshot.transactions

    def no_rows(self, layout: RowLayout) -> pa.Table:
        """Return an empty table with the columns that `last_of_each_key` takes."""
        fields = [*to_arrow_schema(layout.schema), pa.field(DELETED, pa.bool_())]
        return pa.schema(fields).empty_table()

    def begin(
        self,
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        transaction_ids: Mapping[str, int] | None = None,
        *,
        properties: Mapping[str, str] | None = None,
    ) -> tuple[Transaction, tuple[str, ...]]:
        """Start a transaction that adds rows of a layout and records the offsets of `spans`.

        Args:
            properties: table properties to set, in addition to those that each commit sets.

        Returns:
            The transaction, and the names of the columns that it adds to the table.
        """
        destination, schema = self._topic.config.destination, layout.schema
        if self._snapshot is None:
            builder = (
                self._table.create_transaction_builder(
                    self._engine, engine_info=ENGINE_INFO, operation=Operation.STREAMING_UPDATE
                )
                .with_table_created()
                .with_partition_columns(destination.partition_columns)
            )
            builder = with_definition(builder, self._topic)
            schema = with_column_comments(self._topic, schema)
        else:
            builder = self._snapshot.build_update_table_transaction(
                ENGINE_INFO, Operation.STREAMING_UPDATE
            ).with_schema_evolution(True)
        builder = builder.with_schema(schema).with_operation_parameters(
            {"outputMode": "Append", "topic": self._topic.config.kafka_topic}
        )
        builder = builder.with_table_properties({**self._properties(layout), **(properties or {})})
        ids = {**self.transaction_ids(spans), **(transaction_ids or {})}
        for application, version in ids.items():
            builder = builder.with_transaction_id(application, version)
        with self._schema_errors():
            transaction = builder.build(self._engine)
        return transaction, self.new_columns(layout)

    def cover(self, offsets: Mapping[int, int], tags: Mapping[str, str] | None = None) -> None:
        """Commit, without rows, that partitions were read up to and including `offsets`.

        A conflict is retried `max-retries` times.
        """
        self._without_conflict(lambda: self._cover(offsets, tags))

    def _cover(self, offsets: Mapping[int, int], tags: Mapping[str, str] | None) -> None:
        assert self._snapshot is not None
        builder = self._snapshot.build_update_table_transaction(
            ENGINE_INFO, Operation.STREAMING_UPDATE
        ).with_table_properties(key_properties(self._topic))
        spans = {p: OffsetSpan(start=0, end=last + 1) for p, last in offsets.items()}
        for application, version in self.transaction_ids(spans).items():
            builder = builder.with_transaction_id(application, version)
        result = builder.build(self._engine).commit(self._engine, (), tags=tags)
        result.run_post_commit_hooks(self._engine)
        self.open()

    def record(self, transaction_ids: Mapping[str, int]) -> None:
        """Commit transaction identifiers without rows.

        A transaction that `begin` has started before can still be committed.

        Raises:
            CommitConflictError: another writer committed one of these identifiers.
        """
        assert self._snapshot is not None
        builder = self._snapshot.build_update_table_transaction(
            ENGINE_INFO, Operation.STREAMING_UPDATE
        )
        for application, version in {**transaction_ids, **self._restore_ids()}.items():
            builder = builder.with_transaction_id(application, version)
        try:
            result = builder.build(self._engine).commit(self._engine, ())
        except ConcurrentTransactionError as error:
            raise CommitConflictError(
                error.message, table=self.path, winning_version=error.winning_version
            ) from error
        result.run_post_commit_hooks(self._engine)
        self._version = result.version

    def create(self, transaction: Transaction) -> None:
        """Create the table without rows and offsets, and read it."""
        self.commit(transaction, (), {})
        self._set_snapshot(self._latest())

    def commit(
        self,
        transaction: Transaction,
        adds: Sequence[AddFile],
        spans: Mapping[int, OffsetSpan],
        *,
        tags: Mapping[str, str] | None = None,
    ) -> int | None:
        """Commit rows and their offsets. `tags` are shown in the table's history.

        Returns:
            The committed version; None if the table already covered the offsets.
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
        self._committed(result.version, spans)
        return None if result.already_committed else result.version

    def last_of_each_key(self, rows: pa.Table) -> pa.Table:
        """Return the last row of each key, and the deletes that must be remembered."""
        self.clear_deleted_keys()
        return self._upserts().last_of_each_key(self._snapshot, rows)

    def clear_deleted_keys(self) -> None:
        """Clear the deleted keys table if the target doesn't exist yet.

        The deleted keys are from an earlier table at the target's path. If another process has
        created the target in the meantime, nothing is cleared, and this process fails to create the
        target.
        """
        if self._topic.upsert_keys is None or self._snapshot is not None:
            return
        if not self._table.exists(self._engine):
            self._upserts().deleted_keys.forget_all()

    def upsert(
        self,
        winners: pa.Table,
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        transaction_ids: Mapping[str, int] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
    ) -> UpsertResult:
        """Upsert the rows of `last_of_each_key`; commit them with the offsets of `spans`."""
        upserts = self._upserts(tags)
        upserts.deleted_keys.remember(winners)
        if self._snapshot is None:
            return self._create(winners, layout, spans, transaction_ids)
        ids = {**self.transaction_ids(spans), **(transaction_ids or {})}
        with self._schema_errors(), self._upsert_conflicts(ids):
            result = upserts.merge(
                self._snapshot,
                winners,
                transaction_ids=ids,
                table_properties=self._properties(layout),
            )
        self._committed(result.version, spans)
        return result

    def upsert_with(
        self,
        merge: Callable[
            [UpsertTable, Snapshot, Mapping[str, int], Mapping[str, str]], UpsertResult
        ],
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        *,
        tags: Mapping[str, str],
    ) -> UpsertResult:
        """Upsert rows that are on executors with the function `merge`.

        If the table doesn't exist, a separate commit without offsets creates it.

        Args:
            merge: function that commits the upsert. Its arguments are the table, the snapshot, and
                the transaction identifiers and table properties to commit.
        """
        if self._snapshot is None:
            self.clear_deleted_keys()
            transaction, _ = self.begin(layout, {})
            self.create(transaction)
        assert self._snapshot is not None
        ids = self.transaction_ids(spans)
        with self._schema_errors(), self._upsert_conflicts(ids):
            properties = self._properties(layout)
            result = merge(self._upserts(tags), self._snapshot, ids, properties)
        self._committed(result.version, spans)
        return result

    def new_columns(self, layout: RowLayout) -> tuple[str, ...]:
        """Return the names of the columns that rows of a layout add to the table."""
        return tuple(n for n in layout.schema.names if n not in self._column_names)

    def discard(self, adds: Sequence[AddFile]) -> None:
        if adds:
            delete_data_files(self._engine, self.path, adds)

    @contextlib.contextmanager
    def _schema_errors(self) -> Iterator[None]:
        try:
            yield
        except SchemaError as error:
            raise PipelineError(
                f"topic {self._topic.key!r}: {error.message}", topic=self._topic.key
            ) from error

    @contextlib.contextmanager
    def _upsert_conflicts(self, transaction_ids: Collection[str]) -> Iterator[None]:
        """Raise `CommitConflictError` instead for a conflict with an upsert of other records.

        For a conflict in one of `transaction_ids`, `ConcurrentTransactionError` is re-raised.
        """
        try:
            yield
        except ConcurrentTransactionError as error:
            latest = self._latest()
            if self._snapshot is None or latest is None:
                raise
            before, after = self._snapshot.transactions, latest.transactions
            records = (i for i in transaction_ids if not is_restore_app_id(i))
            if any(before.get(i) != after.get(i) for i in records):
                raise
            if before.get(UPSERTS) == after.get(UPSERTS):
                raise
            raise CommitConflictError(
                error.message, table=self.path, winning_version=error.winning_version
            ) from error

    @property
    def _column_names(self) -> tuple[str, ...]:
        return () if self._snapshot is None else self._snapshot.schema.names

    @property
    def _checkpoint_properties(self) -> dict[str, str]:
        interval = self._topic.config.destination.delta_config.checkpoint_interval
        return {} if interval is None else {CHECKPOINT_INTERVAL.key: str(interval)}

    def _properties(self, layout: RowLayout) -> dict[str, str]:
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

    def _upserts(self, tags: Mapping[str, str] | None = None) -> UpsertTable:
        keys = self._topic.upsert_keys
        assert keys is not None
        path, metadata = self._table.path, json.dumps(tags) if tags else None
        return UpsertTable(
            self._engine, path, keys, engine_info=ENGINE_INFO, user_metadata=metadata
        )

    def transaction_ids(self, spans: Mapping[int, OffsetSpan]) -> dict[str, int]:
        """Return the transaction identifiers that cover the offsets of `spans`.

        They include the newest RESTORE, unless the commit is an append without offsets.
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
        """Return the transaction identifier of a RESTORE that the topic hasn't recorded yet."""
        if self._snapshot is None:
            return {}
        application = restore_app_id(self._snapshot.table_id, self._topic.config.kafka_topic)
        is_recorded = self._newest_restore <= self._snapshot.transactions.get(application, -1)
        return {} if is_recorded else {application: self._newest_restore}

    def _committed(self, version: int, spans: Mapping[int, OffsetSpan]) -> None:
        self._version = version
        self._covered |= {partition: span.end for partition, span in spans.items()}

    def _create(
        self,
        winners: pa.Table,
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        transaction_ids: Mapping[str, int] | None,
    ) -> UpsertResult:
        transaction, _ = self.begin(layout, spans, transaction_ids)
        rows = winners.filter(pc.invert(winners.column(DELETED))).select(layout.schema.names)
        state = transaction.transaction_state(self._engine)
        adds = write_data(self._engine, state, rows.combine_chunks().to_batches())
        with discard_unless_committed(lambda: self.discard(adds)):
            version = self.commit(transaction, adds, spans)
        assert version is not None  # a new table covers no offsets
        return UpsertResult(version=version, inserted=rows.num_rows, updated=0, deleted=0)

    def _without_conflict(self, change: Callable[[], None]) -> None:
        """Change the table; after a conflict, read the latest version and repeat the change.

        `ConcurrentTransactionError` isn't retried: another pipeline wrote offsets of this topic.
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

    def _set_successor(self) -> Snapshot | None:
        """Load, check and return the latest snapshot; None if there is no table.

        Raises:
            PipelineError: the table was deleted, replaced, restored or rolled back.
        """
        known = self._version
        table_id = None if self._snapshot is None else self._snapshot.table_id
        latest = self._latest()
        if known is not None:
            if latest is None:
                raise self._changed_error("was deleted")
            if table_id is not None and latest.table_id != table_id:
                raise self._changed_error("was replaced by another table")
            if latest.version < known:
                raise self._changed_error(
                    f"was rolled back from version {known} to {latest.version}"
                )
        if latest is not None:
            check_target(self._topic, self._kafka, latest)
            if latest.version != known:
                self._check_not_restored(known, latest)
        self._set_snapshot(latest)
        return latest

    def _changed_error(self, change: str) -> PipelineError:
        return PipelineError(
            f"topic {self._topic.key!r}: {self.path} {change} while this pipeline wrote to it. "
            "Start the pipeline again to read the missing records from Kafka again, or restore the "
            "table first.",
            topic=self._topic.key,
        )

    def _latest(self) -> Snapshot | None:
        exists = self._table.exists(self._engine)
        return self._table.latest_snapshot(self._engine) if exists else None

    def _set_snapshot(self, snapshot: Snapshot | None) -> None:
        self._snapshot = snapshot
        self._version = None if snapshot is None else snapshot.version
        self._table_id = None if snapshot is None else snapshot.table_id
        known = {} if snapshot is None else snapshot.transactions
        self._covered = {} if self._kafka is None else next_offsets(self._kafka, known)

    def _check_not_restored(self, known: int | None, latest: Snapshot) -> None:
        restored = check_not_restored(self._engine, self._table, self._topic, latest, known)
        self._newest_restore = restored if known is None else max(self._newest_restore, restored)
