"""The two tables of a topic, the target and its dead letters: where they stand, what is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayou.api import table as open_table
from bayou.errors import PipelineError, SchemaError
from bayou.ingest.config import Topic
from bayou.ingest.dead_letters import DEAD_LETTER_SCHEMA, dead_letters_path
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    app_id,
    check_not_recreated,
    next_offsets,
)
from bayou.ingest.rows import KAFKA_COLUMNS, RowLayout, record_part
from bayou.kernel import Operation, Snapshot, Table, Transaction, delete_data_files
from bayou.kernel.engine import Engine
from bayou.kernel.writes.schema_evolution import merge_schemas
from bayou.protocol.actions import AddFile
from bayou.protocol.schema import StructField, StructType
from bayou.version import ENGINE_INFO

__all__ = ["DeadLetterTable", "TargetTable"]

_ENGINE_INFO = f"{ENGINE_INFO} (ingest)"
_CHECKPOINT_INTERVAL = "delta.checkpointInterval"
_TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"


class TargetTable:
    """The target of one topic. `refresh` reads where it stands; the rest builds on that."""

    def __init__(self, engine: Engine, topic: Topic, kafka: KafkaTopic) -> None:
        self._engine = engine
        self._topic = topic
        self._kafka = kafka
        self._table = Table.for_path(engine, topic.table_path)
        self._snapshot: Snapshot | None = None

    @property
    def path(self) -> str:
        """The table's resolved path."""
        return self._table.path

    @property
    def version(self) -> int | None:
        """The version last read, None where there is no table."""
        return None if self._snapshot is None else self._snapshot.version

    @property
    def covered(self) -> dict[int, int]:
        """For each Kafka partition that is covered the next offset to read."""
        known = {} if self._snapshot is None else self._snapshot.transactions
        return next_offsets(self._kafka, known)

    @property
    def columns(self) -> StructType:
        """The record's fields that the table has; none where there is no table."""
        if self._snapshot is None:
            return StructType()
        return record_part(self._snapshot.schema, self._snapshot.partition_columns)

    def refresh(self) -> None:
        """Read the latest version.

        Raises:
            PipelineError: the table can't be the target of this topic.
        """
        exists = self._table.exists(self._engine)
        self._snapshot = self._table.latest_snapshot(self._engine) if exists else None
        if self._snapshot is not None:
            self._check(self._snapshot)

    def merged(self, columns: StructType, others: StructType) -> StructType:
        """Columns with those of `others` that are new.

        Raises:
            PipelineError: a column has another type there.
        """
        try:
            return merge_schemas(self.path, columns, others)
        except SchemaError as error:
            raise PipelineError(
                f"topic {self._topic.key!r}: schema-file doesn't fit the table: {error.message}",
                topic=self._topic.key,
            ) from error

    def with_column(self, columns: StructType, field: StructField) -> StructType | None:
        """Columns with one more; None where a table can't have it beside them."""
        try:
            merged = merge_schemas(self.path, columns, StructType((field,)))
        except SchemaError:
            return None
        return merged if len(merged) > len(columns) else None

    def begin(
        self, layout: RowLayout, spans: Mapping[int, OffsetSpan]
    ) -> tuple[Transaction, tuple[str, ...]]:
        """A transaction that adds rows of a layout and covers these offsets.

        Returns:
            The transaction, and the names of the columns that it adds to the table.

        Raises:
            PipelineError: rows of this layout can't be put into the table.
        """
        destination = self._topic.config.destination
        if self._snapshot is None:
            builder = self._table.create_transaction_builder(
                self._engine, engine_info=_ENGINE_INFO, operation=Operation.STREAMING_UPDATE
            ).with_partition_columns(destination.partition_columns)
            known: tuple[str, ...] = ()
        else:
            builder = self._snapshot.build_update_table_transaction(
                _ENGINE_INFO, Operation.STREAMING_UPDATE
            ).with_schema_evolution(True)
            known = self._snapshot.schema.names
        builder = builder.with_schema(layout.schema).with_operation_parameters(
            {"outputMode": "Append", "topic": self._kafka.name}
        )
        interval = destination.delta_config.checkpoint_interval
        if interval is not None:
            builder = builder.with_table_properties({_CHECKPOINT_INTERVAL: str(interval)})
        for partition, span in spans.items():
            builder = builder.with_transaction_id(app_id(self._kafka, partition), span.end - 1)
        try:
            transaction = builder.build(self._engine)
        except SchemaError as error:
            raise PipelineError(
                f"topic {self._topic.key!r}: {error.message}", topic=self._topic.key
            ) from error
        return transaction, tuple(n for n in layout.schema.names if n not in known)

    def commit(self, transaction: Transaction, adds: Sequence[AddFile]) -> int | None:
        """Commit; what was read before is read anew.

        Returns:
            The version, None where the table covers the offsets already.
        """
        result = transaction.commit(self._engine, adds)
        result.run_post_commit_hooks(self._engine)
        self.refresh()
        return None if result.already_committed else result.version

    def discard(self, adds: Sequence[AddFile]) -> None:
        """Delete files that won't be committed."""
        if adds:
            delete_data_files(self._engine, self.path, adds)

    def _check(self, snapshot: Snapshot) -> None:
        key = self._topic.key
        check_not_recreated(self._kafka, snapshot.transactions, key=key)
        missing = [n for n in KAFKA_COLUMNS.names if n not in snapshot.schema.names]
        if missing:
            raise PipelineError(
                f"topic {key!r}: {self.path} exists and has no column {missing[0]!r}, so it wasn't "
                "made by this pipeline; write to another table-path.",
                topic=key,
            )
        wanted = self._topic.config.destination.partition_columns
        if tuple(wanted) != tuple(snapshot.partition_columns):
            raise PipelineError(
                f"topic {key!r}: {self.path} is partitioned by "
                f"({', '.join(snapshot.partition_columns)}), partition-columns says "
                f"({', '.join(wanted)}); make them agree or write to another table-path.",
                topic=key,
            )
        if _TRANSACTION_RETENTION in snapshot.properties:
            raise PipelineError(
                f"topic {key!r}: {self.path} has the property {_TRANSACTION_RETENTION}, by which "
                "it would forget which offsets it covers and take records twice; unset it.",
                topic=key,
            )


