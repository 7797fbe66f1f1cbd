"""The algebra of row changes: what goes away, what comes, and which actions say so."""

from __future__ import annotations

import json

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.errors import (
    ArgumentError,
    ConstraintViolationError,
    CorruptTableError,
    DataFileError,
    StorageError,
)
from bayou.kernel import Operation, ScanFile, Table
from bayou.kernel.commands.row_changes.row_changes import FileChange, apply_row_changes
from bayou.kernel.commands.row_changes.worker_state import RowChangeState
from bayou.kernel.deletion_vectors import read
from bayou.protocol.deletion_vectors import stored_vector
from support.faults import Fault, FaultInjectingEngine
from support.log_writer import metadata, protocol

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
ROWS = pa.table({"id": range(10), "p": ["a", "b"] * 5})


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


class Subject:
    """A table on disk with a transaction that changes its rows."""

    def __init__(self, path, rows=ROWS, properties=None, partition_by=None, engine=None) -> None:
        self.path = str(path)
        self.engine = engine or ArrowEngine()
        if rows is not None:
            bayou.write(self.path, rows, configuration=properties, partition_by=partition_by)
        self.begin()

    def begin(self) -> None:
        snapshot = Table.for_path(self.engine, self.path).latest_snapshot(self.engine)
        self.transaction = snapshot.build_update_table_transaction(
            "test/1", Operation.DELETE
        ).build(self.engine)
        self.state = RowChangeState.of(self.engine, self.transaction)
        scan = snapshot.scan_builder().with_statistics().build()
        self.files: list[ScanFile] = [f for b in scan.scan_files(self.engine) for f in b.rows()]

    def commit(self, changes) -> list[dict]:
        self.transaction.commit(self.engine, changes.actions)
        self.begin()
        return bayou.table(self.path).to_arrow().sort_by("id").to_pylist()

    def ids(self) -> list[int]:
        return sorted(bayou.table(self.path).to_arrow()["id"].to_pylist())


def change(file: ScanFile, *deleted: int, updated=(), rewrite=False) -> FileChange:
    return FileChange(
        file=file, deleted=BitMap64(deleted), updated=BitMap64(updated), rewrite=rewrite
    )


def left_over(path, *known) -> list[str]:
    """Files that aren't the log's, nor known."""
    files = (str(f.relative_to(path)) for f in path.rglob("*") if f.is_file())
    return sorted(f for f in files if not f.startswith("_delta_log") and f not in known)


def test_a_vector_marks_rows_and_the_next_one_has_the_old_ones_too(tmp_path):
    subject = Subject(tmp_path, properties=VECTORS)
    (before,) = subject.files
    changes = apply_row_changes(subject.engine, subject.state, [change(before, 1, 3)])
    assert (changes.num_deleted_rows, changes.num_vectors_added) == (2, 1)
    assert changes.removed[0].deletion_vector is None
    subject.commit(changes)
    (marked,) = subject.files
    assert marked.path == before.path
    stats = json.loads(marked.add.stats)
    assert (stats["numRecords"], stats["tightBounds"]) == (10, False)
    assert stats["minValues"] == {"id": 0, "p": "a"}
    again = apply_row_changes(subject.engine, subject.state, [change(marked, 3, 4)])
    assert (again.num_deleted_rows, again.num_vectors_updated) == (1, 1)
    assert again.removed[0].deletion_vector == marked.deletion_vector
    subject.commit(again)
    vector = subject.files[0].deletion_vector
    assert vector.cardinality == 3
    assert list(read.load(subject.engine, subject.path, vector)) == [1, 3, 4]
    assert subject.ids() == [0, 2, 5, 6, 7, 8, 9]


def test_vectors_of_several_files_share_one(tmp_path):
    subject = Subject(tmp_path, properties=VECTORS, partition_by=["p"])
    changes = apply_row_changes(
        subject.engine, subject.state, [change(f, 0, 2) for f in subject.files]
    )
    stored = [stored_vector(a.deletion_vector) for a in changes.with_deletion_vectors]
    assert len({s.path for s in stored}) == 1
    assert stored[1].offset == 1 + stored[0].length
    assert [f"{tmp_path}/{stored[0].path}"] == changes.vector_files
    subject.commit(changes)
    assert subject.ids() == [2, 3, 6, 7, 8, 9]


def test_a_file_without_rows_left_is_removed(tmp_path):
    subject = Subject(tmp_path, properties=VECTORS)
    first = apply_row_changes(subject.engine, subject.state, [change(subject.files[0], *range(6))])
    subject.commit(first)
    rest = apply_row_changes(
        subject.engine, subject.state, [change(subject.files[0], *range(4, 10))]
    )
    assert (rest.with_deletion_vectors, rest.vector_files, rest.num_deleted_rows) == ([], [], 4)
    assert (rest.num_removed_files, rest.num_vectors_removed) == (1, 1)
    assert subject.commit(rest) == []


