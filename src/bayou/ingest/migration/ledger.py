"""The migration ledger: a Delta table beside the target that records the migrated files.

The ledger's path is `<table>_migration`. Records are migrated in batches. A *part* is a sequence of
records of one file in one batch. Each row of the ledger describes a part. Before a batch is written
to the target, the rows of its parts are added to the ledger. The commit to the target then sets the
version of the transaction identifier `migration/<source>` to the number of the batch. If the ledger
has a batch that the target lacks, the batch is written again with the same records.

| column | type | |
|---|---|---|
| `source` | string | path of the migrated folder, or of a single migrated file |
| `batch` | long | number of the folder's batch, from 0 |
| `file` | string | path of the file relative to the folder |
| `size` | long | size of the file in bytes |
| `skipped` | long | number of the file's records before the part |
| `records` | long | number of records in the part |
| `first` | long | sequence number of the part's first record; `_kafka_offset` of its row |
| `complete` | boolean | whether the part ends with the file |
| `checksum` | string | SHA-256 of the part's records, one per line |
| `modified` | long | the file's modification time, milliseconds since the epoch; null in old rows |
| `offsets` | string | JSON: by Kafka partition, the highest offset that was migrated so far |
| `topic` | string | the Kafka topic of these offsets and of the part's rows; null in old rows |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pyarrow as pa

from bayou.api import SnapshotHandle
from bayou.engines import for_path
from bayou.errors import ConcurrentTransactionError
from bayou.ingest.config import Topic
from bayou.ingest.config.table_paths import ledger_path
from bayou.ingest.migration.json_files import path_below
from bayou.ingest.offsets import KafkaTopic
from bayou.kernel import Engine, Operation, Snapshot, Table, delete_data_files, write_data
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.transaction.commit import discard_unless_committed
from bayou.version import INGEST_ENGINE_INFO


def application_id(source: str) -> str:
    """Return the `appId` whose version is the number of the last batch migrated from a folder."""
    return f"migration/{source}"


def migrated_source(application: str) -> str | None:
    """Return the folder in an `appId` from `application_id`; None for any other `appId`."""
    prefix = application_id("")
    return application.removeprefix(prefix) if application.startswith(prefix) else None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a migrated file: a sequence of records that one batch has migrated.

    A part is a row of the ledger. The docstring of this module describes the columns.
    """

    source: str
    batch: int
    file: str
    size: int
    skipped: int
    records: int
    first: int
    complete: bool
    checksum: str
    offsets: str = "{}"
    modified: int | None = None
    topic: str | None = None

    def is_of(self, kafka_topic: str) -> bool:
        """Whether the part was migrated for a Kafka topic; True if the part's topic isn't known."""
        return self.topic in (None, kafka_topic)

    @property
    def path(self) -> str:
        return path_below(self.source, self.file)

    def is_in(self, transactions: Mapping[str, int]) -> bool:
        """Whether a target has the batch of this part, according to its transaction identifiers."""
        return self.batch <= transactions.get(application_id(self.source), -1)


_COLUMNS: dict[str, pa.DataType] = {
    "source": pa.string(),
    "batch": pa.int64(),
    "file": pa.string(),
    "size": pa.int64(),
    "skipped": pa.int64(),
    "records": pa.int64(),
    "first": pa.int64(),
    "complete": pa.bool_(),
    "checksum": pa.string(),
    "offsets": pa.string(),
    "modified": pa.int64(),
    "topic": pa.string(),
}
_SCHEMA = pa.schema(_COLUMNS)


class LedgerState:
    """The rows of the ledger in memory.

    Rows that this process adds to the ledger are also added to this object, so that the ledger
    isn't read again after each batch.

    Attributes:
        parts: the rows of all folders.
        commits: number of commits to the ledger, each with one batch of one folder.
        next_number: the sequence number of the next record; unique across folders.
    """

    def __init__(self, parts: Iterable[Part] = (), commits: int = 0) -> None:
        self.parts: list[Part] = []
        self.commits = commits
        self.next_number = 0
        self._batches: dict[str, int] = {}
        self._add(parts)

    def added(self, parts: Iterable[Part]) -> None:
        self._add(parts)
        self.commits += 1

    def next_batch(self, source: str) -> int:
        return self._batches.get(source, -1) + 1

    def of(self, source: str) -> list[Part]:
        return [part for part in self.parts if part.source == source]

    def by_path(self) -> dict[str, list[Part]]:
        """Return the parts of each file, in the order of the records. The keys are file paths."""
        result: dict[str, list[Part]] = {}
        for part in sorted(self.parts, key=lambda p: (p.skipped + p.records, p.first)):
            result.setdefault(part.path, []).append(part)
        return result

    def _add(self, parts: Iterable[Part]) -> None:
        for part in parts:
            self.parts.append(part)
            self.next_number = max(self.next_number, part.first + part.records)
            self._batches[part.source] = max(self._batches.get(part.source, -1), part.batch)


