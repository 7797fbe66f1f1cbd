"""`bayou.table`: rows, files, versions, history."""

from __future__ import annotations

import datetime as dt
import json
import os

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import (
    ArgumentError,
    DataFileError,
    PredicateError,
    SchemaError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from bayou.kernel import RatifiedCommit, RatifiedCommits, col

DAYS = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]


def rows(start: int) -> pa.Table:
    return pa.table(
        {
            "day": pa.array(DAYS * 2),
            "id": pa.array(range(start, start + 4), pa.int64()),
            "a.b": pa.array(["x", None, "y", "z"]),
        }
    )


@pytest.fixture
def table(path: str):
    for start in (0, 10, 20):
        bayou.write(path, rows(start), partition_by=["day"])
    return bayou.table(path)


def ids(found: pa.Table) -> list[int]:
    return sorted(found.column("id").to_pylist())


def test_all_rows_come_with_the_tables_schema(table):
    found = table.to_arrow()
    assert ids(found) == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
    assert found.schema == table.snapshot().arrow_schema
    assert found.schema.names == ["day", "id", "a.b"]


def test_columns_are_names_as_they_stand_in_the_order_wanted(table):
    found = table.to_arrow(columns=["a.b", "id"], filter="id < 4")
    assert found.schema.names == ["a.b", "id"]
    assert sorted(found.to_pylist(), key=lambda row: row["id"]) == [
        {"a.b": value, "id": n} for n, value in enumerate(["x", None, "y", "z"])
    ]


def test_an_unknown_column_names_those_there_are(table):
    with pytest.raises(SchemaError, match=r"Did you mean 'id'\? The columns are day, id") as caught:
        table.to_arrow(columns=["ID"])
    assert caught.value.column == "ID"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("day = '2024-01-01' AND id > 10", [12, 20, 22]),
        ("id >= 12 AND id < 21", [12, 13, 20]),
        ("day = '2024-01-02'", [1, 3, 11, 13, 21, 23]),
        ("`a.b` IS NULL", [1, 11, 21]),
        ("NOT (`a.b` = 'x') AND id < 10", [2, 3]),
        ("id = 5", []),
        (col("a.b").is_in("y", "z") & (col("id") > 20), [22, 23]),
    ],
)
def test_a_filter_gives_the_rows_for_which_it_is_true(table, text, expected):
    assert ids(table.to_arrow(filter=text)) == expected
    assert ids(table.to_arrow(columns=["id"], filter=text)) == expected


def test_one_name_instead_of_a_list_of_columns_is_refused(table):
    with pytest.raises(ArgumentError, match=r"Give a list of names, \['id'\]"):
        table.to_arrow(columns="id")


def test_a_filter_that_makes_no_sense_is_refused(table):
    with pytest.raises(PredicateError, match="idd"):
        table.to_arrow(filter="idd = 1")


def test_batches_come_one_by_one_as_a_reader(table):
    reader = table.to_batches(columns=["id"])
    assert isinstance(reader, pa.RecordBatchReader)
    assert sum(batch.num_rows for batch in reader) == 12
    assert sum(batch.num_rows for batch in table.snapshot()) == 12


def test_rows_tell_their_file_and_place(table):
    found = table.to_arrow(columns=["_metadata.row_index", "id", "_metadata.file_path"])
    assert found.schema.names == ["_metadata.row_index", "id", "_metadata.file_path"]
    assert sorted(found.column("_metadata.row_index").to_pylist()) == [0] * 6 + [1] * 6
    assert len(set(found.column("_metadata.file_path").to_pylist())) == 6


def test_row_ids_of_a_table_without_them_are_refused_by_name(table):
    with pytest.raises(UnsupportedFeatureError, match=r"_metadata\.row_id"):
        table.to_arrow(columns=["_metadata.row_id"])


def test_a_version_is_read_by_its_number(table):
    assert len(ids(table.to_arrow(version=0))) == 4
    assert table.snapshot(version=1).version == 1
    with pytest.raises(
        VersionNotFoundError, match="version 3 doesn.t exist; the latest version is 2"
    ):
        table.to_arrow(version=3)


@pytest.mark.parametrize("version", [-1, True, "1", 1.0])
def test_what_is_no_version_is_refused(table, version):
    with pytest.raises(ArgumentError, match="isn't a table version"):
        table.snapshot(version=version)


def test_version_and_timestamp_together_are_refused(table):
    with pytest.raises(ArgumentError, match="both set"):
        table.snapshot(version=0, timestamp=0)


def test_a_snapshot_says_what_the_table_is(table):
    found = table.snapshot()
    assert found.version == 2
    assert found.schema.names == ("day", "id", "a.b")
    assert found.partition_columns == ("day",)
    assert found.properties == {}
    assert found.transactions == {}
    assert found.protocol.min_reader_version == 1
    assert found.kernel.version == 2
    assert abs(found.timestamp / 1000 - dt.datetime.now(dt.UTC).timestamp()) < 60


def test_files_are_told_as_the_log_has_them(table, path):
    found = table.snapshot().files()
    assert found.schema.names[:5] == [
        "path",
        "size",
        "modification_time",
        "partition_values",
        "num_records",
    ]
    assert found.num_rows == 6
    assert set(found.column("num_records").to_pylist()) == {2}
    values = found.column("partition_values").to_pylist(maps_as_pydicts="strict")
    assert {v["day"] for v in values} == {"2024-01-01", "2024-01-02"}
    assert all(p.startswith("day=2024-01-0") for p in found.column("path").to_pylist())


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("day = '2024-01-01'", 3),
        ("id >= 20", 2),
        ("id >= 20 AND day > '2024-01-01'", 1),
        ("id = 99", 0),
    ],
)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_files_are_pruned_by_partition_and_by_statistics(table, path, text, count, checkpoint):
    if checkpoint:
        for _ in range(8):
            bayou.write(path, rows(-100).slice(0, 1))
        assert table.snapshot().kernel.log_segment.checkpoint is not None
    found = table.snapshot().files(filter=f"({text}) AND id >= 0")
    assert found.num_rows == count


