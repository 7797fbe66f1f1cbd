"""Folders of Parquet files become tables; no file is touched."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import (
    ArgumentError,
    CorruptTableError,
    SchemaError,
    StorageError,
    TablePropertyError,
)
from support.short_responses import ShortResponses, without_last_line

DAY = pa.schema([("day", pa.date32()), ("Name", pa.string())])


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "plain files"


def put(folder: Path, name: str, table: pa.Table | dict, **options) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table = table if isinstance(table, pa.Table) else pa.table(table)
    pq.write_table(table, path, **options)


def contents(folder: Path) -> dict[str, str]:
    return {
        str(f): hashlib.sha256(f.read_bytes()).hexdigest()
        for f in folder.rglob("*")
        if f.is_file() and "_delta_log" not in f.parts
    }


def test_files_become_a_table_with_statistics(folder):
    put(folder, "a.parquet", {"id": [1, 2], "s": ["x", None]})
    put(folder, "sub/b.parquet", {"id": [3], "s": ["z"]})
    before = contents(folder)
    table = bayou.table(folder)
    assert table.convert(configuration={"mine": "1"}).num_converted_files == 2
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert contents(folder) == before
    files = table.snapshot().files(filter="id = 3")
    assert files["path"].to_pylist() == ["sub/b.parquet"]
    assert table.snapshot().properties == {"mine": "1"}
    (entry,) = table.history()
    assert entry["operation"] == "CONVERT"
    assert entry["operationParameters"] == {
        "numFiles": 2,
        "partitionedBy": "[]",
        "collectStats": True,
        "sourceFormat": "parquet",
    }
    assert entry["operationMetrics"] == {"numConvertedFiles": "2"}
    bayou.write(folder, pa.table({"id": [4], "s": ["w"]}))
    assert table.to_arrow().num_rows == 4


def test_a_table_stays_as_it_is(folder):
    put(folder, "a.parquet", {"id": [1]})
    bayou.table(folder).convert()
    put(folder, "b.parquet", {"id": [2]})
    again = bayou.table(folder).convert()
    assert (again.version, again.num_converted_files) == (0, 0)
    assert bayou.table(folder).to_arrow().num_rows == 1


def test_partition_values_come_from_folders(folder):
    put(folder, "day=2024-01-05/name=a%2Fb/x.parquet", {"id": [1]})
    put(folder, "day=2024-1-6/name=__HIVE_DEFAULT_PARTITION__/x.parquet", {"id": [2]})
    put(folder, "day=2024-01-07/name=50%25 ü/x.parquet", {"id": [3], "day": [None]})
    table = bayou.table(folder)
    table.convert(DAY)
    found = {r["id"]: (r["day"], r["Name"]) for r in table.to_arrow().to_pylist()}
    assert found == {
        1: (dt.date(2024, 1, 5), "a/b"),
        2: (dt.date(2024, 1, 6), None),
        3: (dt.date(2024, 1, 7), "50% ü"),
    }
    assert table.snapshot().partition_columns == ("day", "Name")
    assert table.to_arrow(filter="day = '2024-01-06'")["id"].to_pylist() == [2]


def test_folders_that_are_not_the_partition_columns_are_refused(folder):
    put(folder, "day=2024-01-05/x.parquet", {"id": [1]})
    for schema in (None, DAY, pa.schema([("hour", pa.int32())])):
        with pytest.raises(SchemaError, match=r"partition columns \(day\)"):
            bayou.table(folder).convert(schema)
    with pytest.raises(SchemaError, match="isn't a value of partition column 'day'"):
        bayou.table(folder).convert(pa.schema([("day", pa.int32())]))
    assert not (folder / "_delta_log").exists()


def test_hidden_files_and_folders_are_passed_over(folder):
    put(folder, "a.parquet", {"id": [1]})
    put(folder, "_temporary/b.parquet", {"id": [2]})
    put(folder, ".hidden/c.parquet", {"id": [3]})
    put(folder, "_metadata", {"id": [4]})
    (folder / "_SUCCESS").touch()
    (folder / ".a.parquet.crc").write_bytes(b"crc")
    assert bayou.table(folder).convert().num_converted_files == 1


def test_a_folder_with_a_log_of_its_own_is_refused(folder):
    put(folder, "a.parquet", {"id": [1, 2]})
    bayou.write(str(folder / "day=1" / "sub"), pa.table({"id": [3, 4]}))
    bayou.table(str(folder / "day=1" / "sub")).delete("id = 4")  # its first file stays
    with pytest.raises(ArgumentError, match=r"another table \(day=1/sub/_delta_log\)"):
        bayou.table(folder).convert()
    assert not (folder / "_delta_log").exists()
    (folder / "day=1").rename(folder.parent / "elsewhere")
    put(folder, "stream/b.parquet", {"id": [5]})
    (folder / "stream" / "_spark_metadata").mkdir()
    (folder / "stream" / "_spark_metadata" / "0").write_text("v1\n")
    with pytest.raises(ArgumentError, match="stream/_spark_metadata"):
        bayou.table(folder).convert()


def test_a_partition_column_may_begin_with_an_underscore(folder):
    put(folder, "_p=1/a.parquet", {"id": [1]})
    bayou.table(folder).convert(pa.schema([("_p", pa.int32())]))
    assert bayou.table(folder).to_arrow().to_pylist() == [{"id": 1, "_p": 1}]


def test_columns_of_all_files_are_the_tables(folder):
    put(folder, "a.parquet", {"id": [1], "s": pa.array([{"f": 1}])})
    put(folder, "b.parquet", {"id": [2], "s": pa.array([{"g": "x"}]), "new": [True]})
    bayou.table(folder).convert()
    assert bayou.table(folder).to_arrow(filter="id = 1").to_pylist() == [
        {"id": 1, "s": {"f": 1, "g": None}, "new": None}
    ]


def test_files_of_different_types_are_named(folder):
    put(folder, "a.parquet", {"id": [1]})
    put(folder, "b.parquet", {"id": ["x"]})
    with pytest.raises(SchemaError, match=r"b\.parquet: the file's schema can't") as caught:
        bayou.table(folder).convert()
    assert caught.value.column == "id"


def test_spark_says_the_types_of_its_files(folder):
    spark = (
        '{"type":"struct","fields":[{"name":"c","type":"string","nullable":true,'
        '"metadata":{"__CHAR_VARCHAR_TYPE_STRING":"varchar(3)"}}]}'
    )
    metadata = {"org.apache.spark.sql.parquet.row.metadata": spark}
    put(folder, "a.parquet", pa.table({"c": ["abc"]}).replace_schema_metadata(metadata))
    bayou.table(folder).convert()
    (field,) = bayou.table(folder).snapshot().schema
    assert field.metadata["__CHAR_VARCHAR_TYPE_STRING"] == "varchar(3)"


def test_old_timestamps_are_instants(folder):
    moment = dt.datetime(2024, 2, 29, 12, 30)
    put(folder, "a.parquet", {"t": [moment]}, use_deprecated_int96_timestamps=True)
    bayou.table(folder).convert()
    assert bayou.table(folder).to_arrow()["t"].to_pylist() == [moment.replace(tzinfo=dt.UTC)]
    assert str(next(iter(bayou.table(folder).snapshot().schema)).data_type) == "timestamp"


def test_statistics_lose_no_row(folder):
    long = "z" * 3_000
    put(
        folder,
        "a.parquet",
        {"x": [1.0, math.nan], "s": [long, "a"], "u": pa.array([1, 2**31], pa.uint32())},
    )
    bayou.table(folder).convert()
    table = bayou.table(folder)
    for text in ("x = double('NaN')", "x > 5", f"s = '{long}'", "u = 2147483648"):
        assert table.to_arrow(filter=text).num_rows == 1, text


@pytest.mark.parametrize("first", [[5.0, 9.0], [5.0, math.nan]], ids=["numbers", "NaN"])
@pytest.mark.parametrize("writer", ["parquet-cpp-arrow", "parquet-mr"])
def test_a_row_group_without_bounds_loses_no_row(folder, first, writer):
    """Other writers than pyarrow may omit the bounds of a row group that has NaN and numbers."""
    put(
        folder,
        "a.parquet",
        {"x": [*first, math.nan, math.nan]},
        row_group_size=2,
        use_dictionary=False,
        compression="none",
    )
    file = folder / "a.parquet"
    nan, data = struct.pack("<d", math.nan), file.read_bytes()
    at = data.rindex(nan + nan)
    data = data[:at] + struct.pack("<d", 1.0) + data[at + 8 :]
    if writer == "parquet-mr":  # the bytes are of equal length
        data = data.replace(b"parquet-cpp-arrow version", b"parquet-mr version 1.15.0")
    file.write_bytes(data)
    table = bayou.table(folder)
    table.convert()
    (stats,) = table.snapshot().files()["stats"].to_pylist()
    assert not json.loads(stats).get("minValues")
    assert table.to_arrow(filter="x < 3")["x"].to_pylist() == [1.0]
    assert table.to_arrow(filter="x > 100").num_rows == 1 + sum(map(math.isnan, first))


def test_a_nan_minimum_of_an_unknown_writer_is_no_bound(folder):
    """Old writers compared each value with the first one, also if that was NaN."""
    put(folder, "a.parquet", {"x": [5.0, 9.0, 2.0, 8.0]}, row_group_size=2, use_dictionary=False)
    file = folder / "a.parquet"
    data = file.read_bytes()
    at = data.rindex(b"PAR1") - 4
    footer = len(data) - 8 - int.from_bytes(data[at : at + 4], "little")
    changed = data[footer:]
    for bound in (2.0, 8.0):
        changed = changed.replace(struct.pack("<d", bound), struct.pack("<d", math.nan))
    file.write_bytes(data[:footer] + changed)
    table = bayou.table(folder)
    table.convert()
    assert table.to_arrow(filter="x < 3")["x"].to_pylist() == [2.0]


def test_partition_timestamps_without_a_zone_stay_so(folder):
    put(folder, "at=2024-01-05 10%3A00%3A00/a.parquet", {"id": [1]})
    put(folder, "at=2024-01-06/a.parquet", {"id": [2]})
    put(folder, "at=2024-01-07T10%3A00%3A00Z/a.parquet", {"id": [3]})
    table = bayou.table(folder)
    table.convert(pa.schema([("at", pa.timestamp("us", "UTC"))]))
    commit = (folder / "_delta_log" / f"{0:020}.json").read_text()
    adds = [json.loads(line)["add"] for line in commit.splitlines() if '"add"' in line]
    assert [add["partitionValues"]["at"] for add in adds] == [
        "2024-01-05 10:00:00",
        "2024-01-06 00:00:00",
        "2024-01-07T10:00:00.000000Z",
    ]
    assert table.to_arrow(filter="at = '2024-01-06'")["id"].to_pylist() == [2]


def test_statistics_are_those_of_the_indexed_columns(folder):
    put(folder, "a.parquet", {"a": [1], "b": [2]})
    bayou.table(folder).convert(configuration={"delta.dataSkippingNumIndexedCols": "1"})
    (stats,) = bayou.table(folder).snapshot().files()["stats"].to_pylist()
    assert '"a":1' in stats
    assert '"b"' not in stats


def test_what_cannot_be_a_table_is_refused(folder):
    folder.mkdir()
    with pytest.raises(ArgumentError, match="no Parquet file"):
        bayou.table(folder).convert()
    put(folder, "a.parquet", {"id": [1]})
    for properties in (
        {"delta.columnMapping.mode": "name"},
        {"delta.enableIcebergCompatV2": "true"},
    ):
        with pytest.raises(ArgumentError, match="column mapping"):
            bayou.table(folder).convert(configuration=properties)
    with pytest.raises(TablePropertyError, match="existing rows must be checked"):
        bayou.table(folder).convert(configuration={"delta.constraints.low": "id < 1"})
    (folder / "notes.txt").write_text("no Parquet")
    with pytest.raises(StorageError, match=r"notes\.txt"):
        bayou.table(folder).convert()
    assert not (folder / "_delta_log").exists()


@pytest.mark.parametrize(
    ("first", "second", "wider"),
    [("int8", "int16", "short"), ("int32", "int8", "integer"), ("int16", "int32", "integer")],
)
def test_what_parquet_holds_as_one_kind_of_integer_takes_the_widest(folder, first, second, wider):
    for name, kind, value in (("a", first, 1), ("b", second, 2)):
        nested = pa.array([{"x": value}], pa.struct({"x": kind}))
        put(folder, f"{name}.parquet", pa.table({"n": pa.array([value], kind), "s": nested}))
    table = bayou.table(folder)
    table.convert()
    assert [str(f.data_type) for f in table.snapshot().schema] == [wider, f"struct<x:{wider}>"]
    assert sorted(table.to_arrow()["n"].to_pylist()) == [1, 2]
    assert table.to_arrow(filter="s.x = 2 AND n = 2")["n"].to_pylist() == [2]


def test_a_column_that_files_spell_in_two_ways_is_refused(folder):
    put(folder, "a.parquet", {"id": [1]})
    put(folder, "b.parquet", {"ID": [2]})
    with pytest.raises(SchemaError, match=r"b\.parquet.*'id'.*'ID'"):
        bayou.table(folder).convert()


def sink_log(folder: Path, batch: str, *names: str, action: str = "add") -> None:
    """A batch as Structured Streaming's file sink logs it."""
    lines = ["v1"]
    for name in names:
        status = {
            "path": (folder / name).as_uri(),
            "size": (folder / name).stat().st_size,
            "isDir": False,
            "modificationTime": 1,
            "blockReplication": 1,
            "blockSize": 33_554_432,
            "action": action,
        }
        lines.append(json.dumps(status))
    (folder / "_spark_metadata").mkdir(exist_ok=True)
    (folder / "_spark_metadata" / batch).write_text("\n".join(lines))


