"""The target of a topic: where it stands, whether it is still what it was, what is added."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

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
from bayou.ingest.upsert import DELETED, UpsertOutcome, UpsertTable
from bayou.kernel import Operation, Snapshot, Table, Transaction, delete_data_files, write_data
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.data_writer.data_writer import folders_show_values
from bayou.kernel.engine import Engine
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.kernel.transaction.schema_evolution import merge_schemas
from bayou.protocol.actions import AddFile
from bayou.protocol.properties import CHECKPOINT_INTERVAL, TYPE_WIDENING
from bayou.protocol.schema import StructField, StructType
from bayou.version import ENGINE_INFO as BAYOU

__all__ = ["ENGINE_INFO", "TargetTable"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array

ENGINE_INFO = f"{BAYOU}{INGEST}"
"""How commits of the pipeline name it."""


class TargetTable:
    """The target of one topic.

    Without a Kafka topic nothing is said of offsets.

    `open` reads where it stands, `follow` reads it again before a batch; the rest builds on that.
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
        """The latest version that is known, None where there is no table."""
        return self._version

    @property
    def snapshot(self) -> SnapshotHandle | None:
        """The version that is known, None where there is no table."""
        return None if self._snapshot is None else SnapshotHandle(self._engine, self._snapshot)

    @property
    def covered(self) -> dict[int, int]:
        """For each Kafka partition that is covered the next offset to read."""
        return dict(self._covered)

    @property
    def columns(self) -> StructType:
        """The record's fields that the table has; none where there is no table."""
        if self._snapshot is None:
            return StructType()
        return record_part(
            self._snapshot.schema, self._snapshot.partition_columns, self._topic.more_columns
        )

    @property
    def widens(self) -> bool:
        """Whether its columns may become wider."""
        return self._snapshot is not None and TYPE_WIDENING.read(self._snapshot.properties)

    @property
    def folders_show_values(self) -> bool:
        """Whether partition values are in the names of folders."""
        if self._snapshot is None:
            return True
        return folders_show_values(self._snapshot.properties, self._snapshot.partition_columns)

    def open(self) -> None:
        """Read the latest version, whatever was known before.

        Raises:
            PipelineError: the table can't be the target of this topic, or a RESTORE came after the
                last commit to it.
        """
        self._take(self._latest())
        if self._snapshot is not None:
            check_target(self._topic, self._kafka, self._snapshot)
            self._check_not_restored(None, self._snapshot)

    def follow(self) -> None:
        """Read the latest version, which must go on from the one that is known.

        Raises:
            PipelineError: the table isn't there any more, or not what it was.
            ConcurrentTransactionError: it covers other offsets than are known.
        """
        known, covered = self._version, self._covered
        table_id = None if self._snapshot is None else self._snapshot.table_id
        latest = self._latest()
        if known is not None:
            what = None
            if latest is None:
                what = "was deleted"
            elif table_id is not None and latest.table_id != table_id:
                what = "was replaced by another table"
            elif latest.version < known:
                what = f"was rolled back from version {known} to {latest.version}"
            if what is not None:
                raise PipelineError(
                    f"topic {self._topic.key!r}: {self.path} {what} while this pipeline wrote to "
                    "it. Start the pipeline again to take the records that are missing there from "
                    "Kafka once more, or bring the table back first.",
                    topic=self._topic.key,
                )
        self._take(latest)
        if latest is None:
            return
        check_target(self._topic, self._kafka, latest)
        if latest.version != known:
            self._check_not_restored(known, latest)
        if self._covered != covered:
            raise ConcurrentTransactionError(
                f"{self.path} covers other offsets than this pipeline has written.",
                table=self.path,
                winning_version=latest.version,
            )

    @property
    def checkpoint_interval(self) -> int:
        """Commits between two checkpoints, as the configuration or else the table has it."""
        known = {} if self._snapshot is None else self._snapshot.properties
        return CHECKPOINT_INTERVAL.read({**known, **self._properties})

    def merged(self, columns: StructType, others: StructType) -> StructType:
        """Columns with those of `others` that are new.

        Raises:
            PipelineError: a column has another type there.
        """
        try:
            return merge_schemas(self.path, columns, others, widens=self.widens)
        except SchemaError as error:
            raise PipelineError(
                f"topic {self._topic.key!r}: schema-file doesn't fit the table: {error.message}",
                topic=self._topic.key,
            ) from error

    def with_column(self, columns: StructType, field: StructField) -> StructType | None:
        """Columns with one more, or with a partial one; None where a table can't have it."""
        try:
            merged = merge_schemas(self.path, columns, StructType((field,)))
        except SchemaError:
            return None
        return merged if merged != columns else None

    def transactions(self) -> Mapping[str, int]:
        """The latest version's transaction identifiers; none where there is no table."""
        snapshot = self._latest()
        return {} if snapshot is None else snapshot.transactions

    def no_rows(self, layout: RowLayout) -> pa.Table:
        """A batch for `decide` that has no rows."""
        fields = [*to_arrow_schema(layout.schema), pa.field(DELETED, pa.bool_())]
        return pa.schema(fields).empty_table()

    def begin(
        self,
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        transaction_ids: Mapping[str, int] | None = None,
    ) -> tuple[Transaction, tuple[str, ...]]:
        """A transaction that adds rows of a layout and covers these offsets.

        Args:
            transaction_ids: that it carries besides.

        Returns:
            The transaction, and the names of the columns that it adds to the table.

        Raises:
            PipelineError: rows of this layout can't be put into the table.
        """
        destination = self._topic.config.destination
        if self._snapshot is None:
            builder = (
                self._table.create_transaction_builder(
                    self._engine, engine_info=ENGINE_INFO, operation=Operation.STREAMING_UPDATE
                )
                .with_table_made()
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
        with self._fitting():
            transaction = builder.build(self._engine)
        return transaction, self.new_columns(layout)

    def cover(self, offsets: Mapping[int, int], tags: Mapping[str, str] | None = None) -> None:
        """Say that the table has a topic's records up to these offsets, without a row.

        Args:
            offsets: the last of each partition.
            tags: of the commit; the history shows them.
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
            tags: what the history says besides.

        Returns:
            The version, None where the table covers the offsets already.
        """
        result = transaction.commit(self._engine, adds, tags=tags)
        result.run_post_commit_hooks(self._engine)
        self._moved(result.version, spans)
        return None if result.already_committed else result.version

    def decide(self, rows: pa.Table) -> pa.Table:
        """The rows of a batch that count, one for each key at most."""
        self.forget_earlier()
        return self._upserts().decide(self._snapshot, rows)

    def forget_earlier(self) -> None:
        """Forget the keys that an earlier table here has deleted, before the table is made anew.

        Those of a table that another process has made since the last look are its own; the commit
        that is to make it will fail.
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
    ) -> UpsertOutcome:
        """Put what `decide` gave into the table, and the offsets that it covers; one commit.

        Args:
            transaction_ids: that it carries besides.
            tags: what the history says besides, as JSON in `userMetadata`.

        Raises:
            PipelineError: rows of this layout can't be put into the table.
            CommitConflictError, CommitFailedError, StorageError: as the names say.
        """
        upserts = self._upserts(tags)
        upserts.deleted_keys.remember(winners)
        if self._snapshot is None:
            return self._created(winners, layout, spans, transaction_ids)
        with self._fitting():
            outcome = upserts.merge(
                self._snapshot,
                winners,
                transaction_ids={**self._transaction_ids(spans), **(transaction_ids or {})},
                table_properties=self._properties,
            )
        self._moved(outcome.version, spans)
        return outcome

    def upsert_by(
        self,
        merge: Callable[
            [UpsertTable, Snapshot, Mapping[str, int], Mapping[str, str]], UpsertOutcome
        ],
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        *,
        tags: Mapping[str, str],
    ) -> UpsertOutcome:
        """As `decide` and `upsert`, where others do both to rows that this process hasn't.

        A table that isn't there is made by a commit of its own, which covers no offset.

        Args:
            merge: given the table, the snapshot, and the transaction identifiers and properties
                that its commit sets.
        """
        if self._snapshot is None:
            self.forget_earlier()
            transaction, _ = self.begin(layout, {})
            self.commit(transaction, (), {})
            self._take(self._latest())
        assert self._snapshot is not None
        with self._fitting():
            ids = self._transaction_ids(spans)
            outcome = merge(self._upserts(tags), self._snapshot, ids, self._properties)
        self._moved(outcome.version, spans)
        return outcome

    def new_columns(self, layout: RowLayout) -> tuple[str, ...]:
        """The names of the columns that rows of a layout add to the table."""
        return tuple(n for n in layout.schema.names if n not in self._known)

    def discard(self, adds: Sequence[AddFile]) -> None:
        """Delete files that won't be committed."""
        if adds:
            delete_data_files(self._engine, self.path, adds)

    @contextlib.contextmanager
    def _fitting(self) -> Iterator[None]:
        try:
            yield
        except SchemaError as error:
            raise PipelineError(
                f"topic {self._topic.key!r}: {error.message}", topic=self._topic.key
            ) from error

    @property
    def _known(self) -> tuple[str, ...]:
        return () if self._snapshot is None else self._snapshot.schema.names

    @property
    def _properties(self) -> dict[str, str]:
        interval = self._topic.config.destination.delta_config.checkpoint_interval
        found = {} if interval is None else {CHECKPOINT_INTERVAL.key: str(interval)}
        if self._topic.upsert_keys is not None:
            found[KEY_COLUMNS] = json.dumps(self._topic.upsert_keys.columns)
        return found

    def _upserts(self, tags: Mapping[str, str] | None = None) -> UpsertTable:
        keys = self._topic.upsert_keys
        assert keys is not None
        path, note = self._table.path, json.dumps(tags) if tags else None
        return UpsertTable(self._engine, path, keys, engine_info=ENGINE_INFO, user_metadata=note)

    def _transaction_ids(self, spans: Mapping[int, OffsetSpan]) -> dict[str, int]:
        if self._kafka is None:
            return {}
        return {app_id(self._kafka, p): span.end - 1 for p, span in spans.items()}

    def _moved(self, version: int, spans: Mapping[int, OffsetSpan]) -> None:
        self._version = version
        self._covered |= {partition: span.end for partition, span in spans.items()}

    def _created(
        self,
        winners: pa.Table,
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        transaction_ids: Mapping[str, int] | None,
    ) -> UpsertOutcome:
        transaction, _ = self.begin(layout, spans, transaction_ids)
        rows = winners.filter(pc.invert(winners.column(DELETED))).select(layout.schema.names)
        state = transaction.transaction_state(self._engine)
        adds = write_data(self._engine, state, rows.combine_chunks().to_batches())
        with discard_unless_committed(lambda: self.discard(adds)):
            version = self.commit(transaction, adds, spans)
        assert version is not None  # a table that isn't there covers nothing
        return UpsertOutcome(version=version, inserted=rows.num_rows, updated=0, deleted=0)

    def _latest(self) -> Snapshot | None:
        exists = self._table.exists(self._engine)
        return self._table.latest_snapshot(self._engine) if exists else None

    def _take(self, snapshot: Snapshot | None) -> None:
        self._snapshot = snapshot
        self._version = None if snapshot is None else snapshot.version
        known = {} if snapshot is None else snapshot.transactions
        self._covered = {} if self._kafka is None else next_offsets(self._kafka, known)

    def _check_not_restored(self, known: int | None, latest: Snapshot) -> None:
        check_not_restored(self._engine, self._table, self._topic, latest.version, known)
