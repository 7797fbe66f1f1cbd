"""Random histories of a table by two writers, held against a dictionary (Hypothesis).

A writer works on the version that it has seen, which others may have left behind: what it does then
either goes behind their commits and counts, or conflicts and changes nothing.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.errors import CommitConflictError, DataFileError
from bayou.kernel import (
    CommitBoundary,
    Engine,
    Operation,
    Snapshot,
    Table,
    delete_data_files,
    read_change_file,
    read_scan_file,
    write_data,
)
from bayou.kernel.operations.delete import delete
from bayou.kernel.operations.merge import MergeClause, MergeDefinition, MergeSource, merge
from bayou.kernel.operations.optimize import plan_optimize, plan_zorder
from bayou.kernel.operations.restore import restore
from bayou.kernel.operations.rewrite_plan import run_plan
from bayou.kernel.operations.update import update
from bayou.kernel.operations.vacuum import vacuum
from bayou.kernel.scan_state import ROW_ID
from bayou.kernel.upkeep.cleanup import clean_up_log
from bayou.kernel.upkeep.compaction import compact_log
from bayou.protocol.schema import LONG, STRING, StructField, StructType
from bayou.testing.table_model import Condition, Effect, Rows, TableModel

__all__ = ["TableMachine"]

_INFO = "model/1"
_DAY = 24 * 60 * 60 * 1000
_COLUMNS = {"id": LONG, "p": LONG, "v": LONG, "s": STRING}
_WRITERS = st.integers(0, 1)

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


def _conditions() -> st.SearchStrategy[Condition]:
    return st.one_of(
        st.just(Condition(None, lambda _: True)),
        st.integers(0, 3).map(lambda p: Condition(f"p = {p}", lambda r: r["p"] == p)),
        st.integers(-3, 9).map(
            lambda v: Condition(f"v > {v}", lambda r: None if r["v"] is None else r["v"] > v)
        ),
        st.tuples(st.integers(2, 4), st.integers(0, 3)).map(
            lambda m: Condition(f"id % {m[0]} = {m[1]}", lambda r: r["id"] % m[0] == m[1])
        ),
        st.just(Condition("v IS NULL", lambda r: r["v"] is None)),
        st.just(
            Condition("NOT s LIKE 'a%'", lambda r: None if r["s"] is None else r["s"][0] != "a")
        ),
    )


_VALUES = st.fixed_dictionaries(
    {
        "p": st.integers(0, 3),
        "v": st.none() | st.integers(-5, 10),
        "s": st.none() | st.sampled_from(["a", "ab", "b", "ö"]),
    }
)


class TableMachine(RuleBasedStateMachine):
    """A Hypothesis state machine: `run_state_machine_as_test(TableMachine, settings=...)`.

    After each step the latest version is read by `ArrowEngine`, `MemoryEngine` and, where there is
    one, another implementation (`read_elsewhere`): all must have the model's rows. Of a table with
    row ids each row keeps its own; of one with a change data feed each version's feed must lead
    from the rows before to those behind it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="bayou-model-")
        self._path = str(Path(self._folder.name) / "table")
        self._mirror = f"memory://{uuid.uuid4().hex}/table"
        self._engine = ArrowEngine()
        self._memory = MemoryEngine()
        self._mirrored: set[str] = set()
        self._next_id = 0
        self._row_ids: dict[int, int] = {}
        self._vacuumed = self._cleaned = -1
        self._checked = 0

    def read_elsewhere(self, path: str) -> Rows | None:
        """Rows by another implementation; None: not this time, or not this table."""
        return None

    def teardown(self) -> None:
        """Delete the table."""
        self._memory.files.delete_files(self._mirrored)
        self._folder.cleanup()

    @initialize(
        switches=st.sets(st.sampled_from(sorted(_SWITCHES))),
        partitioned=st.booleans(),
        rows=st.lists(_VALUES, max_size=6),
    )
    def create(self, switches: set[str], partitioned: bool, rows: list[dict[str, Any]]) -> None:
        """A new table with some rows."""
        properties = {name: _SWITCHES[name] for name in sorted(switches)}
        properties["delta.checkpointInterval"] = "7"
        note(f"partitioned: {partitioned}, {properties}")
        self._has_feed = "delta.enableChangeDataFeed" in properties
        self._has_row_ids = "delta.enableRowTracking" in properties
        first = self._numbered(tuple(_COLUMNS), rows)
        table = Table.for_path(self._engine, self._path)
        transaction = (
            table.create_transaction_builder(self._engine, _INFO, Operation.CREATE_TABLE)
            .with_schema(_schema(tuple(_COLUMNS)))
            .with_partition_columns(["p"] if partitioned else [])
            .with_table_properties(properties)
            .build(self._engine)
        )
        adds = write_data(self._engine, transaction.transaction_state(self._engine), _batch(first))
        assert transaction.commit(self._engine, adds).version == 0
        self._table = table
        self._model = TableModel(tuple(_COLUMNS), first)
        self._seen: list[Snapshot] = [self._latest(), self._latest()]

    @rule(writer=_WRITERS)
    def look(self, writer: int) -> None:
        """A writer sees what there is."""
        self._seen[writer] = self._latest()

    @rule(writer=_WRITERS, rows=st.lists(_VALUES, min_size=1, max_size=4))
    def append(self, writer: int, rows: list[dict[str, Any]]) -> None:
        """A blind append: only a new column may stand against it."""
        new = self._numbered(self._model.columns(self._seen[writer].version), rows)
        self._attempt(
            writer,
            lambda s: self._write(s, new, overwrite=False),
            lambda _: Effect(new=new),
            f"append {list(new)}",
        )

    @rule(writer=_WRITERS, rows=st.lists(_VALUES, max_size=3))
    def overwrite(self, writer: int, rows: list[dict[str, Any]]) -> None:
        """All rows go, others come."""
        new = self._numbered(self._model.columns(self._seen[writer].version), rows)
        self._attempt(
            writer,
            lambda s: self._write(s, new, overwrite=True),
            lambda before: Effect(gone=before, new=new),
            f"overwrite by {list(new)}",
        )

    @rule(writer=_WRITERS, condition=_conditions())
    def delete_rows(self, writer: int, condition: Condition) -> None:
        """DELETE."""
        self._attempt(
            writer,
            lambda s: delete(self._engine, s, condition.text, engine_info=_INFO).version,
            lambda before: Effect(gone=condition.of(before)),
            f"delete where {condition.text}",
        )

    @rule(writer=_WRITERS, condition=_conditions(), p=st.integers(0, 3))
    def update_rows(self, writer: int, condition: Condition, p: int) -> None:
        """UPDATE; rows may move to another partition."""
        values = {"v": "coalesce(v, 0) + 1", "p": str(p)}

        def effect(before: Rows) -> Effect:
            gone = condition.of(before)
            new = {k: {**r, "v": (r["v"] or 0) + 1, "p": p} for k, r in gone.items()}
            return Effect(gone=gone, new=new)

        self._attempt(
            writer,
            lambda s: update(self._engine, s, values, condition.text, engine_info=_INFO).version,
            effect,
            f"update p to {p} where {condition.text}",
        )

    @rule(
        writer=_WRITERS,
        matching=st.sets(st.integers(0, 30), max_size=4),
        rows=st.lists(_VALUES, max_size=2),
        deletes=st.booleans(),
        others=st.sampled_from(["stay", "go"]),
    )
    def merge_rows(
        self,
        writer: int,
        matching: set[int],
        rows: list[dict[str, Any]],
        deletes: bool,
        others: str,
    ) -> None:
        """MERGE: what matches gets new values or goes, what doesn't comes; others may go."""
        columns = self._model.columns(self._seen[writer].version)
        seen = self._model.rows(self._seen[writer].version)
        new = self._numbered(columns, rows)
        source: Rows = {
            **{k: {**seen[k], "v": -k} for k in sorted(matching) if k in seen},
            **new,
        }
        clauses = [
            MergeClause(kind="MATCHED", action="delete" if deletes else "update"),
            MergeClause(kind="NOT MATCHED", action="insert"),
        ]
        if others == "go":
            clauses.append(
                MergeClause(kind="NOT MATCHED BY SOURCE", action="delete", condition="p = 1")
            )
        definition = MergeDefinition(on="target.id = source.id", clauses=tuple(clauses))
        batches = _batch(source, columns)
        rows_read = MergeSource.read(batches[0].schema, batches)

        def effect(before: Rows) -> Effect:
            gone = {k: before[k] for k in source if k in before}
            if others == "go":
                gone |= {k: r for k, r in before.items() if k not in source and r["p"] == 1}
            kept = {} if deletes else {k: r for k, r in source.items() if k in before}
            return Effect(gone=gone, new={**kept, **new})

        self._attempt(
            writer,
            lambda s: merge(self._engine, s, rows_read, definition, engine_info=_INFO).version,
            effect,
            f"merge {list(source)}, deletes: {deletes}, others {others}",
        )

    @rule(writer=_WRITERS, orders=st.booleans(), size=st.sampled_from([1, 1 << 20]))
    def optimize(self, writer: int, orders: bool, size: int) -> None:
        """Files packed, or put along a Z-order; a target of one byte leaves them as many."""

        def run(snapshot: Snapshot) -> int:
            if orders:
                plan = plan_zorder(self._engine, snapshot, _INFO, ("id", "v"), target_bytes=size)
            else:
                plan = plan_optimize(self._engine, snapshot, _INFO, target_bytes=size)
            version = run_plan(self._engine, plan, _INFO).version
            return snapshot.version if version is None else version

        self._attempt(writer, run, lambda _: Effect(), f"optimize, orders: {orders}, {size}")

    @precondition(lambda self: len(self._model.columns()) < 7)
    @rule(writer=_WRITERS)
    def add_column(self, writer: int) -> None:
        """A new column, null in all rows."""
        columns = self._model.columns(self._seen[writer].version)
        name = f"c{len(columns)}"

        def commit(snapshot: Snapshot) -> int:
            builder = snapshot.build_update_table_transaction(_INFO, Operation.ADD_COLUMNS)
            builder = builder.with_schema(_schema((*columns, name))).with_schema_evolution()
            return builder.build(self._engine).commit(self._engine, []).version

        self._attempt(writer, commit, lambda _: Effect(columns=(name,)), f"add column {name}")

    @precondition(lambda self: self._model.version > max(0, self._cleaned, self._vacuumed))
    @rule(data=st.data())
    def restore_version(self, data: st.DataObject) -> None:
        """RESTORE to a version whose files are still there."""
        latest = self._latest()
        first = max(0, self._cleaned, self._vacuumed)
        to = data.draw(st.integers(first, latest.version - 1), label="version")
        wanted = self._table.snapshot_as_of_version(self._engine, to)
        done = restore(self._engine, latest, wanted, _INFO)
        self._model.restore(done.version, to)

    @rule()
    def checkpoint(self) -> None:
        """A checkpoint of the latest version."""
        assert self._table.checkpoint(self._engine) == self._model.version

    @precondition(lambda self: self._model.version > self._cleaned + 1)
    @rule(commits=st.integers(2, 5))
    def compact(self, commits: int) -> None:
        """A compaction file over the last commits."""
        last = self._model.version
        compact_log(self._engine, self._path, max(self._cleaned + 1, last + 1 - commits), last)

    @rule()
    def clean_up(self) -> None:
        """The log's cleanup, as if some days had gone by; no writer takes that long."""
        self._seen = [self._latest(), self._latest()]
        in_days = time.time_ns() // 1_000_000 + 3 * _DAY
        clean_up_log(self._engine, self._path, retention_ms=0, now=in_days)
        self._cleaned = self._model.version

    @rule()
    def vacuum_all(self) -> None:
        """A vacuum that keeps the latest version's files only."""
        vacuum(self._engine, self._path, 0, enforce_retention_duration=False, engine_info=_INFO)
        for _ in range(2):  # it says when it begins and when it ends
            self._model.commit(self._model.version + 1, Effect())
        self._vacuumed = self._model.version

    @invariant()
    def everyone_agrees(self) -> None:
        """All readers have the model's rows."""
        if not hasattr(self, "_model"):
            return
        expected = self._model.rows()
        latest = self._latest()
        assert latest.version == self._model.version
        assert latest.schema.names == self._model.columns()
        assert _read(self._engine, latest) == expected
        self._copy_to_memory()
        memory = Table.for_path(self._memory, self._mirror).latest_snapshot(self._memory)
        assert _read(self._memory, memory) == expected
        elsewhere = self.read_elsewhere(self._path)
        assert elsewhere is None or elsewhere == expected
        if self._has_row_ids:
            self._check_row_ids(latest)
        if self._has_feed:
            self._check_feed()

    def _attempt(
        self,
        writer: int,
        operation: Callable[[Snapshot], int],
        effect: Callable[[Rows], Effect],
        what: str,
    ) -> None:
        """Do something from the version that a writer has seen; the model follows."""
        snapshot = self._seen[writer]
        stale = snapshot.version < self._model.version
        note(f"writer {writer} at {snapshot.version} of {self._model.version}: {what}")
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
            if version == snapshot.version:
                assert done.is_nothing, f"{what} did nothing"
            else:
                self._model.commit(version, done)
        self._seen[writer] = self._latest()

    def _write(self, snapshot: Snapshot, rows: Rows, *, overwrite: bool) -> int:
        builder = snapshot.build_update_table_transaction(_INFO, Operation.WRITE)
        transaction = builder.build(self._engine)
        state = transaction.transaction_state(self._engine)
        adds = write_data(self._engine, state, _batch(rows))
        removes = transaction.generate_remove_actions(self._engine) if overwrite else ()
        try:
            result = transaction.commit(self._engine, [*removes, *adds])
        except CommitConflictError:
            delete_data_files(self._engine, self._path, adds)
            raise
        result.run_post_commit_hooks(self._engine)
        return result.version

    def _numbered(self, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> Rows:
        numbered: dict[int, Mapping[str, Any]] = {}
        for values in rows:
            row = {"id": self._next_id, **values}
            numbered[self._next_id] = {name: row.get(name) for name in columns}
            self._next_id += 1
        return numbered

    def _latest(self) -> Snapshot:
        return self._table.latest_snapshot(self._engine)

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
        ids = {
            key: row[ROW_ID] for key, row in _read(self._engine, latest, metadata=(ROW_ID,)).items()
        }
        assert len(set(ids.values())) == len(ids), "two rows have one row id"
        for key, row_id in ids.items():
            assert row_id is not None
            assert self._row_ids.setdefault(key, row_id) == row_id, f"row {key} has another row id"

    def _check_feed(self) -> None:
        """Of the versions since the last step."""
        first = max(self._checked + 1, self._vacuumed + 1)
        self._checked = self._model.version
        for version in range(first, self._model.version + 1):
            boundary = CommitBoundary.at_version(version)
            if self._model.columns(version) != self._model.columns(version - 1):
                continue
            rows = dict(self._model.rows(version - 1))
            changes = self._table.changes(self._engine, boundary, boundary).scan_builder().build()
            state = changes.change_state(self._engine)
            with changes.change_files(self._engine) as files:
                found = [
                    row
                    for file in files
                    for batch in read_change_file(self._engine, state, file)
                    for row in batch.to_pylist()
                ]
            came = ("insert", "update_postimage")
            for row in sorted(found, key=lambda r: r["_change_type"] in came):
                values = {name: row[name] for name in self._model.columns(version)}
                if row["_change_type"] in came:
                    assert rows.setdefault(row["id"], values) is values, f"{row} was there"
                else:
                    assert rows.pop(row["id"], None) == values, f"{row} wasn't there"
            assert rows == self._model.rows(version), f"the feed of version {version}"


def _schema(columns: tuple[str, ...]) -> StructType:
    return StructType(
        tuple(StructField(name=name, data_type=_COLUMNS.get(name, LONG)) for name in columns)
    )


def _batch(rows: Rows, columns: tuple[str, ...] = tuple(_COLUMNS)) -> list[pa.RecordBatch]:
    """The rows as one batch."""
    names = list(next(iter(rows.values()))) if rows else list(columns)
    types = {name: pa.string() if name == "s" else pa.int64() for name in names}
    return [
        pa.RecordBatch.from_arrays(
            [pa.array([row[n] for row in rows.values()], types[n]) for n in names], names
        )
    ]


def _read(engine: Engine, snapshot: Snapshot, metadata: tuple[str, ...] = ()) -> Rows:
    scan = snapshot.scan_builder().with_metadata_columns(metadata).build()
    state = scan.scan_state(engine)
    rows: dict[int, Mapping[str, Any]] = {}
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as files:
        for file in files:
            with read_scan_file(engine, state, file) as batches:
                for row in (row for batch in batches for row in batch.to_pylist()):
                    assert rows.setdefault(row["id"], row) is row, f"{row} is there twice"
    return rows