def test_of_a_streaming_query_s_folder_the_files_count_that_it_committed(folder):
    for number in range(5):
        put(folder, f"day=2024-01-05/part {number}.parquet", {"id": [number]})
    names = [f"day=2024-01-05/part {number}.parquet" for number in range(5)]
    sink_log(folder, "0", names[4])  # taken over by the compact batch, which lacks it
    sink_log(folder, "9.compact", names[0], names[1])
    sink_log(folder, "10", names[1], action="delete")
    sink_log(folder, "11", names[3])
    table = bayou.table(folder)
    assert table.convert(pa.schema({"day": pa.date32()})).num_converted_files == 2
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 3]


def test_a_response_that_ends_early_loses_no_file_of_a_streaming_query_s_folder(folder):
    put(folder, "a.parquet", {"id": [1]})
    put(folder, "b.parquet", {"id": [2]})
    sink_log(folder, "0", "a.parquet", "b.parquet")
    engine = ArrowEngine(files=ShortResponses("_spark_metadata/0", without_last_line))
    with pytest.raises(StorageError, match="_spark_metadata/0: can't read: the store returned"):
        bayou.table(folder, engine=engine).convert()


def test_a_streaming_query_s_log_that_cannot_be_read_is_named(folder):
    put(folder, "a.parquet", {"id": [1]})
    log = folder / "_spark_metadata"
    sink_log(folder, "0", "a.parquet")
    sink_log(folder, "2", "a.parquet")
    with pytest.raises(CorruptTableError, match="batch 1 is missing"):
        bayou.table(folder).convert()
    (log / "2").unlink()
    for content in ("v2\n", 'v1\n{"path": 1}', ""):
        (log / "0").write_text(content)
        with pytest.raises(
            CorruptTableError,
            match=r"_spark_metadata/0 in the log of Structured Streaming can't be read",
        ):
            bayou.table(folder).convert()
    (log / "0").write_text('v1\n{"path":"file:///elsewhere/a","size":1,"modificationTime":1}')
    with pytest.raises(SchemaError, match="/elsewhere/a"):
        bayou.table(folder).convert()
    (log / "0").write_text("v1")
    with pytest.raises(ArgumentError, match="no Parquet file"):
        bayou.table(folder).convert()
    assert not (folder / "_delta_log").exists()


