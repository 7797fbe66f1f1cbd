"""Upserts into the target table of a topic."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from bayou.api import SnapshotHandle
from bayou.api import table as open_table
from bayou.errors import CommitConflictError, ConcurrentTransactionError
from bayou.ingest.batch.record_timestamps import times_of_dead_letters, times_of_rows
from bayou.ingest.batch.row_layout import RowLayout
from bayou.ingest.batch.target.target_checks import is_restore_app_id
from bayou.ingest.batch.target.target_table import TargetTable, schema_errors
from bayou.ingest.config import Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.offsets import OffsetSpan
from bayou.ingest.upsert import DELETED, UPSERTS, UpsertResult, UpsertTable
from bayou.kernel import Snapshot, Transaction, write_data
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.engine import Engine
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.protocol.actions import AddFile
from bayou.version import INGEST_ENGINE_INFO


class TargetUpserts:
    """Upserts of a topic's rows into its target table. The topic must have upsert keys.

    Rows are compared with the version of the target that was read last.
    """

    def __init__(self, engine: Engine, topic: Topic, target: TargetTable) -> None:
        self._engine = engine
        self._topic = topic
        self._target = target

    def last_of_each_key(self, rows: pa.Table) -> pa.Table:
        """Return the last row of each upsert key, which can be a delete of the key.

        A row deletes its key if its column `DELETED` is true. If the target doesn't exist yet, this
        method first calls `clear_deleted_keys`.

        Args:
            rows: rows of the target, with the additional boolean column `DELETED`.
        """
        self.clear_deleted_keys()
        return self._table().last_of_each_key(self._snapshot, rows)

    def clear_deleted_keys(self) -> None:
        """Clear the table of deleted keys if the target doesn't exist yet.

        In this case, the deleted keys belong to an earlier table at the target's path. The latest
        version of the target is read first. If another process has created the target meanwhile,
        nothing is cleared.

        Raises:
            CommitConflictError: another process is creating the target, and has stored deleted
                keys.
        """
        if self._snapshot is not None:
            return
        deleted_keys = self._table().deleted_keys
        # Read before the target: keys that another process stores later belong to its new target.
        earlier = deleted_keys.latest_snapshot()
        if earlier is not None and self._target.latest_snapshot() is None:
            deleted_keys.forget_all(earlier)

    def last_times(self) -> dict[int, int]:
        """For each Kafka partition, return the timestamp of the last record that has a timestamp.

        The record can be a row, a deleted key or a dead letter. Timestamps are in microseconds
        since the epoch. Dead letters count because they can be corrected and become rows later.
        """
        if self._snapshot is None:  # deleted keys are from an earlier table
            return {}
        deleted = self._table().deleted_keys.snapshot
        snapshots = (self._snapshot, *(() if deleted is None else (deleted,)))
        tables = (SnapshotHandle(self._engine, snapshot) for snapshot in snapshots)
        name = self._topic.config.kafka_topic
        last = times_of_rows(tables, name)
        dead_letters = open_table(dead_letters_path(self._topic.table_path), engine=self._engine)
        if dead_letters.exists():
            covered = self._target.covered
            refused = times_of_dead_letters(dead_letters.snapshot(), name, covered)
            last |= {p: max(position, last.get(p, position)) for p, position in refused.items()}
        return {partition: time for partition, (_, time) in last.items()}

    def upsert(
        self,
        winners: pa.Table,
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        transaction_ids: Mapping[str, int] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
    ) -> UpsertResult:
        """Upsert rows and commit them with the offsets of `spans`.

        If the table doesn't exist and no key is deleted, the same commit creates the table. If the
        table doesn't exist and keys are deleted, an earlier commit creates the table.

        Args:
            winners: the result of `last_of_each_key`.
        """
        table = self._table(tags)
        if self._snapshot is None:
            if not pc.any(winners.column(DELETED)).as_py():
                return self._create_with_rows(winners, layout, spans, transaction_ids, tags)
            self._create(layout)
        snapshot = self._snapshot
        assert snapshot is not None
        table.deleted_keys.remember(winners)
        ids = {**self._target.transaction_ids(spans), **(transaction_ids or {})}
        with schema_errors(self._topic), self._conflicts(ids):
            result = table.merge(
                snapshot,
                winners,
                transaction_ids=ids,
                table_properties=self._target.table_properties(layout),
            )
        self._target.set_committed(result.version, spans)
        return result

    def upsert_with(
        self,
        merge: Callable[..., UpsertResult],
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        *,
        tags: Mapping[str, str],
    ) -> UpsertResult:
        """Upsert rows by calling `merge`, which runs on Spark's executors.

        If the table doesn't exist, an earlier commit without rows and offsets creates it.

        Args:
            merge: function that commits the upsert. Its arguments are the table, the snapshot, the
                transaction identifiers to commit, and the table properties to set.
        """
        if self._snapshot is None:
            self.clear_deleted_keys()
            self._create(layout)
        snapshot = self._snapshot
        assert snapshot is not None
        ids = self._target.transaction_ids(spans)
        with schema_errors(self._topic), self._conflicts(ids):
            properties = self._target.table_properties(layout)
            result = merge(
                self._table(tags), snapshot, transaction_ids=ids, table_properties=properties
            )
        self._target.set_committed(result.version, spans)
        return result

    def create_with(
        self,
        write: Callable[[UpsertTable, bytes], tuple[list[AddFile], int]],
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        *,
        tags: Mapping[str, str],
    ) -> UpsertResult:
        """Create the table with rows that `write` writes on Spark's executors, and with offsets.

        The table must not exist yet, and no row may delete its key.

        Args:
            write: function that writes rows to data files, and returns the `add` actions and the
                number of rows. Its arguments are the table and the serialized `TransactionState`.
        """
        self.clear_deleted_keys()
        target = self._target
        transaction, _ = target.begin(layout, spans)
        state = transaction.transaction_state(self._engine)
        adds, rows = write(self._table(), state.to_bytes())
        return self._commit_first(transaction, adds, rows, spans, tags)

    @property
    def _snapshot(self) -> Snapshot | None:
        handle = self._target.snapshot
        return None if handle is None else handle.kernel

    def _table(self, tags: Mapping[str, str] | None = None) -> UpsertTable:
        keys = self._topic.upsert_keys
        assert keys is not None
        return UpsertTable(
            self._engine,
            self._target.path,
            keys,
            engine_info=INGEST_ENGINE_INFO,
            user_metadata=json.dumps(tags) if tags else None,
            time_zone=self._topic.time_zone,
        )

    def _create(self, layout: RowLayout) -> None:
        """Create the target without rows and offsets, in a separate commit.

        The target must exist before deleted keys are stored. Otherwise another process that creates
        the target would clear these keys.
        """
        transaction, _ = self._target.begin(layout, {})
        self._target.create(transaction)

    def _create_with_rows(
        self,
        winners: pa.Table,
        layout: RowLayout,
        spans: Mapping[int, OffsetSpan],
        transaction_ids: Mapping[str, int] | None,
        tags: Mapping[str, str] | None,
    ) -> UpsertResult:
        transaction, _ = self._target.begin(layout, spans, transaction_ids)
        rows = winners.select(layout.schema.names)
        state = transaction.transaction_state(self._engine)
        adds = write_data(self._engine, state, rows.combine_chunks().to_batches())
        return self._commit_first(transaction, adds, rows.num_rows, spans, tags)

    def _commit_first(
        self,
        transaction: Transaction,
        adds: Sequence[AddFile],
        rows: int,
        spans: Mapping[int, OffsetSpan],
        tags: Mapping[str, str] | None,
    ) -> UpsertResult:
        """Commit the transaction that creates the table; delete the files if the commit fails."""
        with discard_unless_committed(lambda: self._target.discard(adds)):
            version = self._target.commit(transaction, adds, spans, tags=tags)
        assert version is not None  # not skipped, because a new table has no offsets
        return UpsertResult(version=version, inserted=rows, updated=0, deleted=0)

    @contextlib.contextmanager
    def _conflicts(self, transaction_ids: Collection[str]) -> Iterator[None]:
        """Context manager that makes conflicts between upserts of different records retryable.

        All upserts of a table increment the same transaction identifier. The second of two
        concurrent upserts therefore fails with `ConcurrentTransactionError`. If the two upserts
        wrote different records, the error is converted to `CommitConflictError`, which callers
        retry. If another process has committed one of `transaction_ids`, it has written the same
        records, and the error isn't converted.
        """
        try:
            yield
        except ConcurrentTransactionError as error:
            snapshot, latest = self._snapshot, self._target.latest_snapshot()
            if snapshot is None or latest is None:
                raise
            before, after = snapshot.transactions, latest.transactions
            records = (i for i in transaction_ids if not is_restore_app_id(i))
            if any(before.get(i) != after.get(i) for i in records):
                raise
            if before.get(UPSERTS) == after.get(UPSERTS):
                raise
            raise CommitConflictError(
                error.message, table=self._target.path, winning_version=error.winning_version
            ) from error


def empty_rows(layout: RowLayout) -> pa.Table:
    """Return an empty table with the columns that `TargetUpserts.last_of_each_key` takes."""
    fields = [*to_arrow_schema(layout.schema), pa.field(DELETED, pa.bool_())]
    return pa.schema(fields).empty_table()