def test_history_is_newest_first(table):
    newest, *_ = table.history(limit=2)
    assert (newest["version"], newest["operation"]) == (2, "WRITE")
    assert newest["operationParameters"]["mode"] == "Append"
    assert len(table.history(limit=2)) == 2
    assert len(table.history()) == 3


@pytest.mark.parametrize("limit", [-1, "x", 1.5, True])
def test_a_history_of_no_number_is_refused(table, limit):
    with pytest.raises(ArgumentError, match="limit"):
        table.history(limit)


def test_a_path_without_a_table_says_so(path):
    table = bayou.table(path)
    assert not table.exists()
    assert repr(table).startswith(f"bayou.table({path!r})")
    with pytest.raises(TableNotFoundError, match="Check the path"):
        table.to_arrow()


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


@pytest.fixture
def dated(tmp_path):
    """Versions 0, 1 and 2 at midnight of January 1, 2 and 3, UTC."""
    for start in (0, 10, 20):
        bayou.write(str(tmp_path), rows(start))
        version = start // 10
        moment = at(f"2024-01-0{version + 1}T00:00:00+00:00").timestamp()
        os.utime(tmp_path / "_delta_log" / f"{version:020d}.json", (moment, moment))
    return bayou.table(str(tmp_path))


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [
        ("2024-01-01", 0),
        ("2024-01-01T23:59:59.999", 0),
        ("2024-01-02 00:00:00", 1),
        ("2024-01-02T01:00:00+02:00", 0),
        ("2024-01-03T00:00:00Z", 2),
        (at("2024-01-02T12:00:00"), 1),
        (at("2024-01-02T12:00:00+00:00"), 1),
        (1704153600000, 1),
        (1704153599999, 0),
    ],
)
def test_a_time_names_the_version_of_its_moment(dated, timestamp, version):
    assert dated.snapshot(timestamp=timestamp).version == version
    assert len(ids(dated.to_arrow(timestamp=timestamp))) == 4 * (version + 1)


@pytest.mark.parametrize("timestamp", ["2023-12-31", "2024-01-03T00:00:01", 10**17])
def test_a_time_outside_of_the_tables_life_is_an_error(dated, timestamp):
    with pytest.raises(VersionNotFoundError):
        dated.snapshot(timestamp=timestamp)


@pytest.mark.parametrize("timestamp", ["yesterday", "", True, 1.5, None.__class__])
def test_what_is_no_time_is_refused(dated, timestamp):
    with pytest.raises(ArgumentError, match="isn't a timestamp"):
        dated.snapshot(timestamp=timestamp)


def test_a_data_file_that_is_gone_is_named(tmp_path):
    path = str(tmp_path / "table")
    bayou.write(path, rows(0))
    (name,) = bayou.table(path).snapshot().files().column("path").to_pylist()
    os.unlink(f"{path}/{name}")
    with pytest.raises(DataFileError, match="is missing") as caught:
        bayou.table(path).to_arrow()
    assert caught.value.file == f"{path}/{name}"


def test_no_columns_still_count_rows(table):
    assert sum(batch.num_rows for batch in table.to_batches(columns=[])) == 12


def test_a_table_is_reached_by_the_engine_that_is_given(tmp_path):
    class Reports:
        def __init__(self):
            self.seen = []

        def report(self, report):
            self.seen.append(type(report).__name__)

    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": [1]}))
    reports = Reports()
    table = bayou.table(path, engine=ArrowEngine(metrics_reporter=reports))
    assert table.to_arrow().num_rows == 1
    assert sorted(reports.seen) == ["FileReadReport", "ScanReport", "SnapshotReport"]
    with pytest.raises(ArgumentError, match="engine"):
        bayou.table(path, {"AWS_REGION": "r"}, engine=ArrowEngine())


def test_a_table_that_a_catalog_manages_is_read_with_it(tmp_path):
    path = tmp_path / "t"
    bayou.write(str(path), pa.table({"id": [1]}))
    bayou.write(str(path), pa.table({"id": [2]}))
    log = path / "_delta_log"
    commit = (log / f"{1:020d}.json").read_text()
    (log / f"{1:020d}.json").unlink()
    (log / f"{1:020d}.crc").unlink(missing_ok=True)
    head = (log / f"{0:020d}.json").read_text().splitlines()
    managed = {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["catalogManaged"],
            "writerFeatures": ["catalogManaged", "inCommitTimestamp"],
        }
    }
    lines = [json.dumps(managed) if '"protocol"' in line else line for line in head]
    (log / f"{0:020d}.json").write_text("\n".join(lines))

    class OneCommitBehind:
        def ratified_commits(self, table, end_version=None):
            ratified = RatifiedCommit(version=1, content=commit.encode())
            return RatifiedCommits(latest_version=1, commits=(ratified,))

    with pytest.raises(UnsupportedFeatureError, match="catalog="):
        bayou.table(str(path)).to_arrow()
    table = bayou.table(str(path), catalog=OneCommitBehind())
    assert sorted(table.to_arrow().column("id").to_pylist()) == [1, 2]
    assert table.to_arrow(version=0).column("id").to_pylist() == [1]
    assert [entry["version"] for entry in table.history()] == [1, 0]