class Ledger:
    """The table that records which files of a migration have been written to a target table."""

    def __init__(self, table_path: str, storage_options: dict[str, str]) -> None:
        self._path = ledger_path(table_path)
        self._engine: Engine = for_path(self._path, storage_options)
        self._table = Table.for_path(self._engine, self._path)
        self._target = Table.for_path(self._engine, table_path)

    def read(self) -> LedgerState:
        snapshot = self._snapshot()
        if snapshot is None:
            return LedgerState()
        rows = SnapshotHandle(self._engine, snapshot).to_arrow()
        rows = rows.sort_by([("batch", "ascending"), ("first", "ascending")])
        return LedgerState(
            parts=(Part(**row) for row in rows.to_pylist()),
            commits=snapshot.transactions.get(_COMMITS, 0),
        )

    def offsets(self, kafka_topic: str) -> dict[int, int]:
        """Return the highest Kafka offset of a topic's migrated records, by Kafka partition.

        A migrated record has a Kafka offset only if it has the fields `_kafka_partition` and
        `_kafka_offset`.
        """
        parts = [part for part in self.read().parts if part.is_of(kafka_topic)]
        known = self._target.latest_snapshot(self._engine).transactions if parts else {}
        result: dict[int, int] = {}
        for offsets in {part.offsets for part in parts if part.is_in(known)}:
            for partition, offset in msgspec.json.decode(offsets).items():
                result[int(partition)] = max(result.get(int(partition), -1), offset)
        return result

    def add(self, parts: Sequence[Part], commits: int) -> None:
        """Add the rows of a batch, before the batch is committed to the target.

        Args:
            commits: the value of `LedgerState.commits` when the caller assigned sequence numbers to
                the records.

        Raises:
            ConcurrentTransactionError: another process has added a batch since the caller assigned
                the sequence numbers. Assign other numbers, and retry.
        """
        snapshot = self._snapshot()
        known = 0 if snapshot is None else snapshot.transactions.get(_COMMITS, 0)
        if known != commits:
            raise ConcurrentTransactionError(
                f"{self._path}: another migration has added a batch: the ledger has {known} "
                f"batches instead of {commits}. Start the migration again.",
                table=self._path,
                winning_version=-1 if snapshot is None else snapshot.version,
            )
        if snapshot is not None:
            builder = snapshot.build_update_table_transaction(
                INGEST_ENGINE_INFO, Operation.WRITE
            ).with_schema_evolution(True)  # add columns that a ledger of an earlier version lacks
        else:
            builder = self._table.create_transaction_builder(
                self._engine, engine_info=INGEST_ENGINE_INFO, operation=Operation.WRITE
            ).with_table_created()
        rows = pa.RecordBatch.from_pylist([msgspec.structs.asdict(p) for p in parts], _SCHEMA)
        transaction = (
            builder.with_schema(from_arrow_schema(_SCHEMA, table=self._path))
            .with_transaction_id(_COMMITS, commits + 1)
            .build(self._engine)
        )
        adds = write_data(self._engine, transaction.transaction_state(self._engine), [rows])
        with discard_unless_committed(lambda: delete_data_files(self._engine, self._path, adds)):
            result = transaction.commit(self._engine, adds)
        result.run_post_commit_hooks(self._engine)

    def _snapshot(self) -> Snapshot | None:
        exists = self._table.exists(self._engine)
        return self._table.latest_snapshot(self._engine) if exists else None


_COMMITS = "migration/commits"
"""`appId` whose version is the number of batches of all folders."""


def migrated_end(
    topic: Topic, transactions: Mapping[str, int], storage_options: dict[str, str]
) -> int:
    """Return the first sequence number that the migration hasn't written to the target yet.

    This is the lowest sequence number of all batches that are in the ledger but not in the target.
    If there is no such batch, the result is higher than all sequence numbers.

    Args:
        transactions: the target's transaction identifiers. The caller must read them before this
            function reads the ledger.
    """
    parts = Ledger(topic.table_path, storage_options).read().parts
    return min((p.first for p in parts if not p.is_in(transactions)), default=_MAX_NUMBER)


_MAX_NUMBER = 2**62


def migrated_offsets(
    topic: Topic, kafka: KafkaTopic, covered: Mapping[int, int], storage_options: dict[str, str]
) -> dict[int, int]:
    """For each Kafka partition not in `covered`, return the highest offset of migrated records.

    Args:
        covered: for each partition, the next offset to read, as recorded by the target.
    """
    if not kafka.bounds.keys() - covered.keys():
        return {}
    migrated = Ledger(topic.table_path, storage_options).offsets(kafka.name)
    return {p: o for p, o in migrated.items() if p in kafka.bounds and p not in covered}