def test_what_is_gone_already_changes_nothing(tmp_path):
    subject = Subject(tmp_path, properties=VECTORS)
    subject.commit(apply_row_changes(subject.engine, subject.state, [change(subject.files[0], 2)]))
    none = apply_row_changes(
        subject.engine,
        subject.state,
        [change(subject.files[0], 2), change(subject.files[0])],
    )
    assert none.actions == []


@pytest.mark.parametrize("partition_by", [None, ["p"]])
def test_a_rewrite_copies_the_rows_that_are_left(tmp_path, partition_by):
    subject = Subject(tmp_path, properties=FEED, partition_by=partition_by)
    changes = apply_row_changes(
        subject.engine, subject.state, [change(f, 0, 1, rewrite=True) for f in subject.files]
    )
    assert changes.num_copied_rows == 10 - 2 * len(subject.files)
    assert all(f.path.startswith("_change_data/") for f in changes.change_files)
    assert "/cdc-" in changes.change_files[0].path
    gone = [0, 1, 2, 3] if partition_by else [0, 1]
    subject.commit(changes)
    assert subject.ids() == [i for i in range(10) if i not in gone]
    told = bayou.table(subject.path).changes(1).to_arrow().sort_by("id")
    assert told["id"].to_pylist() == gone
    assert told["p"].to_pylist() == [["a", "b"][i % 2] for i in gone]
    assert set(told["_change_type"].to_pylist()) == {"delete"}


def test_new_versions_and_new_rows_are_told_beside_deleted_ones(tmp_path):
    subject = Subject(tmp_path, properties=FEED | VECTORS)

    def new_versions(_, batch):
        assert batch.column("_metadata.row_index").to_pylist() == [4, 5]
        for number in (0, 1):
            yield pa.record_batch({"id": [14 + number], "p": batch.column("p").slice(number, 1)})

    changes = apply_row_changes(
        subject.engine,
        subject.state,
        [change(subject.files[0], 1, updated=[4, 5])],
        new_versions=new_versions,
        inserted=[pa.record_batch({"ID": [20]})],
    )
    assert (changes.num_deleted_rows, changes.num_updated_rows) == (1, 2)
    assert changes.num_inserted_rows == 1
    subject.commit(changes)
    assert subject.ids() == [0, 2, 3, 6, 7, 8, 9, 14, 15, 20]
    told = bayou.table(subject.path).changes(1).to_arrow()
    assert sorted(zip(told["_change_type"].to_pylist(), told["id"].to_pylist(), strict=True)) == [
        ("delete", 1),
        ("insert", 20),
        ("update_postimage", 14),
        ("update_postimage", 15),
        ("update_preimage", 4),
        ("update_preimage", 5),
    ]


def test_updated_rows_may_come_from_elsewhere(tmp_path):
    subject = Subject(tmp_path, properties=VECTORS)
    asked = []

    def updated_rows(change):
        asked.append(change.file.path)
        return [pa.record_batch({"id": [44], "p": ["x"]})]

    changes = apply_row_changes(
        subject.engine,
        subject.state,
        [change(subject.files[0], updated=[4])],
        updated_rows=updated_rows,
        inserted=[pa.record_batch({"id": [50], "p": ["y"]})],
    )
    assert asked == [subject.files[0].path]
    assert (changes.num_updated_rows, changes.num_inserted_rows) == (1, 1)
    subject.commit(changes)
    assert subject.ids() == [0, 1, 2, 3, 5, 6, 7, 8, 9, 44, 50]


def test_copied_rows_keep_ids_and_versions_in_columns_of_their_own(tmp_path):
    subject = Subject(tmp_path, properties=TRACKED)
    subject.commit(
        apply_row_changes(
            subject.engine, subject.state, [change(subject.files[0], 0, rewrite=True)]
        )
    )
    columns = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    found = bayou.table(subject.path).to_arrow(columns).to_pylist()
    assert [tuple(row.values()) for row in found] == [(i, i, 0) for i in range(1, 10)]
    names = pq.read_schema(f"{tmp_path}/{subject.files[0].path}").names
    assert [n.partition("-col-")[0] for n in names] == ["id", "p", "_row-id", "_row-commit-version"]


