"""From rows of data files to rows of the table."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.errors import CorruptTableError, DataFileError, SerializationError
from bayou.kernel import Scan, ScanFile, ScanState, Snapshot, read_scan_file
from bayou.protocol.schema import StructType
from support.log_writer import LogWriter, WireAction, add, metadata, protocol
from support.vectors import inline_vector

COLUMNS = {
    "day": "date",
    "id": "long",
    "later": {"type": "array", "elementType": "string", "containsNull": True},
    "nothing": "void",
    "price": "decimal(10,2)",
}


@pytest.fixture
def log(tmp_path) -> LogWriter:
    return LogWriter(ArrowEngine(), str(tmp_path / "table"))


def write_file(log: LogWriter, name: str, table: pa.Table, **fields) -> WireAction:
    """A data file, its name as it is on the disk, and the action for it."""
    pq.write_table(table, f"{log.table}/{name}")
    return add(fields.pop("path", name), **fields)


def read(log: LogWriter, names: list[str] | None = None, metadata_columns=()) -> pa.Table:
    snapshot = Snapshot.load(log.engine, log.table)
    schema = snapshot.schema if names is None else snapshot.schema.select(names)
    scan = (
        snapshot.scan_builder()
        .with_read_schema(schema)
        .with_metadata_columns(metadata_columns)
        .build()
    )
    state = ScanState.from_bytes(scan.scan_state(log.engine).to_bytes())
    batches = [
        batch
        for files in scan.scan_files(log.engine)
        for file in files.rows()
        for batch in read_scan_file(log.engine, state, file)
    ]
    return pa.Table.from_batches(batches, state.logical_arrow_schema)


def test_partition_columns_missing_columns_and_order_are_those_of_the_table(log):
    data = pa.table({"extra": [1, 2], "price": pa.array([None, 5], pa.decimal128(10, 2))})
    data = data.append_column("id", pa.array([7, 8], pa.int64()))
    log.commit(
        protocol(),
        metadata(COLUMNS, ["day"]),
        write_file(log, "a.parquet", data, partition_values={"day": "2024-02-29"}),
    )
    day = dt.date(2024, 2, 29)
    assert read(log).to_pylist() == [
        {"day": day, "id": 7, "later": None, "nothing": None, "price": None},
        {"day": day, "id": 8, "later": None, "nothing": None, "price": Decimal(5)},
    ]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "a b", "a b"),
        ("string", "", None),
        ("string", None, None),
        ("integer", "-7", -7),
        ("integer", "", None),
        ("byte", "127", 127),
        ("double", "1.5E10", 1.5e10),
        ("boolean", "true", True),
        ("decimal(10,2)", "1.5", Decimal("1.50")),
        ("date", "0001-01-01", dt.date(1, 1, 1)),
        ("timestamp", "2024-01-01 00:00:00", dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
        ("timestamp", "2024-01-01T02:00:00+02:00", dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
        ("timestamp_ntz", "2024-01-01 00:00:00.5Z", dt.datetime(2024, 1, 1, 0, 0, 0, 500000)),
        ("binary", "ü", "ü".encode()),
    ],
)
def test_a_partition_value_has_its_columns_type(log, kind, text, value):
    file = write_file(log, "a.parquet", pa.table({"id": [1]}), partition_values={"p": text})
    log.commit(protocol(), metadata({"p": kind, "id": "long"}, ["p"]), file)
    assert read(log).to_pylist() == [{"p": value, "id": 1}]


def test_a_partition_value_that_the_log_leaves_out_is_null(log):
    file = write_file(log, "a.parquet", pa.table({"id": [1]}))
    log.commit(protocol(), metadata({"p": "date", "id": "long"}, ["p"]), file)
    assert read(log).to_pylist() == [{"p": None, "id": 1}]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", "yesterday"),
        ("integer", "3000000000"),
        ("boolean", "maybe"),
        ("decimal(4,2)", "123.45"),
        ("timestamp", "24:00"),
    ],
)
def test_a_partition_value_that_is_not_of_its_type_is_named_with_its_file(log, kind, text):
    file = write_file(log, "a.parquet", pa.table({"id": [1]}), partition_values={"p": text})
    log.commit(protocol(), metadata({"p": kind, "id": "long"}, ["p"]), file)
    with pytest.raises(CorruptTableError, match=f"{text}.*partition column 'p'") as caught:
        read(log)
    assert caught.value.file == "a.parquet"


def test_a_column_of_the_file_with_a_partition_columns_name_does_not_count(log):
    data = pa.table({"p": ["from the file"], "id": [1]})
    file = write_file(log, "a.parquet", data, partition_values={"p": "from the log"})
    log.commit(protocol(), metadata({"p": "string", "id": "long"}, ["p"]), file)
    assert read(log).to_pylist() == [{"p": "from the log", "id": 1}]


def test_files_are_opened_under_their_decoded_names(log):
    table = pa.table({"id": [1]})
    log.commit(
        protocol(),
        metadata({"id": "long"}),
        write_file(log, "a b.parquet", table, path="a%20b.parquet"),
        write_file(log, "a%20b.parquet", table, path="a%2520b.parquet"),
        write_file(log, "x#1?.parquet", table, path="x%231%3F.parquet"),
    )
    assert read(log).num_rows == 3


def test_partition_columns_alone_come_once_for_each_row_of_the_file(log):
    data = pa.table({"id": list(range(1000))})
    file = write_file(log, "a.parquet", data, partition_values={"p": "x"})
    log.commit(protocol(), metadata({"p": "string", "id": "long"}, ["p"]), file)
    assert read(log, ["p"]).column("p").to_pylist() == ["x"] * 1000


def test_no_column_at_all_still_counts_rows(log):
    file = write_file(log, "a.parquet", pa.table({"id": [1, 2, 3]}))
    log.commit(protocol(), metadata({"id": "long"}), file)
    scan = Snapshot.load(log.engine, log.table).scan_builder().with_read_schema(StructType())
    state = scan.build().scan_state(log.engine)
    (files,) = scan.build().scan_files(log.engine)
    (file,) = files.rows()
    assert [b.num_rows for b in read_scan_file(log.engine, state, file)] == [3]


def test_rows_tell_where_they_are_from(log):
    table = pa.table({"id": [5, 6, 7]})
    log.commit(
        protocol(),
        metadata({"id": "long"}),
        write_file(log, "a b.parquet", table, path="a%20b.parquet"),
    )
    found = read(log, ["id"], ["_metadata.file_path", "_metadata.row_index"])
    assert found.column("_metadata.row_index").to_pylist() == [0, 1, 2]
    assert set(found.column("_metadata.file_path").to_pylist()) == {f"{log.table}/a b.parquet"}


def test_rows_tell_the_name_size_and_time_of_their_file(log):
    data = pa.table({"id": [5, 6]})
    action = write_file(log, "a b.parquet", data, path="a%20b.parquet", size=7)
    action["add"]["modificationTime"] = 1_700_000_000_123
    log.commit(protocol(), metadata({"id": "long"}), action)
    names = ["file_name", "file_size", "file_modification_time"]
    found = read(log, [], [f"_metadata.{name}" for name in names])
    time = dt.datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=dt.UTC)
    assert [list(row.values()) for row in found.to_pylist()] == [["a b.parquet", 7, time]] * 2


ROW_TRACKING = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-1",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version-1",
}


def test_a_stored_row_id_counts_else_it_is_base_row_id_plus_the_rows_index(log):
    stored = pa.table({"id": [1, 2], "_row-id-1": [70, None], "_row-version-1": [None, 3]})
    log.commit(
        protocol(1, 7, ([], ["rowTracking", "domainMetadata"])),
        metadata({"id": "long"}, (), ROW_TRACKING),
        write_file(log, "a", pa.table({"id": [1, 2]}), baseRowId=10, defaultRowCommitVersion=4),
        write_file(log, "b", stored, baseRowId=20, defaultRowCommitVersion=5),
    )
    found = read(log, ["id"], ["_metadata.row_id", "_metadata.row_commit_version"])
    assert sorted(
        found.drop_columns("id").to_pylist(), key=lambda row: row["_metadata.row_id"]
    ) == [
        {"_metadata.row_id": row_id, "_metadata.row_commit_version": version}
        for row_id, version in ((10, 4), (11, 4), (21, 3), (70, 5))
    ]


def test_a_file_without_row_ids_in_a_table_that_has_them_is_named(log):
    log.commit(
        protocol(1, 7, ([], ["rowTracking", "domainMetadata"])),
        metadata({"id": "long"}, (), ROW_TRACKING),
        write_file(log, "a", pa.table({"id": [1, 2]})),
    )
    with pytest.raises(CorruptTableError, match="baseRowId") as caught:
        read(log, ["id"], ["_metadata.row_id"])
    assert caught.value.file == "a"


def test_a_missing_data_file_is_named(log):
    log.commit(protocol(), metadata({"id": "long"}), add("gone%20away.parquet"))
    with pytest.raises(DataFileError, match="is missing, although the log references it") as caught:
        read(log)
    assert caught.value.file == f"{log.table}/gone away.parquet"
    assert caught.value.table == log.table


def test_a_data_file_that_is_not_parquet_is_named(log):
    log.commit(protocol(), metadata({"id": "long"}), add("a.parquet"))
    log.engine.files.put(f"{log.table}/a.parquet", b"not parquet at all")
    with pytest.raises(DataFileError, match="can't be read") as caught:
        read(log)
    assert caught.value.file == f"{log.table}/a.parquet"


def test_row_groups_can_be_read_apart(log):
    pq.write_table(pa.table({"id": list(range(10))}), f"{log.table}/a", row_group_size=4)
    log.commit(protocol(), metadata({"id": "long"}), add("a"))
    scan = (
        Snapshot.load(log.engine, log.table)
        .scan_builder()
        .with_metadata_columns(["_metadata.row_index"])
        .build()
    )
    state = scan.scan_state(log.engine)
    file = ScanFile(table_root=log.table, add=next(iter(_files(log, scan))).add)
    rows = list(read_scan_file(log.engine, state, file, 1, 3))
    found = pa.Table.from_batches(rows)
    assert found.column("id").to_pylist() == list(range(4, 10))
    assert found.column("_metadata.row_index").to_pylist() == list(range(4, 10))


def _files(log: LogWriter, scan: Scan) -> list[ScanFile]:
    return [f for batch in scan.scan_files(log.engine) for f in batch.rows()]


def test_bytes_that_are_no_scan_state_are_refused():
    with pytest.raises(SerializationError, match="aren't a scan state"):
        ScanState.from_bytes(b"nonsense")


def test_a_deletion_vector_in_a_table_without_the_feature_is_an_error(log):
    file = write_file(log, "f", pa.table({"id": [1, 2, 3]}), vector=inline_vector([1]))
    log.commit(protocol(), metadata({"id": "long"}), file)
    with pytest.raises(CorruptTableError, match="doesn't list the feature deletionVectors"):
        read(log)