def test_rows_are_tracked_where_asked(folder):
    put(folder, "a.parquet", {"id": [1, 2]})
    put(folder, "b.parquet", {"id": [3]})
    bayou.table(folder).convert(configuration={"delta.enableRowTracking": "true"})
    found = bayou.table(folder).to_arrow(columns=["_metadata.row_id"])["_metadata.row_id"]
    assert sorted(found.to_pylist()) == [0, 1, 2]


def test_days_in_sparks_old_calendar_have_no_bounds(folder):
    version = {"org.apache.spark.version": "2.4.0"}
    table = pa.table({"d": [dt.date(1000, 1, 1)], "n": [1]}).replace_schema_metadata(version)
    put(folder, "a.parquet", table)
    bayou.table(folder).convert()
    (stats,) = bayou.table(folder).snapshot().files()["stats"].to_pylist()
    assert '"n":1' in stats
    assert "1000" not in stats


NANOS = 1_700_000_000_123_456_789


@pytest.mark.parametrize(
    "column",
    [
        pa.array([NANOS], pa.timestamp("ns", tz="UTC")),
        pa.array([NANOS], pa.timestamp("ns")),
        pa.array([[NANOS]], pa.list_(pa.timestamp("ns"))),
        pa.array([{"x": [(1, NANOS)]}], pa.struct({"x": pa.map_(pa.int32(), pa.timestamp("ns"))})),
    ],
    ids=["timestamp", "zoneless", "list", "map"],
)
def test_timestamps_in_nanoseconds_are_refused(folder, column):
    put(folder, "a.parquet", {"id": [1]})
    put(folder, "b.parquet", {"id": [2], "at": column})
    with pytest.raises(SchemaError) as raised:
        bayou.table(folder).convert()
    assert str(raised.value) == (
        f"{folder}/b.parquet: column 'at' has timestamps in nanoseconds, but the timestamps of "
        "Delta tables have microseconds (PARQUET_TYPE_ILLEGAL). Rewrite the file with timestamps "
        "in microseconds."
    )
    assert raised.value.column == "at"
    assert not (folder / "_delta_log").exists()


