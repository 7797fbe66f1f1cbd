"""The keys that an upsert's table has no row for any more, and since when.

A Delta table beside the target, `<table>_deleted_keys`: the key columns, the ordering column where
one is set, `_kafka_timestamp`, `_kafka_offset`, `_kafka_partition` of the record that deleted the
key, and `_remembered_at`. It is written before the target. What a run that ended in between leaves
behind are deletes that come again; a key only ever gets a later one, so nothing has to be undone or
counted. After a retention a key is forgotten (`DeletedKeys.forget`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.api import SnapshotHandle, table
from bayou.errors import PipelineError
from bayou.ingest.config.table_paths import deleted_keys_path
from bayou.ingest.upsert_keys import DELETED, FORCED, UpsertKeys, quoted
from bayou.kernel import Engine, Operation, Predicate, Snapshot, Table, col, lit, write_data
from bayou.kernel.arrow.types import from_arrow_type, to_arrow_schema
from bayou.kernel.commands.merge import MergeClause, MergeDefinition, MergeSource, merge
from bayou.kernel.commands.row_changes.delete import delete
from bayou.kernel.expressions.model import And, Comparison, IsNull, Or
from bayou.protocol.properties import TYPE_WIDENING
from bayou.protocol.schema import StructType
from bayou.protocol.type_changes import is_widening

__all__ = ["REMEMBERED_AT", "DeletedKeys", "rows_of_keys"]

pc: Any = pyarrow.compute  # its stubs lose the kind of an array

REMEMBERED_AT = "_remembered_at"
"""Column of the deleted keys, timestamp: when the delete was taken in, by this machine's clock."""

_KAFKA_TIMESTAMP = "_kafka_timestamp"
_BOUNDED = (pa.types.is_integer, pa.types.is_string, pa.types.is_date, pa.types.is_timestamp)


