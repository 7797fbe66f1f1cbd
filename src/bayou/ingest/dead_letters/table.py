"""The dead letters of a topic: where they stand, and what is added before the target's commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayou.api import table as open_table
from bayou.errors import CommitConflictError, ConcurrentTransactionError, PipelineError
from bayou.ingest.batch.target_checks import TRANSACTION_RETENTION
from bayou.ingest.batch.target_table import ENGINE_INFO
from bayou.ingest.config import Topic
from bayou.ingest.config.table_paths import dead_letters_path
from bayou.ingest.dead_letters.records import DEAD_LETTER_SCHEMA, fingerprints
from bayou.ingest.offsets import (
    KafkaTopic,
    OffsetSpan,
    app_id,
    check_not_recreated,
    fixed_start,
    next_offsets,
    start_app_id,
)
from bayou.kernel import Operation, Snapshot, Table, Transaction, delete_data_files
from bayou.kernel.engine import Engine
from bayou.protocol.actions import AddFile

__all__ = ["DeadLetterTable"]


class DeadLetterTable:
    """The dead letters of one topic."""

    def __init__(self, engine: Engine, topic: Topic, kafka: KafkaTopic) -> None:
        self._engine = engine
        self._topic = topic
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

    def known_start(self) -> dict[int, int]:
        """Where a first run began that was to begin at the end; nothing before that run."""
        snapshot = self._snapshot()
        return {} if snapshot is None else fixed_start(self._kafka, snapshot.transactions)

    def fix_start(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Remember where a topic begins that is to begin at the end; the first time counts.

        Returns:
            What is remembered.
        """
        snapshot = self._snapshot()
        known = {} if snapshot is None else fixed_start(self._kafka, snapshot.transactions)
        if known:
            return known
        starts = {start_app_id(self._kafka, p): offset for p, offset in positions.items()}
        try:
            self._begin(snapshot, starts).commit(self._engine, ())
        except CommitConflictError:  # another first run was first, or the table changed
            return self.fix_start(positions)
        return dict(positions)

    def decided(
        self, covered: Mapping[int, int], storage_options: Mapping[str, str]
    ) -> dict[int, dict[int, frozenset[bytes]]]:
        """Offsets of records that are here although the target doesn't cover them.

        A run that ended between the two commits leaves them: those records were refused, whatever
        a second look at them would say.

        Args:
            covered: next offsets of the target.
            storage_options: how to read the table.

        Returns:
            For each Kafka partition the offsets, with the `fingerprints` of the letters there: more
            than one, or that of another record, where the topic was deleted and recreated.

        Raises:
            PipelineError: the table forgets which offsets it covers, or has letters of an earlier
                topic of this name, which no replay could tell from those of this one.
        """
        snapshot = self._snapshot()
        self._seen = self._marks(snapshot)
        if snapshot is None:
            return {}
        check_not_recreated(
            self._kafka, snapshot.transactions, key=self._topic.key, table=self._storage_path
        )
        if TRANSACTION_RETENTION in snapshot.properties:
            raise PipelineError(
                f"topic {self._topic.key!r}: {self.path} has the property {TRANSACTION_RETENTION}, "
                "by which it would forget which offsets it covers; unset it.",
                topic=self._topic.key,
            )
        ahead = {
            partition: covered.get(partition, 0)
            for partition, position in next_offsets(self._kafka, snapshot.transactions).items()
            if position > covered.get(partition, 0)
        }
        if not ahead:
            return {}
        rows = open_table(self._storage_path, dict(storage_options)).to_arrow(
            columns=["topic", "partition", "offset", "timestamp", "key", "value"],
            filter=f"offset >= {min(ahead.values())}",
            version=snapshot.version,
        )
        found: dict[int, dict[int, frozenset[bytes]]] = {}
        places = rows.select(["topic", "partition", "offset"]).to_pylist()
        for row, fingerprint in zip(places, fingerprints(rows), strict=True):
            partition, offset = row["partition"], row["offset"]
            start = ahead.get(partition)
            if row["topic"] == self._kafka.name and start is not None and offset >= start:
                known = found.setdefault(partition, {})
                known[offset] = known.get(offset, frozenset()) | {fingerprint}
        return found

    def commit(self, adds: Sequence[AddFile], spans: Mapping[int, OffsetSpan]) -> None:
        """Add letters and record the offsets that were looked at.

        Offsets that are recorded already (a replay whose letters differ) don't hold new letters
        back. Each commit counts up one transaction identifier of the whole topic, so that letters
        of two pipelines always conflict.

        Raises:
            ConcurrentTransactionError: another pipeline has added letters of this topic.
        """
        snapshot = self._snapshot()
        marks = self._marks(snapshot)
        if marks != self._seen:
            raise ConcurrentTransactionError(
                f"{self.path} covers other offsets than this pipeline has written.",
                table=self.path,
                winning_version=-1 if snapshot is None else snapshot.version,
            )
        known = {} if snapshot is None else next_offsets(self._kafka, snapshot.transactions)
        ahead = {p: s for p, s in spans.items() if s.end > known.get(p, 0)}
        written = {app_id(self._kafka, p): s.end - 1 for p, s in ahead.items()}
        written[self._counter] = marks.get(self._counter, -1) + 1
        result = self._begin(snapshot, written).commit(self._engine, adds)
        self._seen = marks | written
        result.run_post_commit_hooks(self._engine)

    def discard(self, adds: Sequence[AddFile]) -> None:
        """Delete files that won't be committed."""
        if adds:
            delete_data_files(self._engine, self.path, adds)

    def _snapshot(self) -> Snapshot | None:
        if not self._table.exists(self._engine):
            return None
        return self._table.latest_snapshot(self._engine)

    @property
    def _counter(self) -> str:
        return f"kafka/{self._kafka.cluster_id}/{self._kafka.name}/letters"

    def _marks(self, snapshot: Snapshot | None) -> dict[str, int]:
        """This topic's transaction identifiers."""
        ours = f"kafka/{self._kafka.cluster_id}/{self._kafka.name}/"
        known = {} if snapshot is None else snapshot.transactions
        return {app: version for app, version in known.items() if app.startswith(ours)}

    def _begin(self, snapshot: Snapshot | None, written: Mapping[str, int]) -> Transaction:
        builder = (
            self._table.create_transaction_builder(
                self._engine, engine_info=ENGINE_INFO, operation=Operation.STREAMING_UPDATE
            ).with_table_made()
            if snapshot is None
            else snapshot.build_update_table_transaction(ENGINE_INFO, Operation.STREAMING_UPDATE)
        )
        builder = builder.with_schema(DEAD_LETTER_SCHEMA).with_operation_parameters(
            {"outputMode": "Append", "topic": self._kafka.name}
        )
        for application, version in written.items():
            builder = builder.with_transaction_id(application, version)
        return builder.build(self._engine)