def test_a_table_that_tracks_rows_without_a_column_for_versions_is_refused(engine, table_path, log):
    log.commit(
        protocol(1, 7, ([], ["rowTracking", "domainMetadata"])),
        metadata(
            {"id": "long"},
            (),
            TRACKED | {"delta.rowTracking.materializedRowIdColumnName": "_row-id"},
        ),
    )
    subject = Subject(table_path, rows=None, engine=engine)
    with pytest.raises(CorruptTableError, match="aren't set"):
        apply_row_changes(engine, subject.state, [])


def test_rows_that_only_move_change_no_data(tmp_path):
    subject = Subject(tmp_path, properties=FEED | VECTORS)
    subject.commit(apply_row_changes(subject.engine, subject.state, [change(subject.files[0], 5)]))
    moved = apply_row_changes(
        subject.engine, subject.state, [change(subject.files[0], rewrite=True)], data_change=False
    )
    assert [a.data_change for a in (*moved.added, *moved.removed)] == [False, False]
    assert (moved.change_files, moved.num_copied_rows, moved.num_vectors_removed) == ([], 9, 1)
    subject.commit(moved)
    assert subject.ids() == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_numbers_of_rows_come_from_the_footer_where_the_log_has_none(tmp_path):
    subject = Subject(tmp_path, properties=VECTORS | {"delta.dataSkippingNumIndexedCols": "0"})
    (file,) = subject.files
    bare = ScanFile(table_root=file.table_root, add=msgspec.structs.replace(file.add, stats=None))
    changes = apply_row_changes(subject.engine, subject.state, [change(bare, 1)])
    assert json.loads(changes.with_deletion_vectors[0].stats) == {
        "numRecords": 10,
        "tightBounds": False,
    }


def test_a_position_beyond_the_file_and_a_mark_without_the_property_are_refused(tmp_path):
    subject = Subject(tmp_path / "one", properties=VECTORS)
    with pytest.raises(ArgumentError, match="has 10 rows, so there is no row 10"):
        apply_row_changes(subject.engine, subject.state, [change(subject.files[0], 10)])
    subject = Subject(tmp_path / "two")
    with pytest.raises(ArgumentError, match="must be rewritten"):
        apply_row_changes(subject.engine, subject.state, [change(subject.files[0], 1)])


@pytest.mark.parametrize("rewrite", [True, False])
@pytest.mark.parametrize(
    "fault",
    [
        Fault(operation="put", path="deletion_vector"),
        Fault(operation="put", path="deletion_vector", after=True),
        Fault(operation="write_parquet_files", path="_change_data"),
        Fault(operation="write_parquet_files", path="p=a"),
        Fault(operation="write_parquet_files", path="p=b"),
        Fault(operation="read_parquet_files", path="p=b"),
    ],
    ids=str,
)
def test_a_failure_leaves_nothing_behind(tmp_path, fault, rewrite):
    subject = Subject(tmp_path, properties=FEED | VECTORS, partition_by=["p"])
    known = left_over(tmp_path)
    engine = FaultInjectingEngine(subject.engine, fault)

    def new_versions(_, batch):
        return [batch.select(["id", "p"])]

    try:
        apply_row_changes(
            engine,
            subject.state,
            [change(f, 1, updated=[2], rewrite=rewrite) for f in subject.files],
            new_versions=new_versions,
        )
    except (StorageError, DataFileError):
        assert left_over(tmp_path, *known) == []
    else:
        assert fault.times == 1  # it wasn't met: no vector is written by a rewrite
    fault.times = 1


def test_rows_that_break_a_rule_leave_nothing_behind(tmp_path):
    subject = Subject(tmp_path, properties=VECTORS | {"delta.constraints.small": "id < 100"})
    known = left_over(tmp_path)
    with pytest.raises(ConstraintViolationError, match="small"):
        apply_row_changes(
            subject.engine,
            subject.state,
            [change(subject.files[0], 1)],
            inserted=[pa.record_batch({"id": [5]}), pa.record_batch({"id": [100]})],
        )
    assert left_over(tmp_path, *known) == []


def test_state_and_changes_travel_as_bytes(tmp_path):
    subject = Subject(tmp_path, properties=VECTORS | TRACKED | FEED, partition_by=["p"])
    state = RowChangeState.from_bytes(subject.state.to_bytes())
    assert (state.deletion_vectors, state.row_tracking, state.change_data_feed) == (
        True,
        True,
        True,
    )
    assert state.metadata_columns == subject.state.metadata_columns
    sent = [change(f, 1, updated=[3], rewrite=True) for f in subject.files]
    arrived = [FileChange.from_bytes(c.to_bytes()) for c in sent]
    assert arrived == sent
    changes = apply_row_changes(
        subject.engine, state, arrived, new_versions=lambda _, rows: [rows.select(["id", "p"])]
    )
    subject.commit(changes)
    assert subject.ids() == [0, 1, 4, 5, 6, 7, 8, 9]
