"""Deleted rows of data files, wherever their vectors are."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.errors import CorruptTableError, DataFileError
from bayou.kernel import Snapshot, read_scan_file
from bayou.kernel.deletion_vectors.read import load, selection_vector
from bayou.protocol.actions import DeletionVectorDescriptor
from bayou.protocol.deletion_vectors import z85_encode
from support.examples import examples
from support.log_writer import LogWriter, add, metadata, protocol
from support.vectors import inline_vector, vector_bytes, write_vectors

FEATURES = (["deletionVectors"], ["deletionVectors"])


@pytest.fixture
def log(tmp_path) -> LogWriter:
    return LogWriter(ArrowEngine(), str(tmp_path / "a table"))


def commit_file(log, vector, rows=10, *, configuration=None, features=FEATURES, **fields):
    """One file of ids 0, 1, ... in row groups of 4, with a deletion vector."""
    pq.write_table(pa.table({"id": list(range(rows))}), f"{log.table}/f", row_group_size=4)
    fields.setdefault("stats", {"numRecords": rows})
    log.commit(
        protocol(3, 7, features),
        metadata({"id": "long"}, (), configuration),
        add("f", vector=vector, **fields),
    )


def ids(log, filter=None):
    return sorted(bayou.table(log.table).to_arrow(filter=filter).column("id").to_pylist())


def by_storage_type(log, rows):
    yield inline_vector(rows)
    yield write_vectors(log.engine, log.table, [9], rows)[1]
    yield write_vectors(log.engine, log.table, [9], rows, prefix="ab")[1]
    yield write_vectors(log.engine, log.table, rows, absolute=True)[0]
    without_offset = dict(write_vectors(log.engine, log.table, rows)[0])
    del without_offset["offset"]
    yield without_offset


@pytest.mark.parametrize("number", range(5))
def test_deleted_rows_are_not_read(log, number):
    vector = list(by_storage_type(log, [0, 3, 4, 9]))[number]
    commit_file(log, vector)
    assert ids(log) == [1, 2, 5, 6, 7, 8]


def test_num_records_of_a_file_stays_the_log_s(log):
    commit_file(log, inline_vector([0, 3]))
    assert bayou.table(log.table).snapshot().files().column("num_records").to_pylist() == [10]


def test_a_file_whose_rows_are_all_deleted_has_none(log):
    commit_file(log, inline_vector(range(10)))
    assert ids(log) == []


def test_positions_behind_the_end_of_the_file_do_no_harm(log):
    commit_file(log, inline_vector([1, 10, 1 << 40]))
    assert ids(log) == [0, 2, 3, 4, 5, 6, 7, 8, 9]


def test_row_groups_left_out_do_not_move_deleted_rows(log):
    commit_file(log, inline_vector([0, 8]))
    assert ids(log, "id >= 8") == [9]
    assert ids(log, "id in (4, 9)") == [4, 9]


TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_version",
}


def test_row_indices_and_row_ids_are_positions_in_the_whole_file(log):
    names = ["deletionVectors", "rowTracking", "domainMetadata"]
    commit_file(
        log,
        inline_vector([0, 5]),
        features=(FEATURES[0], names),
        configuration=TRACKED,
        baseRowId=100,
        defaultRowCommitVersion=3,
    )
    found = bayou.table(log.table).to_arrow(
        columns=["id", "_metadata.row_index", "_metadata.row_id"], filter="id > 3"
    )
    assert found.column("id").to_pylist() == [4, 6, 7, 8, 9]
    assert found.column("_metadata.row_index").to_pylist() == [4, 6, 7, 8, 9]
    assert found.column("_metadata.row_id").to_pylist() == [104, 106, 107, 108, 109]


@settings(max_examples=examples(40))
@given(
    deleted=st.sets(st.integers(0, 220)),
    rows=st.integers(1, 200),
    group=st.integers(1, 80),
    splits=st.integers(1, 4),
    bound=st.none() | st.integers(0, 200),
)
def test_splits_by_row_group_give_the_rows_of_the_whole_file(
    tmp_path_factory, deleted, rows, group, splits, bound
):
    log = LogWriter(ArrowEngine(), str(tmp_path_factory.mktemp("table")))
    pq.write_table(pa.table({"id": list(range(rows))}), f"{log.table}/f", row_group_size=group)
    file = add("f", vector=inline_vector(sorted(deleted)), stats={"numRecords": rows})
    log.commit(protocol(3, 7, FEATURES), metadata({"id": "long"}), file)
    builder = Snapshot.load(log.engine, log.table).scan_builder()
    scan = (
        builder.with_filter(None if bound is None else f"id >= {bound}")
        .with_metadata_columns(["_metadata.row_index"])
        .build()
    )
    state = scan.scan_state(log.engine)
    (file,) = scan.scan_files(log.engine).flat_map(lambda batch: batch.rows())
    whole = pa.Table.from_batches(
        read_scan_file(log.engine, state, file), state.logical_arrow_schema
    )
    groups = -(-rows // group)
    ends = sorted({0, groups, *(groups * i // splits for i in range(splits))})
    parts = [
        batch
        for first, end in itertools.pairwise(ends)
        for batch in read_scan_file(log.engine, state, file, first, end)
    ]
    together = pa.Table.from_batches(parts, state.logical_arrow_schema)
    assert together.to_pylist() == whole.to_pylist()
    assert whole.column("id").to_pylist() == whole.column("_metadata.row_index").to_pylist()
    expected = [i for i in range(rows) if i not in deleted]
    if bound is not None:
        expected = [i for i in expected if i >= bound]
        assert [i for i in whole.column("id").to_pylist() if i >= bound] == expected
    else:
        assert whole.column("id").to_pylist() == expected


@given(
    st.sets(st.integers(0, 200)),
    st.sets(st.integers(0, 200), min_size=1).map(sorted),
)
def test_a_batch_with_gaps_is_selected_by_its_row_indices(deleted, indices):
    kept = selection_vector(BitMap64(deleted), pa.array(indices, pa.int64()))
    expected = [i not in deleted for i in indices]
    assert (kept.to_pylist() if kept is not None else [True] * len(indices)) == expected


def load_wire(log, vector):
    return load(
        log.engine,
        log.table,
        DeletionVectorDescriptor(
            storage_type=vector["storageType"],
            path_or_inline_dv=vector["pathOrInlineDv"],
            offset=vector.get("offset"),
            size_in_bytes=vector["sizeInBytes"],
            cardinality=vector["cardinality"],
        ),
    )


def vector_path(log):
    (found,) = [
        f.path for f in log.engine.files.list_from(f"{log.table}/d") if f.path.endswith(".bin")
    ]
    return found


def test_a_missing_vector_file_is_named(log):
    (vector,) = write_vectors(log.engine, log.table, [1])
    path = vector_path(log)
    log.engine.files.delete_files([path])
    commit_file(log, vector)
    with pytest.raises(DataFileError, match="deletion vector file .* is missing") as caught:
        ids(log)
    assert caught.value.file == path


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:7] + bytes([data[7] ^ 1]) + data[8:], "checksum"),
        (lambda data: data[:-1], "the file ends after"),
        (lambda data: data[:1] + b"\x00\x00\x00\x01" + data[5:], "the size is 1 bytes in the file"),
        (lambda data: b"", "the file ends after 0"),
    ],
)
def test_a_damaged_vector_file_is_named(log, damage, message):
    (vector,) = write_vectors(log.engine, log.table, [1, 2, 7])
    path = vector_path(log)
    data = Path(path).read_bytes()
    log.engine.files.put(path, damage(data))
    with pytest.raises(DataFileError, match=message) as caught:
        load_wire(log, vector)
    assert caught.value.file == path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pathOrInlineDv": "!"}, "not a multiple of 5"),
        ({"sizeInBytes": 3}, "the log says 3"),
        ({"cardinality": 4}, "deletes 3 rows, but the cardinality in the log is 4"),
    ],
)
def test_a_wrong_vector_in_the_log_is_refused(log, change, message):
    vector = {**inline_vector([1, 2, 7]), **change}
    with pytest.raises(CorruptTableError, match=message) as caught:
        load_wire(log, vector)
    assert caught.value.table == log.table


@pytest.mark.parametrize(
    ("change", "message"),
    [({"storageType": "x"}, "unknown storage type"), ({"pathOrInlineDv": "short"}, "has no UUID")],
)
def test_a_vector_that_cannot_be_found_is_refused(log, change, message):
    (vector,) = write_vectors(log.engine, log.table, [1])
    with pytest.raises(CorruptTableError, match=message):
        load_wire(log, {**vector, **change})


def test_another_cardinality_than_the_log_s_names_the_file(log):
    (vector,) = write_vectors(log.engine, log.table, [1, 2])
    with pytest.raises(
        DataFileError, match="deletes 2 rows, but the cardinality in the log is 5"
    ) as caught:
        load_wire(log, {**vector, "cardinality": 5})
    assert caught.value.file == vector_path(log)


@settings(max_examples=examples(200))
@given(
    st.sets(st.integers(0, 300), min_size=1),
    st.lists(st.tuples(st.integers(0, 1 << 10), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_changed_bytes_of_an_inline_vector_are_read_or_refused(rows, changes):
    log = LogWriter(MemoryEngine(), "memory:///t")
    data = bytearray(vector_bytes(rows))
    for position, value in changes:
        data[position % len(data)] = value
    vector = {**inline_vector(sorted(rows)), "pathOrInlineDv": z85_encode(bytes(data))}
    with contextlib.suppress(CorruptTableError):
        assert len(load_wire(log, vector)) == len(rows)