class DeletedKeys:
    """The deleted keys of one target.

    Args:
        table_path: the target's.
        engine_info: how commits name who made them.
    """

    def __init__(
        self, engine: Engine, table_path: str, keys: UpsertKeys, *, engine_info: str
    ) -> None:
        self._engine = engine
        self._keys = keys
        self._engine_info = engine_info
        self._table = Table.for_path(engine, deleted_keys_path(table_path))

    @property
    def path(self) -> str:
        """The table's resolved path."""
        return self._table.path

    def of(self, rows: pa.Table) -> pa.Table:
        """What is known of the keys of some rows, and maybe of others.

        Returns:
            `UpsertKeys.all_columns`.
        """
        names = list(self._keys.all_columns)
        snapshot = self._snapshot() if rows.num_rows else None
        if snapshot is None:
            return rows.select(names).slice(0, 0)
        return rows_of_keys(self._engine, snapshot, self._keys.columns, names, rows)

    def remember(self, rows: pa.Table) -> None:
        """Take in the deletes among the rows of `last_of_each_key`."""
        gone = rows.filter(rows.column(DELETED))
        if gone.num_rows == 0:
            return
        source = gone.select([*self._keys.all_columns, FORCED])
        now = pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC"))
        source = source.append_column(REMEMBERED_AT, pa.repeat(now, gone.num_rows))
        snapshot = self._snapshot()
        if snapshot is None:
            self._create(source.drop_columns([FORCED]))
            return
        snapshot = self._as_wide(snapshot, source.schema)
        merge(
            self._engine,
            snapshot,
            MergeSource.read(source.schema, source.to_batches()),
            self.definition(snapshot),
            engine_info=self._engine_info,
        )

    def forget_all(self) -> None:
        """Take out all keys: a target that isn't there yet has deleted none.

        They stem from a table that stood there before, or from a batch that begins again.

        Raises:
            CommitConflictError, StorageError, CommitFailedError: as the names say.
        """
        if self._table.exists(self._engine):
            snapshot = self._table.latest_snapshot(self._engine)
            delete(self._engine, snapshot, engine_info=self._engine_info)

    def made(self, winners: pa.Schema) -> Snapshot:
        """The table, made without a key where there is none.

        Args:
            winners: the columns of `last_of_each_key`.
        """
        snapshot = self._snapshot()
        if snapshot is not None:
            return self._as_wide(snapshot, winners)
        fields = [winners.field(name) for name in self._keys.all_columns]
        fields.append(pa.field(REMEMBERED_AT, pa.timestamp("us", tz="UTC")))
        self._create(pa.schema(fields).empty_table())
        return self._table.latest_snapshot(self._engine)

    def definition(self, snapshot: Snapshot) -> MergeDefinition:
        """How deletes are taken in, in SQL; they have the columns of `UpsertKeys.all_columns`,
        `REMEMBERED_AT` and `FORCED`.
        """
        names = [*self._keys.all_columns, REMEMBERED_AT]
        columns = {name: f"s.{quoted(name)}" for name in names}
        return MergeDefinition(
            on=self._keys.matching,
            clauses=(
                MergeClause(
                    kind="MATCHED",
                    action="update",
                    condition=self._keys.newer_than(snapshot.schema.names),
                    assignments=columns,
                ),
                MergeClause(kind="NOT MATCHED", action="insert", assignments=columns),
            ),
            source_alias="s",
            target_alias="t",
            schema_evolution=True,
        )

    def forget(self, retention: timedelta, *, now: datetime | None = None) -> int:
        """Take out keys that were deleted longer ago than a retention, in one commit.

        Two clocks have to agree: this machine's, by which a delete was taken in, and Kafka's, by
        its newest delete. One that has jumped ahead makes nothing go that the other one keeps; a
        topic in which nothing is deleted any more keeps its last keys.

        Args:
            now: this machine's time.

        Returns:
            How many.

        Raises:
            CommitConflictError: the table was written meanwhile.
            StorageError, CommitFailedError: as the names say.
        """
        snapshot = self._snapshot()
        newest = None if snapshot is None else self._newest(snapshot)
        if snapshot is None or newest is None:
            return 0
        horizon = min(newest, datetime.now(UTC) if now is None else now) - retention
        known = [n for n in (_KAFKA_TIMESTAMP, REMEMBERED_AT) if n in snapshot.schema.names]
        old: list[Predicate] = [
            Or((IsNull(col(name)), Comparison("<", col(name), lit(horizon)))) for name in known
        ]
        metrics = delete(self._engine, snapshot, And(tuple(old)), engine_info=self._engine_info)
        return metrics.num_deleted_rows or 0

    def _newest(self, snapshot: Snapshot) -> datetime | None:
        """When the last delete happened; None for none that says so."""
        found: datetime | None = None
        with SnapshotHandle(self._engine, snapshot).to_batches([_KAFKA_TIMESTAMP]) as batches:
            for batch in batches:
                most = pc.max(batch.column(0)).as_py()
                found = most if found is None else max(found, most or found)
        return found

    def _snapshot(self) -> Snapshot | None:
        if not self._table.exists(self._engine):
            return None
        snapshot = self._table.latest_snapshot(self._engine)
        missing = [c for c in self._keys.columns if c not in snapshot.schema.names]
        if missing:
            raise PipelineError(
                f"{self._table.path} remembers deleted keys without {missing[0]!r}: key-columns "
                "were others when it was made. Write them as they were, or write to another "
                "table-path, for the rows of the table have one row for each of the old keys.",
                topic="",
            )
        return snapshot

    def _as_wide(self, snapshot: Snapshot, rows: pa.Schema) -> Snapshot:
        """The table with columns that hold what rows have: the target's may have become wider."""
        wider = {
            field.name: kind
            for field in snapshot.schema
            if field.name in self._keys.all_columns
            and is_widening(
                field.data_type,
                kind := from_arrow_type(rows.field(field.name).type, column=field.name),
            )
        }
        if not wider:
            return snapshot
        alter = table(self._table.path, engine=self._engine).alter
        alter.set_properties({TYPE_WIDENING.key: "true"})
        for name, kind in wider.items():
            alter.change_type([name], kind)
        return self._table.latest_snapshot(self._engine)

    def _create(self, rows: pa.Table) -> None:
        source = MergeSource.read(rows.schema, rows.to_batches())
        columns = StructType(tuple(replace(f, nullable=True) for f in source.schema))
        transaction = (
            self._table.create_transaction_builder(
                self._engine, engine_info=self._engine_info, operation=Operation.WRITE
            )
            .with_table_made()
            .with_schema(columns)
            .build(self._engine)
        )
        batch = source.rows.cast(to_arrow_schema(columns))
        state = transaction.transaction_state(self._engine)
        transaction.commit(self._engine, write_data(self._engine, state, [batch]))


def rows_of_keys(
    engine: Engine,
    snapshot: Snapshot,
    key_columns: Sequence[str],
    names: Sequence[str],
    rows: pa.Table,
) -> pa.Table:
    """Columns of a table, of the rows that have the keys of others; of some more, too.

    However large the table is, memory holds what may match.

    Args:
        rows: have the key columns.
    """
    known = [n for n in names if n in snapshot.schema.names]
    handle = SnapshotHandle(engine, snapshot)
    wanted = {c: rows.column(c).combine_chunks().unique() for c in key_columns if c in known}
    reader = handle.to_batches(known, _between(key_columns, rows))
    found: list[pa.RecordBatch] = []
    with reader:
        for batch in reader:
            kept = batch
            for name, values in wanted.items():
                column = kept.column(name)
                if column.type == values.type and not pa.types.is_floating(values.type):
                    kept = kept.filter(pc.is_in(column, value_set=values))
            if kept.num_rows:
                found.append(kept)
    return pa.Table.from_batches(found, reader.schema)


def _between(key_columns: Sequence[str], rows: pa.Table) -> Predicate | None:
    """Bounds of the keys, by which files are left out; null keys are in any file."""
    parts: list[Predicate] = []
    for name in key_columns:
        values = rows.column(name)
        if values.null_count or not len(values) or not any(b(values.type) for b in _BOUNDED):
            continue
        least, most = pc.min(values).as_py(), pc.max(values).as_py()
        parts += [Comparison(">=", col(name), lit(least)), Comparison("<=", col(name), lit(most))]
    return And(tuple(parts)) if parts else None
