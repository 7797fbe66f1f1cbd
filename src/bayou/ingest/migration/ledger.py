"""What a migration is about to do, and so what it has done: a Delta table beside the target.

`<table>_migration` gets a row for each part of a file before the target gets its records. The
target's transaction identifier `migration/<folder>` is the number of the last batch that it has; a
batch that is only here is done again, record for record.

| column | type | |
|---|---|---|
| `source` | string | the folder |
| `batch` | long | counts up from 0 |
| `file` | string | below the folder |
| `size` | long | of the file in bytes |
| `skipped`, `records` | long | records of the file before this part, and in it |
| `first` | long | number of the part's first record: `_kafka_offset` of its row |
| `complete` | boolean | the part ends with the file |
| `checksum` | string | SHA-256 of the part's records, a line each |
| `offsets` | string | JSON: the last Kafka offset of each partition that records named, so far |

Where Kafka goes on behind the records that were migrated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pyarrow as pa

from bayou.api import SnapshotHandle
from bayou.engines import for_path
from bayou.errors import ConcurrentTransactionError
from bayou.ingest.batch.target_table import ENGINE_INFO
from bayou.ingest.config import Topic
from bayou.ingest.config.table_paths import ledger_path
from bayou.ingest.migration.json_files import path_below
from bayou.ingest.offsets import KafkaTopic
from bayou.kernel import Engine, Operation, Snapshot, Table, delete_data_files, write_data
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.transaction.commit import discard_unless_committed

__all__ = [
    "Ledger",
    "LedgerState",
    "Part",
    "application_id",
    "ledger_path",
    "migrated_offsets",
    "migrated_source",
]


def application_id(source: str) -> str:
    """The target's transaction identifier for a folder."""
    return f"migration/{source}"


def migrated_source(application: str) -> str | None:
    """The folder that a transaction identifier of a target is about, None for another's."""
    before = application_id("")
    return application.removeprefix(before) if application.startswith(before) else None


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the ledger."""

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

    @property
    def path(self) -> str:
        """Where the file is."""
        return path_below(self.source, self.file)

    def is_in(self, transactions: Mapping[str, int]) -> bool:
        """Whether a target with these identifiers has it; a kill may have come before."""
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
}
_SCHEMA = pa.schema(_COLUMNS)


class LedgerState:
    """The ledger as one version has it, and what was added to that since.

    There may be a part for each of 100,000 files: a batch doesn't go through those before it.

    Args:
        parts: in the order in which they were begun.
        commits: how many batches were added, of all folders.

    Attributes:
        parts: as given, and those that were added.
        commits: likewise.
        next_number: number for a record that no folder's migration has used.
    """

    def __init__(self, parts: Iterable[Part] = (), commits: int = 0) -> None:
        self.parts: list[Part] = []
        self.commits = commits
        self.next_number = 0
        self._batches: dict[str, int] = {}
        self._take(parts)

    def added(self, parts: Iterable[Part]) -> None:
        """A batch was added."""
        self._take(parts)
        self.commits += 1

    def next_batch(self, source: str) -> int:
        """Number for a batch of a folder."""
        return self._batches.get(source, -1) + 1

    def of(self, source: str) -> list[Part]:
        """Those of a folder."""
        return [part for part in self.parts if part.source == source]

    def by_path(self) -> dict[str, list[Part]]:
        """Those of each file, from whatever folder it was reached, in the order of its records."""
        found: dict[str, list[Part]] = {}
        for part in sorted(self.parts, key=lambda p: p.skipped + p.records):
            found.setdefault(part.path, []).append(part)
        return found

    def _take(self, parts: Iterable[Part]) -> None:
        for part in parts:
            self.parts.append(part)
            self.next_number = max(self.next_number, part.first + part.records)
            self._batches[part.source] = max(self._batches.get(part.source, -1), part.batch)


class Ledger:
    """The ledger of one target."""

    def __init__(self, table_path: str, storage_options: dict[str, str]) -> None:
        self._path = ledger_path(table_path)
        self._engine: Engine = for_path(self._path, storage_options)
        self._table = Table.for_path(self._engine, self._path)
        self._target = Table.for_path(self._engine, table_path)

    def read(self) -> LedgerState:
        """How it stands now."""
        snapshot = self._snapshot()
        if snapshot is None:
            return LedgerState()
        rows = SnapshotHandle(self._engine, snapshot).to_arrow()
        rows = rows.sort_by([("batch", "ascending"), ("first", "ascending")])
        return LedgerState(
            parts=(Part(**row) for row in rows.to_pylist()),
            commits=snapshot.transactions.get(_COMMITS, 0),
        )

    def offsets(self) -> dict[int, int]:
        """The last Kafka offset of each partition that records named which the target has."""
        parts = self.read().parts
        done = self._target.latest_snapshot(self._engine).transactions if parts else {}
        found: dict[int, int] = {}
        for text in {part.offsets for part in parts if part.is_in(done)}:
            for partition, offset in msgspec.json.decode(text).items():
                found[int(partition)] = max(found.get(int(partition), -1), offset)
        return found

    def add(self, parts: Sequence[Part], commits: int) -> None:
        """Say what a batch is about to do.

        Args:
            commits: `LedgerState.commits` as the parts were made: of two migrations that number
                their records from the same state one has to begin again.

        Raises:
            ConcurrentTransactionError: another process has added a batch since.
        """
        snapshot = self._snapshot()
        known = 0 if snapshot is None else snapshot.transactions.get(_COMMITS, 0)
        if known != commits:
            raise ConcurrentTransactionError(
                f"{self._path} has {known} batches, not {commits}.",
                table=self._path,
                winning_version=-1 if snapshot is None else snapshot.version,
            )
        if snapshot is not None:
            builder = snapshot.build_update_table_transaction(ENGINE_INFO, Operation.WRITE)
        else:
            builder = self._table.create_transaction_builder(
                self._engine, engine_info=ENGINE_INFO, operation=Operation.WRITE
            ).with_table_made()
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
"""Transaction identifier whose version counts the batches of all folders."""


def migrated_offsets(
    topic: Topic, kafka: KafkaTopic, covered: Mapping[int, int], storage_options: dict[str, str]
) -> dict[int, int]:
    """The last offset that migrated records name, of each partition that isn't covered yet.

    Args:
        covered: the next offsets of the target, which is there.
    """
    if not kafka.bounds.keys() - covered.keys():
        return {}
    migrated = Ledger(topic.table_path, storage_options).offsets()
    return {p: o for p, o in migrated.items() if p in kafka.bounds and p not in covered}
