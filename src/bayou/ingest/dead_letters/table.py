"""The dead letter table of a topic. A batch commits its dead letters before its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from bayou.api import table as open_table
from bayou.errors import CommitConflictError, ConcurrentTransactionError, PipelineError
from bayou.ingest.batch.target.target_checks import TRANSACTION_RETENTION
from bayou.ingest.config import Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.dead_letters.records import DEAD_LETTER_SCHEMA, fingerprints
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    app_id,
    check_not_recreated,
    is_start,
    next_offsets,
    recorded_start,
    start_app_id,
)
from bayou.kernel import (
    Operation,
    Snapshot,
    Table,
    Transaction,
    TransactionBuilder,
    delete_data_files,
)
from bayou.kernel.arrow.compute import pc
from bayou.kernel.engine import Engine
from bayou.protocol.actions import AddFile
from bayou.protocol.actions import Transaction as TransactionIdentifier
from bayou.version import INGEST_ENGINE_INFO


class DeadLetterTable:
    """The dead letter table of one topic."""

    def __init__(self, engine: Engine, topic: Topic, kafka: KafkaTopic) -> None:
        self._engine = engine
        self._topic = topic
        self._kafka = kafka
        self._storage_path = dead_letters_path(topic.table_path)
        self._table = Table.for_path(engine, self._storage_path)
        self._state: bytes | None = None

    @property
    def path(self) -> str:
        return self._table.path

    def task_state(self) -> bytes:
        """Return the serialized transaction state that executor tasks need to write data files."""
        if self._state is None:
            transaction = self._begin(self._snapshot(), {})
            self._state = transaction.transaction_state(self._engine).to_bytes()
        return self._state

    def transactions(self) -> Mapping[str, int]:
        """Return the latest version's transaction identifiers; an empty dict if no table exists."""
        snapshot = self._snapshot()
        return {} if snapshot is None else snapshot.transactions

    def recorded_start(self) -> dict[int, int]:
        """Return the start offsets that `record_start` recorded, or an empty dict."""
        return recorded_start(self._kafka, self.transactions())

    def record_start(
        self, positions: Mapping[int, int], known: Mapping[int, int]
    ) -> Mapping[int, int]:
        """Record the start offsets of a first run, and return the recorded start offsets.

        If another run has recorded start offsets since `known` was read, nothing is recorded. In
        this case, the start offsets of the other run are returned.

        Args:
            known: the start offsets that the latest call of `recorded_start` returned.
        """
        snapshot = self._snapshot()
        latest = {} if snapshot is None else recorded_start(self._kafka, snapshot.transactions)
        if latest != known:
            return latest
        if positions == known:
            return positions
        # Not `with_transaction_id`: the new offset may be lower than the recorded offset.
        starts = [
            TransactionIdentifier(app_id=start_app_id(self._kafka, p), version=offset)
            for p, offset in positions.items()
        ]
        builder = self._builder(snapshot).with_copied_transaction_ids(starts)
        try:
            builder.build(self._engine).commit(self._engine, ())
        except CommitConflictError:  # another run has recorded its start, or changed the table
            return self.record_start(positions, known)
        return positions

    def uncovered_dead_letters(
        self, covered: Mapping[int, int], storage_options: Mapping[str, str]
    ) -> dict[int, dict[int, frozenset[bytes]]]:
        """Return the dead letters whose offsets the target hasn't recorded yet.

        A batch commits to the dead letter table first, then to the target. After a crash between
        the two commits, the batch is repeated. The records of these dead letters remain dead
        letters, even if they can be decoded now.

        Args:
            covered: the next offset that the pipeline reads from each partition, as recorded by the
                target.

        Returns:
            The `fingerprints` of the dead letters, by Kafka partition and offset. If the topic was
            recreated, dead letters of the deleted topic are included.
        """
        snapshot = self._snapshot()
        self._seen = self._topic_transactions(snapshot)
        if snapshot is None:
            return {}
        check_not_recreated(
            self._kafka, snapshot.transactions, key=self._topic.key, table=self._storage_path
        )
        if TRANSACTION_RETENTION in snapshot.properties:
            raise PipelineError(
                f"topic {self._topic.key!r}: {self.path} has the property "
                f"{TRANSACTION_RETENTION}, so the table's offsets expire. Unset the property.",
                topic=self._topic.key,
            )
        ahead = {
            partition: covered.get(partition, 0)
            for partition, position in next_offsets(self._kafka, snapshot.transactions).items()
            if position > covered.get(partition, 0)
        }
        if not ahead:
            return {}
        letters = open_table(self._storage_path, dict(storage_options)).snapshot(snapshot.version)
        columns = ["partition", "offset", "timestamp", "key", "value"]
        condition = f"topic = '{self._kafka.name}' AND offset >= {min(ahead.values())}"
        result: dict[int, dict[int, frozenset[bytes]]] = {}
        with letters.to_batches(columns, condition) as batches:
            for batch in batches:  # a batch at a time, because keys and values can be large
                selected = batch.filter(_at_or_after(batch, ahead))
                partitions: list[Any] = selected.column("partition").to_pylist()
                offsets: list[Any] = selected.column("offset").to_pylist()
                found = zip(partitions, offsets, fingerprints(selected), strict=True)
                for partition, offset, fingerprint in found:
                    known = result.setdefault(partition, {})
                    known[offset] = known.get(offset, frozenset()) | {fingerprint}
        return result

    def commit(self, adds: Sequence[AddFile], spans: Mapping[int, OffsetSpan]) -> None:
        """Add dead letters and record the processed offsets.

        Dead letters are added even if the table has recorded their offsets, because a retried batch
        can have more dead letters than the first attempt. Each commit increments one transaction
        identifier of the topic. Concurrent commits of two pipelines therefore conflict.

        Raises:
            ConcurrentTransactionError: another pipeline has added dead letters of this topic.
        """
        snapshot = self._snapshot()
        transactions = self._topic_transactions(snapshot)
        if transactions != self._seen:
            raise ConcurrentTransactionError(
                f"{self.path}: another pipeline committed dead letters of this topic. The dead "
                "letters of this attempt weren't written. Run only one pipeline for this topic.",
                table=self.path,
                winning_version=-1 if snapshot is None else snapshot.version,
            )
        known = {} if snapshot is None else next_offsets(self._kafka, snapshot.transactions)
        ahead = {p: s for p, s in spans.items() if s.end > known.get(p, 0)}
        written = {app_id(self._kafka, p): s.end - 1 for p, s in ahead.items()}
        written[self._counter] = transactions.get(self._counter, -1) + 1
        result = self._begin(snapshot, written).commit(self._engine, adds)
        self._seen = transactions | written
        result.run_post_commit_hooks(self._engine)

    def discard(self, adds: Sequence[AddFile]) -> None:
        if adds:
            delete_data_files(self._engine, self.path, adds)

    def _snapshot(self) -> Snapshot | None:
        if not self._table.exists(self._engine):
            return None
        return self._table.latest_snapshot(self._engine)

    @property
    def _counter(self) -> str:
        return f"kafka/{self._kafka.cluster_id}/{self._kafka.name}/letters"

    def _topic_transactions(self, snapshot: Snapshot | None) -> dict[str, int]:
        """Return the topic's transaction identifiers, except those that record start offsets."""
        prefix = f"kafka/{self._kafka.cluster_id}/{self._kafka.name}/"
        known = {} if snapshot is None else snapshot.transactions
        return {
            app: version
            for app, version in known.items()
            if app.startswith(prefix) and not is_start(app)
        }

    def _begin(self, snapshot: Snapshot | None, written: Mapping[str, int]) -> Transaction:
        builder = self._builder(snapshot)
        for application, version in written.items():
            builder = builder.with_transaction_id(application, version)
        return builder.build(self._engine)

    def _builder(self, snapshot: Snapshot | None) -> TransactionBuilder:
        builder = (
            self._table.create_transaction_builder(
                self._engine, engine_info=INGEST_ENGINE_INFO, operation=Operation.STREAMING_UPDATE
            ).with_table_created()
            if snapshot is None
            else snapshot.build_update_table_transaction(
                INGEST_ENGINE_INFO, Operation.STREAMING_UPDATE
            )
        )
        return builder.with_schema(DEAD_LETTER_SCHEMA).with_operation_parameters(
            {"outputMode": "Append", "topic": self._kafka.name}
        )


def _at_or_after(letters: pa.RecordBatch, starts: Mapping[int, int]) -> Any:
    """Return a mask of the dead letters at or after the start offset of their partition."""
    partitions, offsets = letters.column("partition"), letters.column("offset")
    mask: Any = pa.repeat(pa.scalar(False), letters.num_rows)
    for partition in pc.unique(partitions).to_pylist():
        if (start := starts.get(partition)) is not None:
            after = pc.greater_equal(offsets, start)
            mask = pc.or_(mask, pc.and_(pc.equal(partitions, partition), after))
    return mask
