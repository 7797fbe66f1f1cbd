"""The target table of a topic: its state, its checks, and commits to it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from bayou.api import SnapshotHandle
from bayou.errors import (
    ConcurrentTransactionError,
    PipelineError,
    SchemaError,
)
from bayou.ingest.batch.rows import RowLayout, record_part
from bayou.ingest.batch.target_checks import INGEST, KEY_COLUMNS, check_not_restored, check_target
from bayou.ingest.config import Topic
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    app_id,
    next_offsets,
)
from bayou.ingest.upsert import DELETED, UpsertResult, UpsertTable
from bayou.kernel import Operation, Snapshot, Table, Transaction, delete_data_files, write_data
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.data_writer.data_writer import uses_partition_folders
from bayou.kernel.engine import Engine
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.kernel.transaction.schema_evolution import merge_schemas
from bayou.protocol.actions import AddFile
from bayou.protocol.properties import CHECKPOINT_INTERVAL, TYPE_WIDENING
from bayou.protocol.schema import StructField, StructType
from bayou.version import ENGINE_INFO as BAYOU

__all__ = ["ENGINE_INFO", "TargetTable"]

ENGINE_INFO = f"{BAYOU}{INGEST}"
"""The `engineInfo` of the pipeline's commits."""


class TargetTable:
    """The target table of one topic.

    `open` reads the table's state, `refresh` reads it again before a batch. The other methods use
    this state. Without a Kafka topic no offsets are tracked.
    """

    def __init__(self, engine: Engine, topic: Topic, kafka: KafkaTopic | None) -> None:
        self._engine = engine
        self._topic = topic
        self._kafka = kafka
        self._table = Table.for_path(engine, topic.table_path)
        self._snapshot: Snapshot | None = None
        self._version: int | None = None
        self._covered: dict[int, int] = {}

    @property
    def path(self) -> str:
        """The table's resolved path."""
        return self._table.path

    @property
    def version(self) -> int | None:
        """The latest known version, None if there is no table."""
        return self._version

    @property
    def snapshot(self) -> SnapshotHandle | None:
        """The latest known snapshot, None if there is no table."""
        return None if self._snapshot is None else SnapshotHandle(self._engine, self._snapshot)

    @property
    def covered(self) -> dict[int, int]:
        """The next offset to read of each covered Kafka partition."""
        return dict(self._covered)

    @property
    def columns(self) -> StructType:
        """The table's columns of record fields; empty if there is no table."""
        if self._snapshot is None:
            return StructType()
        return record_part(
            self._snapshot.schema, self._snapshot.partition_columns, self._topic.more_columns
        )

    @property
    def widens(self) -> bool:
        """Whether the table allows type widening."""
        return self._snapshot is not None and TYPE_WIDENING.read(self._snapshot.properties)

    @property
    def folders_show_values(self) -> bool:
        """Whether partition values are in folder names."""
        if self._snapshot is None:
            return True
        return uses_partition_folders(self._snapshot.properties, self._snapshot.partition_columns)

    def open(self) -> None:
        """Read the latest version, without comparing it with the known one.

        Raises:
            PipelineError: the table can't be the target of this topic, or was restored after the
                pipeline's last commit.
        """
        self._set_snapshot(self._latest())
        if self._snapshot is not None:
            check_target(self._topic, self._kafka, self._snapshot)
            self._check_not_restored(None, self._snapshot)

    def refresh(self) -> None:
        """Read the latest version, which must be a successor of the known one.

        Raises:
            PipelineError: the table was deleted, replaced or rolled back.
            ConcurrentTransactionError: another writer has changed the covered offsets.
        """
        known, covered = self._version, self._covered
        table_id = None if self._snapshot is None else self._snapshot.table_id
        latest = self._latest()
        if known is not None:
            change = None
            if latest is None:
                change = "was deleted"
            elif table_id is not None and latest.table_id != table_id:
                change = "was replaced by another table"
            elif latest.version < known:
                change = f"was rolled back from version {known} to {latest.version}"
            if change is not None:
                raise PipelineError(
                    f"topic {self._topic.key!r}: {self.path} {change} while this pipeline wrote to "
                    "it. Start the pipeline again to read the missing records from Kafka again, or "
                    "restore the table first.",
                    topic=self._topic.key,
                )
        self._set_snapshot(latest)
        if latest is None:
            return
        check_target(self._topic, self._kafka, latest)
        if latest.version != known:
            self._check_not_restored(known, latest)
        if self._covered != covered:
            raise ConcurrentTransactionError(
                f"{self.path}: another writer has changed the covered offsets.",
                table=self.path,
                winning_version=latest.version,
            )

    @property
    def checkpoint_interval(self) -> int:
        """Number of commits between checkpoints, from the configuration or else the table."""
        known = {} if self._snapshot is None else self._snapshot.properties
        return CHECKPOINT_INTERVAL.read({**known, **self._properties})

    def merged(self, columns: StructType, others: StructType) -> StructType:
        """Return columns merged with the new columns of `others`.

        Raises:
            PipelineError: a column has a different type.
        """
        try:
            return merge_schemas(self.path, columns, others, widens=self.widens)
        except SchemaError as error:
            raise PipelineError(
                f"topic {self._topic.key!r}: schema-file doesn't fit the table: {error.message}",
                topic=self._topic.key,
            ) from error

    def with_column(self, columns: StructType, field: StructField) -> StructType | None:
        """Return columns with a (partial) column added; None if the table can't have it."""
        try:
            merged = merge_schemas(self.path, columns, StructType((field,)))
        except SchemaError:
            return None
        return merged if merged != columns else None

    def transactions(self) -> Mapping[str, int]:
        """Return the latest version's transaction identifiers; empty if there is no table."""
        snapshot = self._latest()
        return {} if snapshot is None else snapshot.transactions

    def no_rows(self, layout: RowLayout) -> pa.Table:
        """Return an empty batch for `last_of_each_key`."""
        fields = [*to_arrow_schema(layout.schema), pa.field(DELETED, pa.bool_())]
        return pa.schema(fields).empty_table()

    def begin(
        self,
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        transaction_ids: Mapping[str, int] | None = None,
    ) -> tuple[Transaction, tuple[str, ...]]:
        """Start a transaction that adds rows of a layout and covers offsets.

        Args:
            layout: the columns of the rows.
            spans: the offsets to cover.
            transaction_ids: additional transaction identifiers.

        Returns:
            The transaction, and the names of the columns that it adds to the table.

        Raises:
            PipelineError: the layout doesn't fit the table.
        """
        destination = self._topic.config.destination
        if self._snapshot is None:
            builder = (
                self._table.create_transaction_builder(
                    self._engine, engine_info=ENGINE_INFO, operation=Operation.STREAMING_UPDATE
                )
                .with_table_created()
                .with_partition_columns(destination.partition_columns)
            )
        else:
            builder = self._snapshot.build_update_table_transaction(
                ENGINE_INFO, Operation.STREAMING_UPDATE
            ).with_schema_evolution(True)
        builder = builder.with_schema(layout.schema).with_operation_parameters(
            {"outputMode": "Append", "topic": self._topic.config.kafka_topic}
        )
        builder = builder.with_table_properties(self._properties)
        ids = {**self._transaction_ids(spans), **(transaction_ids or {})}
        for application, version in ids.items():
            builder = builder.with_transaction_id(application, version)
        with self._schema_errors():
            transaction = builder.build(self._engine)
        return transaction, self.new_columns(layout)

    def cover(self, offsets: Mapping[int, int], tags: Mapping[str, str] | None = None) -> None:
        """Commit offsets as covered, without adding rows.

        Args:
            offsets: the last covered offset of each partition.
            tags: tags of the commit, shown in the history.
        """
        assert self._snapshot is not None
        builder = self._snapshot.build_update_table_transaction(
            ENGINE_INFO, Operation.STREAMING_UPDATE
        )
        spans = {p: OffsetSpan(start=0, end=last + 1) for p, last in offsets.items()}
        for application, version in self._transaction_ids(spans).items():
            builder = builder.with_transaction_id(application, version)
        result = builder.build(self._engine).commit(self._engine, (), tags=tags)
        result.run_post_commit_hooks(self._engine)
        self.open()

    def commit(
        self,
        transaction: Transaction,
        adds: Sequence[AddFile],
        spans: Mapping[int, OffsetSpan],
        *,
        tags: Mapping[str, str] | None = None,
    ) -> int | None:
        """Commit rows and the offsets that they cover.

        Args:
            transaction: the transaction of `begin`.
            adds: the data files.
            spans: the offsets that the rows cover.
            tags: tags of the commit, shown in the history.

        Returns:
            The version, None if the table already covers the offsets.
        """
        result = transaction.commit(self._engine, adds, tags=tags)
        result.run_post_commit_hooks(self._engine)
        self._committed(result.version, spans)
        return None if result.already_committed else result.version

    def last_of_each_key(self, rows: pa.Table) -> pa.Table:
        """Return the rows of a batch to upsert, at most one for each key."""
        self.clear_deleted_keys()
        return self._upserts().last_of_each_key(self._snapshot, rows)

    def clear_deleted_keys(self) -> None:
        """Remove the deleted keys of an earlier table at this path, before creating the table.

        Deleted keys of a table that another process has created in the meantime stay; the commit
        that creates the table fails then.
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
        """Upsert the rows of `last_of_each_key` and cover the offsets, in one commit.

        Args:
            winners: the rows of `last_of_each_key`.
            layout: the columns of the rows.
            spans: the offsets to cover.
            transaction_ids: additional transaction identifiers.
            tags: tags of the commit, as JSON in `userMetadata`.

        Raises:
            PipelineError: the layout doesn't fit the table.
            CommitConflictError: another writer's commit conflicts.
            CommitFailedError: the commit failed.
            StorageError: the store failed.
        """
        upserts = self._upserts(tags)
        upserts.deleted_keys.remember(winners)
        if self._snapshot is None:
            return self._create(winners, layout, spans, transaction_ids)
        with self._schema_errors():
            result = upserts.merge(
                self._snapshot,
                winners,
                transaction_ids={**self._transaction_ids(spans), **(transaction_ids or {})},
                table_properties=self._properties,
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
        """Upsert rows that are on executors, by a merge function.

        A missing table is created by a separate commit, which covers no offset.

        Args:
            merge: merges the rows; called with the table, the snapshot, and the transaction
                identifiers and properties that its commit sets.
            layout: the columns of the rows.
            spans: the offsets to cover.
            tags: tags of the commit, as JSON in `userMetadata`.
        """
        if self._snapshot is None:
            self.clear_deleted_keys()
            transaction, _ = self.begin(layout, {})
            self.commit(transaction, (), {})
            self._set_snapshot(self._latest())
        assert self._snapshot is not None
        with self._schema_errors():
            ids = self._transaction_ids(spans)
            result = merge(self._upserts(tags), self._snapshot, ids, self._properties)
        self._committed(result.version, spans)
        return result

    def new_columns(self, layout: RowLayout) -> tuple[str, ...]:
        """Return the names of the columns that rows of a layout add to the table."""
        return tuple(n for n in layout.schema.names if n not in self._column_names)

    def discard(self, adds: Sequence[AddFile]) -> None:
        """Delete files that won't be committed."""
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

    @property
    def _column_names(self) -> tuple[str, ...]:
        return () if self._snapshot is None else self._snapshot.schema.names

    @property
    def _properties(self) -> dict[str, str]:
        interval = self._topic.config.destination.delta_config.checkpoint_interval
        properties = {} if interval is None else {CHECKPOINT_INTERVAL.key: str(interval)}
        if self._topic.upsert_keys is not None:
            properties[KEY_COLUMNS] = json.dumps(self._topic.upsert_keys.columns)
        return properties

    def _upserts(self, tags: Mapping[str, str] | None = None) -> UpsertTable:
        keys = self._topic.upsert_keys
        assert keys is not None
        path, metadata = self._table.path, json.dumps(tags) if tags else None
        return UpsertTable(
            self._engine, path, keys, engine_info=ENGINE_INFO, user_metadata=metadata
        )

    def _transaction_ids(self, spans: Mapping[int, OffsetSpan]) -> dict[str, int]:
        if self._kafka is None:
            return {}
        return {app_id(self._kafka, p): span.end - 1 for p, span in spans.items()}

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

    def _latest(self) -> Snapshot | None:
        exists = self._table.exists(self._engine)
        return self._table.latest_snapshot(self._engine) if exists else None

    def _set_snapshot(self, snapshot: Snapshot | None) -> None:
        self._snapshot = snapshot
        self._version = None if snapshot is None else snapshot.version
        known = {} if snapshot is None else snapshot.transactions
        self._covered = {} if self._kafka is None else next_offsets(self._kafka, known)

    def _check_not_restored(self, known: int | None, latest: Snapshot) -> None:
        check_not_restored(self._engine, self._table, self._topic, latest.version, known)
