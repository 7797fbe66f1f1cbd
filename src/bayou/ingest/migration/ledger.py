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
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from bayou.api import table as open_table
from bayou.engines import for_path
from bayou.errors import ConcurrentTransactionError
from bayou.ingest.target_table import ENGINE_INFO
from bayou.kernel import Operation, Table, delete_data_files, write_data
from bayou.kernel.arrow_types import from_arrow_schema

__all__ = ["Ledger", "Part", "ledger_path"]


def ledger_path(table_path: str) -> str:
    """Where the ledger of a target is."""
    return f"{table_path.rstrip('/')}_migration"


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


class Ledger:
    """The ledger of one target."""

    def __init__(self, table_path: str, storage_options: dict[str, str]) -> None:
        self._path = ledger_path(table_path)
        self._storage_options = storage_options

    def parts(self, source: str) -> list[Part]:
        """Everything about a folder, in the order in which it was begun."""
        handle = open_table(self._path, self._storage_options)
        if not handle.exists():
            return []
        rows = handle.to_arrow().sort_by([("batch", "ascending"), ("first", "ascending")])
        return [Part(**row) for row in rows.to_pylist() if row["source"] == source]

    def offsets(self) -> dict[int, int]:
        """The last Kafka offset of each partition that migrated records named."""
        handle = open_table(self._path, self._storage_options)
        if not handle.exists():
            return {}
        found: dict[int, int] = {}
        for text in handle.to_arrow(columns=["offsets"]).column(0).unique().to_pylist():
            for partition, offset in msgspec.json.decode(str(text)).items():
                found[int(partition)] = max(found.get(int(partition), -1), offset)
        return found

    def next_number(self) -> int:
        """Number for a record that no folder's migration has used."""
        handle = open_table(self._path, self._storage_options)
        if not handle.exists():
            return 0
        rows = handle.to_arrow(columns=["first", "records"]).to_pylist()
        return max((row["first"] + row["records"] for row in rows), default=0)

    def add(self, parts: Sequence[Part]) -> None:
        """Say what a batch is about to do.

        The batch is a transaction identifier, so that of two migrations of one folder one stops.

        Raises:
            ConcurrentTransactionError: another process migrates this folder.
        """
        engine = for_path(self._path, self._storage_options)
        table = Table.for_path(engine, self._path)
        if table.exists(engine):
            builder = table.latest_snapshot(engine).build_update_table_transaction(
                ENGINE_INFO, Operation.WRITE
            )
        else:
            builder = table.create_transaction_builder(
                engine, engine_info=ENGINE_INFO, operation=Operation.WRITE
            )
        rows = pa.RecordBatch.from_pylist([msgspec.structs.asdict(p) for p in parts], _SCHEMA)
        transaction = (
            builder.with_schema(from_arrow_schema(_SCHEMA, table=self._path))
            .with_transaction_id(f"migration/{parts[0].source}", parts[0].batch)
            .build(engine)
        )
        adds = write_data(engine, transaction.transaction_state(engine), [rows])
        result = transaction.commit(engine, adds)
        if result.already_committed:
            delete_data_files(engine, table.path, adds)
            raise ConcurrentTransactionError(
                f"{table.path} has batch {parts[0].batch} of {parts[0].source} already.",
                table=table.path,
                winning_version=result.version,
            )
        result.run_post_commit_hooks(engine)
