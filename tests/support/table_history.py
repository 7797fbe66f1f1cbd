"""State of a random table history, and the checks after each step.

Each writer works on the version that it last read. If others have committed since, its operation is
either rebased onto their commits, or conflicts and changes nothing.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.errors import CommitConflictError, DataFileError
from bayou.kernel import Operation, Snapshot, Table, Transaction, write_data
from bayou.kernel.scan.scan_state import ROW_ID
from bayou.protocol.actions import Action
from support.table_model import Effect, Rows, TableModel
from support.table_rows import (
    COLUMNS,
    VALUES,
    batch_of,
    read_feed,
    read_rows,
    replayed,
    schema_of,
)

__all__ = ["INFO", "WRITERS", "OpenTransaction", "TableHistory"]

INFO = "model/1"
WRITERS = st.integers(0, 1)
"""Strategy for the number of a writer: 0 or 1."""

_SWITCHES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableRowTracking": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.columnMapping.mode": "name",
    "delta.checkpointPolicy": "v2",
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.isolationLevel": "Serializable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that has written its files, and is committed in a later step.

    Attributes:
        snapshot: the version that the transaction read.
        transaction: the transaction.
        actions: the actions to commit.
        effect: returns the effect on the rows of `snapshot`.
        what: description for Hypothesis' notes.
    """

    snapshot: Snapshot
    transaction: Transaction
    actions: Sequence[Action]
    effect: Callable[[Rows], Effect]
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """Whether a version has a change data feed, and its schema, as JSON."""

    has_feed: bool
    schema: str