class DeadLetterTable:
    """The dead letters of one topic."""

    def __init__(self, engine: Engine, topic: Topic, kafka: KafkaTopic) -> None:
        self._engine = engine
        self._kafka = kafka
        self._storage_path = dead_letters_path(topic.table_path)
        self._table = Table.for_path(engine, self._storage_path)
        self._state: bytes | None = None

    @property
    def path(self) -> str:
        """The table's resolved path."""
        return self._table.path

    def task_state(self) -> bytes:
        """The transaction state for tasks."""
        if self._state is None:
            transaction = self._begin(self._snapshot(), {})
            self._state = transaction.transaction_state(self._engine).to_bytes()
        return self._state

    def decided(
        self, covered: Mapping[int, int], storage_options: Mapping[str, str]
    ) -> dict[int, tuple[int, ...]]:
        """Offsets that are here although the target doesn't cover them.

        A run that ended between the two commits leaves them: those records were refused, whatever
        a second look at them would say.

        Args:
            covered: next offsets of the target.
            storage_options: how to read the table.
        """
        snapshot = self._snapshot()
        if snapshot is None:
            return {}
        ahead = {
            partition: covered.get(partition, 0)
            for partition, position in next_offsets(self._kafka, snapshot.transactions).items()
            if position > covered.get(partition, 0)
        }
        if not ahead:
            return {}
        rows = open_table(self._storage_path, dict(storage_options)).to_arrow(
            columns=["topic", "partition", "offset"],
            filter=f"offset >= {min(ahead.values())}",
            version=snapshot.version,
        )
        found: dict[int, list[int]] = {p: [] for p in ahead}
        for row in rows.to_pylist():
            start = ahead.get(row["partition"])
            if row["topic"] == self._kafka.name and start is not None and row["offset"] >= start:
                found[row["partition"]].append(row["offset"])
        return {p: tuple(sorted(offsets)) for p, offsets in found.items() if offsets}

    def commit(self, adds: Sequence[AddFile], spans: Mapping[int, OffsetSpan]) -> None:
        """Add letters and record the offsets that were looked at.

        Offsets that are recorded already (a replay whose letters differ) don't hold new letters
        back.
        """
        snapshot = self._snapshot()
        known = {} if snapshot is None else next_offsets(self._kafka, snapshot.transactions)
        ahead = {p: s for p, s in spans.items() if s.end > known.get(p, 0)}
        transaction = self._begin(snapshot, ahead)
        transaction.commit(self._engine, adds).run_post_commit_hooks(self._engine)

    def discard(self, adds: Sequence[AddFile]) -> None:
        """Delete files that won't be committed."""
        if adds:
            delete_data_files(self._engine, self.path, adds)

    def _snapshot(self) -> Snapshot | None:
        if not self._table.exists(self._engine):
            return None
        return self._table.latest_snapshot(self._engine)

    def _begin(self, snapshot: Snapshot | None, spans: Mapping[int, OffsetSpan]) -> Transaction:
        builder = (
            self._table.create_transaction_builder(
                self._engine, engine_info=_ENGINE_INFO, operation=Operation.STREAMING_UPDATE
            )
            if snapshot is None
            else snapshot.build_update_table_transaction(_ENGINE_INFO, Operation.STREAMING_UPDATE)
        )
        builder = builder.with_schema(DEAD_LETTER_SCHEMA).with_operation_parameters(
            {"outputMode": "Append", "topic": self._kafka.name}
        )
        for partition, span in spans.items():
            builder = builder.with_transaction_id(app_id(self._kafka, partition), span.end - 1)
        return builder.build(self._engine)
