"""The deleted keys of an upsert, each with the Kafka offset of the record that deleted it.

The keys are stored in a Delta table beside the target, `<table>_deleted_keys`. The table has these
columns:

- The key columns, and the ordering column if it is configured.
- `_kafka_timestamp`, `_kafka_offset`, `_kafka_partition` and `_kafka_topic` of the record that
  deleted the key.
- `_bayou_bare`: whether this record has no ordering value.
- `_remembered_at`: the time at which the delete was written to this table.

Each batch is committed to this table first, then to the target. After a crash between the two
commits, the batch is processed again. This is idempotent, because only a later delete updates a
key. `DeletedKeys.forget` removes keys after a retention.

The target must exist before a key is stored. A process that creates the target first removes all
stored keys, because they are from an earlier table at the same path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from bayou.api import SnapshotHandle, table
from bayou.api.rows.read import PlannedRead
from bayou.errors import PipelineError
from bayou.ingest.config.table_paths import deleted_keys_path
from bayou.ingest.upsert_order import BARE, DELETED, FORCED, UpsertKeys
from bayou.kernel import Engine, Operation, Predicate, Snapshot, Table, col, lit, write_data
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import from_arrow_type, to_arrow_schema
from bayou.kernel.commands.merge import MergeClause, MergeDefinition, MergeSource, merge
from bayou.kernel.commands.row_changes.delete import delete
from bayou.kernel.expressions.model import And, Comparison, IsNull, Or
from bayou.protocol.properties import TYPE_WIDENING
from bayou.protocol.schema import StructType
from bayou.protocol.sql import quote_identifier
from bayou.protocol.type_widening import is_widening

REMEMBERED_AT = "_remembered_at"
"""Column of the table of deleted keys: the time at which the delete was written."""

_KAFKA_TIMESTAMP = "_kafka_timestamp"
_BOUNDED = (pa.types.is_integer, pa.types.is_string, pa.types.is_date, pa.types.is_timestamp)


class DeletedKeys:
    """The table of deleted keys of a target.

    Args:
        table_path: the path of the target.
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
        return self._table.path

    def of(self, rows: pa.Table) -> pa.Table:
        """Read the deleted keys that occur in `rows`. The result may contain more deleted keys."""
        names = [*self._keys.all_columns, BARE]
        snapshot = self.snapshot if rows.num_rows else None
        if snapshot is None:
            return rows.select(self._keys.all_columns).slice(0, 0)
        return rows_of_keys(self._engine, snapshot, self._keys.columns, names, rows)

    def remember(self, rows: pa.Table) -> None:
        """Store the deletes among `rows` in this table.

        Args:
            rows: the rows that `last_of_each_key` returns.
        """
        deletes = rows.filter(rows.column(DELETED))
        if deletes.num_rows == 0:
            return
        source = deletes.select([*self._keys.all_columns, FORCED, BARE])
        now = pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC"))
        source = source.append_column(REMEMBERED_AT, pa.repeat(now, deletes.num_rows))
        snapshot = self.snapshot
        if snapshot is None:
            self._create(source.drop_columns([FORCED]))
            return
        snapshot = self._widened(snapshot, source.schema)
        merge(
            self._engine,
            snapshot,
            MergeSource.read(source.schema, source.to_batches()),
            self.definition(snapshot),
            engine_info=self._engine_info,
        )

    def latest_snapshot(self) -> Snapshot | None:
        """Load the latest snapshot without checks; None if the table doesn't exist."""
        exists = self._table.exists(self._engine)
        return self._table.latest_snapshot(self._engine) if exists else None

    def forget_all(self, snapshot: Snapshot) -> None:
        """Remove all keys. Must be called before the target is created.

        The keys are from an earlier target at the same path, which was deleted.

        Args:
            snapshot: the latest snapshot of this table.

        Raises:
            CommitConflictError: another process has stored keys since `snapshot`.
        """
        delete(self._engine, snapshot, engine_info=self._engine_info)

    def create_if_missing(self, winners: pa.Schema) -> Snapshot:
        """Return the table's snapshot; create an empty table if it doesn't exist.

        Args:
            winners: schema of the rows that `last_of_each_key` returns.
        """
        snapshot = self.snapshot
        if snapshot is not None:
            return self._widened(snapshot, winners)
        fields = [winners.field(name) for name in self._keys.all_columns]
        fields.append(pa.field(BARE, pa.bool_()))
        fields.append(pa.field(REMEMBERED_AT, pa.timestamp("us", tz="UTC")))
        self._create(pa.schema(fields).empty_table())
        return self._table.latest_snapshot(self._engine)

    def definition(self, snapshot: Snapshot) -> MergeDefinition:
        """Return the definition of the MERGE that stores deletes in this table.

        The source of the MERGE has the columns `UpsertKeys.all_columns`, `BARE`, `REMEMBERED_AT`
        and `FORCED`.
        """
        names = [*self._keys.all_columns, BARE, REMEMBERED_AT]
        columns = {name: f"s.{name}" for name in map(quote_identifier, names)}
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
        """Remove keys whose delete is older than the retention; return the number of removed keys.

        A key is removed if its Kafka timestamp and its `_remembered_at` are both older than the
        retention. The reference time for both is `now`, or the Kafka timestamp of the newest delete
        if this is earlier. Therefore keys aren't removed too early if the clock of this machine is
        ahead, and the newest delete is never removed.

        Args:
            now: the current time; None for the clock of this machine.
        """
        snapshot = self.snapshot
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
        """Return the Kafka timestamp of the newest delete; None if no delete has a timestamp."""
        newest: datetime | None = None
        with SnapshotHandle(self._engine, snapshot).to_batches([_KAFKA_TIMESTAMP]) as batches:
            for batch in batches:
                latest = pc.max(batch.column(0)).as_py()
                newest = latest if newest is None else max(newest, latest or newest)
        return newest

    @property
    def snapshot(self) -> Snapshot | None:
        """The table's latest snapshot; None if the table doesn't exist."""
        snapshot = self.latest_snapshot()
        if snapshot is None:
            return None
        missing = [c for c in self._keys.columns if c not in snapshot.schema.names]
        if missing:
            raise PipelineError(
                f"{self._table.path} has no column {missing[0]!r}, because this table was created "
                "with other key-columns. The target table has one row for each of the old keys. "
                "Restore the original key-columns, or set another table-path.",
                topic="",
            )
        return snapshot

    def _widened(self, snapshot: Snapshot, rows: pa.Schema) -> Snapshot:
        """Widen the key columns and ordering column of this table to the types in `rows`.

        Returns:
            The table's latest snapshot.
        """
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
        alter.set_table_properties({TYPE_WIDENING.key: "true"})
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
            .with_table_created()
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
    *,
    time_zone: str = "UTC",
) -> pa.Table:
    """Read the rows of a table whose keys occur in `rows`. The result may contain more rows.

    The table's size doesn't affect memory use, because each batch is filtered when it is read.

    Args:
        names: names of the columns to read. Columns that the table lacks are omitted.
        time_zone: time zone of partition values of type timestamp that have no time zone.
    """
    known = [n for n in names if n in snapshot.schema.names]
    bounds = _key_bounds(key_columns, rows)
    keys = {c: rows.column(c).combine_chunks().unique() for c in key_columns if c in known}
    reader = PlannedRead.plan(
        engine, snapshot, known, bounds, None, time_zone=time_zone
    ).to_batches()
    batches: list[pa.RecordBatch] = []
    with reader:
        for batch in reader:
            matches = batch
            for name, values in keys.items():
                column = matches.column(name)
                if column.type == values.type and not pa.types.is_floating(values.type):
                    matches = matches.filter(pc.is_in(column, value_set=values))
            if matches.num_rows:
                batches.append(matches)
    return pa.Table.from_batches(batches, reader.schema)


def _key_bounds(key_columns: Sequence[str], rows: pa.Table) -> Predicate | None:
    """Return a predicate for data skipping: the range of each key column's values in `rows`.

    A column is omitted if it has nulls in `rows`, or if its type isn't in `_BOUNDED`. The result is
    None if all columns are omitted.
    """
    parts: list[Predicate] = []
    for name in key_columns:
        values = rows.column(name)
        if values.null_count or not len(values) or not any(b(values.type) for b in _BOUNDED):
            continue
        low, high = pc.min(values).as_py(), pc.max(values).as_py()
        parts += [Comparison(">=", col(name), lit(low)), Comparison("<=", col(name), lit(high))]
    return And(tuple(parts)) if parts else None