class TableHistory(RuleBasedStateMachine):
    """Base class: the table, its model, and the checks after each step. Subclasses have rules."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="bayou-model-")
        self._path = str(Path(self._folder.name) / "table")
        self._mirror = f"memory://{uuid.uuid4().hex}/table"
        self._engine = ArrowEngine()
        self._memory = MemoryEngine()
        self._mirrored: set[str] = set()
        self._next_id = 0
        self._next_column = len(COLUMNS)
        self._row_ids: dict[int, int] = {}
        self._applications: dict[str, int] = {}
        self._open: list[OpenTransaction | None] = [None, None]
        self._vacuumed = self._cleaned = -1
        self._facts: list[_Facts] = []

    def read_elsewhere(self, path: str) -> Rows | None:
        """Return the rows as read by another implementation; None to skip this check."""
        return None

    def teardown(self) -> None:
        """Delete the table's files."""
        self._memory.files.delete_files(self._mirrored)
        self._folder.cleanup()

    @initialize(
        switches=st.sets(st.sampled_from(sorted(_SWITCHES))),
        partitioned=st.booleans(),
        rows=st.lists(VALUES, max_size=12),
    )
    def create(self, switches: set[str], partitioned: bool, rows: list[dict[str, Any]]) -> None:
        """Create a table with random features and some rows."""
        properties = {name: _SWITCHES[name] for name in sorted(switches)}
        properties["delta.checkpointInterval"] = "7"
        note(f"partitioned: {partitioned}, {properties}")
        self._partitioned = partitioned
        first = self._numbered(COLUMNS, rows)
        table = Table.for_path(self._engine, self._path)
        transaction = (
            table.create_transaction_builder(self._engine, INFO, Operation.CREATE_TABLE)
            .with_schema(schema_of(COLUMNS))
            .with_partition_columns(["p"] if partitioned else [])
            .with_table_properties(properties)
            .build(self._engine)
        )
        state = transaction.transaction_state(self._engine)
        adds = write_data(self._engine, state, batch_of(first))
        assert transaction.commit(self._engine, adds).version == 0
        self._table = table
        self._model = TableModel(COLUMNS, first)
        self._seen: list[Snapshot] = [self._latest(), self._latest()]

    @invariant()
    def everyone_agrees(self) -> None:
        """Assert that all readers return the rows of the model."""
        if not hasattr(self, "_model"):
            return
        expected = self._model.rows()
        latest = self._latest()
        assert latest.version == self._model.version
        assert latest.schema.names == self._model.columns()
        assert latest.transactions == self._applications
        assert read_rows(self._engine, latest) == expected
        self._copy_to_memory()
        memory = Table.for_path(self._memory, self._mirror).latest_snapshot(self._memory)
        assert read_rows(self._memory, memory) == expected
        elsewhere = self.read_elsewhere(self._path)
        assert elsewhere is None or elsewhere == expected
        self._check_row_ids(latest)
        self._check_feed(latest)

    def _attempt(
        self,
        writer: int,
        operation: Callable[[Snapshot], int],
        effect: Callable[[Rows], Effect],
        what: str,
        snapshot: Snapshot | None = None,
    ) -> bool:
        """Run an operation on the version that a writer has read; apply its effect to the model.

        A conflict is an error only if no other writer has committed since this version.

        Args:
            writer: the writer, which reads the latest version afterwards.
            operation: commits and returns the new version, or the snapshot's if it changed nothing.
            effect: returns the operation's effect on the rows of the snapshot.
            what: description for Hypothesis' notes.
            snapshot: the version to run on; None for the writer's version.

        Returns:
            Whether the operation committed a version.
        """
        snapshot = self._seen[writer] if snapshot is None else snapshot
        stale = snapshot.version < self._model.version
        note(f"writer {writer} at {snapshot.version} of {self._model.version}: {what}")
        committed = False
        try:
            version = operation(snapshot)
        except CommitConflictError as error:
            if not stale:
                raise
            note(f"conflict: {type(error).__name__}")
        except DataFileError:
            if snapshot.version >= self._vacuumed:
                raise
        else:
            done = effect(self._model.rows(snapshot.version))
            committed = version != snapshot.version
            if committed:
                self._model.commit(version, done)
            else:
                assert done.is_nothing, f"{what} did nothing"
        self._seen[writer] = self._latest()
        return committed

    def _numbered(self, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> Rows:
        """Return rows with new ids. Columns without a drawn value contain the id or null."""
        numbered: dict[int, Mapping[str, Any]] = {}
        for values in rows:
            others = self._next_id if self._next_id % 3 else None
            row = {"id": self._next_id, **values}
            numbered[self._next_id] = {name: row.get(name, others) for name in columns}
            self._next_id += 1
        return numbered

    def _latest(self) -> Snapshot:
        return self._table.latest_snapshot(self._engine)

    def _first_readable(self) -> int:
        return max(0, self._cleaned, self._vacuumed)

    def _copy_to_memory(self) -> None:
        there = {
            f"{self._mirror}/{path.relative_to(self._path)}": path
            for path in Path(self._path).rglob("*")
            if path.is_file()
        }
        self._memory.files.delete_files(self._mirrored - there.keys())
        for name, path in there.items():
            if name not in self._mirrored or path.name == "_last_checkpoint":
                self._memory.files.put(name, path.read_bytes())
        self._mirrored = set(there)

    def _check_row_ids(self, latest: Snapshot) -> None:
        if not latest.table_properties.row_tracking:
            self._row_ids.clear()
            return
        found = read_rows(self._engine, latest, metadata=(ROW_ID,))
        ids = {key: row[ROW_ID] for key, row in found.items()}
        assert len(set(ids.values())) == len(ids), "two rows have one row id"
        for key, row_id in ids.items():
            assert row_id is not None
            assert self._row_ids.setdefault(key, row_id) == row_id, f"row {key} has another row id"

    def _check_feed(self, latest: Snapshot) -> None:
        """Check the change data feed of the versions since the last step; record their facts."""
        for version in range(len(self._facts), latest.version + 1):
            snapshot = latest
            if version < latest.version:
                snapshot = self._table.snapshot_as_of_version(self._engine, version)
            facts = _Facts(
                has_feed=snapshot.table_properties.change_data_feed,
                schema=snapshot.metadata.schema_string,
            )
            self._facts.append(facts)
            if version > 0 and self._has_feed(version, version):
                feed = read_feed(self._engine, self._table, version, version)
                rows = replayed(feed, self._model.rows(version - 1), self._model.columns(version))
                assert rows == self._model.rows(version), f"the feed of version {version}"

    def _has_feed(self, first: int, last: int) -> bool:
        """Whether the feed of a version range can be applied to the version before the range."""
        facts = self._facts[first - 1 :]
        return (
            first > self._first_readable()
            and all(f.has_feed for f in self._facts[first : last + 1])
            and all(f.schema == facts[0].schema for f in facts)
        )