def test_nanoseconds_in_a_column_that_the_table_does_not_have_are_no_problem(folder):
    times = pa.array([NANOS], pa.timestamp("ns"))
    put(folder, "Day=2024-01-05/a.parquet", {"id": [1], "day": times})
    table = bayou.table(folder)
    table.convert(pa.schema([("Day", pa.date32())]))
    assert table.to_arrow().to_pylist() == [{"id": 1, "Day": dt.date(2024, 1, 5)}]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_timestamps_in_other_units_and_in_int96_are_read(folder, unit):
    second = pa.array([1_700_000_000], pa.timestamp("s", tz="UTC"))
    put(folder, "a.parquet", {"at": second.cast(pa.timestamp(unit, tz="UTC"))})
    put(folder, "b.parquet", {"at": second}, use_deprecated_int96_timestamps=True)
    table = bayou.table(folder)
    table.convert()
    assert table.to_arrow()["at"].unique().to_pylist() == [second[0].as_py()]


def test_lists_of_a_fixed_size_are_lists(folder):
    pairs = [[1, 2], None, [3, None]]
    points = [[{"x": 1}], [{"x": None}], None]
    put(
        folder,
        "a.parquet",
        {
            "pair": pa.array(pairs, pa.list_(pa.int32(), 2)),
            "points": pa.array(points, pa.list_(pa.struct({"x": pa.int64()}), 1)),
        },
    )
    table = bayou.table(folder)
    table.convert()
    rows = table.to_arrow()
    assert rows.schema.field("pair").type == pa.list_(pa.field("element", pa.int32()))
    assert rows["pair"].to_pylist() == pairs
    assert rows["points"].to_pylist() == points
    assert table.to_arrow(filter="pair[1] = 2")["pair"].to_pylist() == [[1, 2]]
