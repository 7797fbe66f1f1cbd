"""Writes by Spark's own Parquet writer: the same table as through Python, and when it is used."""

import datetime as dt
import json
import os
import signal
import threading
import time
from pathlib import Path

import deltalake
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.errors import ArgumentError
from bayou.spark.jvm.parquet_writer import ParquetWrite
from bayou.spark.write.native_write import WRITER
from support.waiting import wait_until

pytestmark = pytest.mark.spark

ALL_TYPES = """
    id, cast(id AS int) i, cast(id AS short) s, cast(id AS byte) b, cast(id AS float) + 1f f,
    if(id = 3, double('NaN'), cast(id AS double) + 1) d, cast(id AS decimal(9, 2)) d9,
    cast(id AS decimal(18, 2)) d18, cast(-id AS decimal(38, 10)) d38,
    date_add(DATE'1500-01-01', cast(id AS int)) dt,
    timestamp_micros(id * 1500001) ts, TIMESTAMP_NTZ'1500-01-01 00:00:00.123456' tn,
    concat('ü', repeat('x', 40)) st, repeat('y', cast(id * 1000 AS int)) long,
    cast(repeat('z', 5000) AS binary) bin, id % 2 = 0 bo, cast(null AS string) nothing,
    named_struct('a', id, 'B', named_struct('c', if(id = 2, null, repeat('ü', 3000)))) n
"""


@pytest.fixture
def native_writes(monkeypatch):
    """The number of files of each write by Spark's own writer."""
    counts = []
    run = ParquetWrite.run

    def counted(self):
        files = run(self)
        counts.append(len(files))
        return files

    monkeypatch.setattr(ParquetWrite, "run", counted)
    return counts


@pytest.fixture
def python_writer(spark):
    """A context in which all writes go through Python workers."""

    def save(frame, path, mode="append"):
        spark.conf.set(WRITER, "python")
        try:
            write(frame, path, mode)
        finally:
            spark.conf.unset(WRITER)

    return save


def write(frame, path, mode="append", **options):
    frame.write.format("delta").mode(mode).options(**options).save(str(path))


def adds(path):
    actions = (
        json.loads(line)
        for log in sorted(Path(path, "_delta_log").glob("*.json"))
        for line in log.read_text().splitlines()
    )
    return [action["add"] for action in actions if "add" in action]


def statistics(path):
    return sorted(
        (json.loads(add["stats"]) for add in adds(path)), key=lambda s: s["minValues"]["id"]
    )


def data_files(path):
    return {f.name for f in Path(path).glob("*.parquet")}


def rows(path):
    """What deltalake, an engine of its own, finds."""
    return sorted(deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist(), key=repr)


def test_rows_and_statistics_equal_those_of_python(spark, tmp_path, native_writes, python_writer):
    frame = spark.sql(f"SELECT {ALL_TYPES} FROM range(0, 10, 1, 2)")
    native, python = tmp_path / "a b#c", tmp_path / "python"
    write(frame, native)
    python_writer(frame, python)
    assert native_writes == [2]
    assert statistics(native) == statistics(python)
    assert [s["numRecords"] for s in statistics(native)] == [5, 5]
    low = statistics(native)[0]
    assert low["maxValues"]["st"] == "ü" + "x" * 31 + "\x7f"
    assert "d" not in low["maxValues"]  # it has a NaN
    assert low["nullCount"]["n"] == {"a": 0, "B": {"c": 1}}
    assert list(map(repr, rows(native))) == list(map(repr, rows(python)))  # NaN != NaN
    for add in adds(native):
        file = native / add["path"]
        assert add["size"] == file.stat().st_size
        assert (
            pq.read_schema(file).field("ts").type
            == pq.read_schema(python / adds(python)[0]["path"]).field("ts").type
        )
    assert not list(native.glob(".*"))  # no checksum files


def test_columns_are_matched_by_name_and_missing_ones_are_null(spark, tmp_path, native_writes):
    write(spark.sql("SELECT 1L AS id, 'a' AS name, named_struct('x', 1) AS s"), tmp_path)
    write(spark.sql("SELECT named_struct('X', 2) AS s, 2L AS ID"), tmp_path)
    assert len(native_writes) == 2
    assert rows(tmp_path) == [
        {"id": 1, "name": "a", "s": {"x": 1}},
        {"id": 2, "name": None, "s": {"x": 2}},
    ]
    assert statistics(tmp_path)[1]["nullCount"] == {"id": 0, "name": 1, "s": {"x": 0}}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_files_have_physical_names_and_field_ids(spark, tmp_path, native_writes, mode):
    frame = spark.sql("SELECT 1L AS id, named_struct('x y', 2, 'z', 3L) AS s")
    write(frame.limit(0), tmp_path, **{"delta.columnMapping.mode": mode})
    write(frame, tmp_path)
    assert native_writes == [1, 1]
    assert spark.read.format("delta").load(str(tmp_path)).collect() == frame.collect()
    assert bayou.table(str(tmp_path)).to_arrow().to_pylist() == [{"id": 1, "s": {"x y": 2, "z": 3}}]
    (add,) = adds(tmp_path)
    schema = pq.read_schema(tmp_path / add["path"])
    assert "id" not in schema.names
    ids = [schema.field(0), schema.field(1), *schema.field(1).type]
    assert [f.metadata[b"PARQUET:field_id"] for f in ids] == [b"1", b"2", b"3", b"4"]
    assert list(json.loads(add["stats"])["minValues"]) == schema.names


def test_an_overwrite_of_the_table_that_it_reads_keeps_the_rows_it_read(
    spark, tmp_path, native_writes
):
    write(spark.range(0, 4, 1, 2), tmp_path)
    write(spark.read.format("delta").load(str(tmp_path)).where("id > 1"), tmp_path, "overwrite")
    assert native_writes[0] == 2
    assert len(native_writes) == 2
    assert rows(tmp_path) == [{"id": 2}, {"id": 3}]


def test_an_overwrite_with_cached_rows_goes_through_python(spark, tmp_path, native_writes):
    frame = spark.range(3).cache()
    try:
        write(frame, tmp_path)
        write(frame, tmp_path, "overwrite")
    finally:
        frame.unpersist()
    assert len(native_writes) == 1
    assert len(rows(tmp_path)) == 3


def test_a_file_has_at_most_the_requested_records(spark, tmp_path, native_writes):
    write(spark.range(0, 10, 1, 1), tmp_path, maxRecordsPerFile=4)
    assert native_writes == [3]
    assert sorted(s["numRecords"] for s in statistics(tmp_path)) == [2, 4, 4]


def test_each_write_of_a_dataframe_is_a_query_of_its_own(spark, tmp_path, native_writes):
    frame = spark.sql("SELECT current_timestamp() AS id")
    write(frame, tmp_path)
    write(frame, tmp_path)
    assert len(native_writes) == 2
    first, second = rows(tmp_path)
    assert first != second


def test_a_write_without_rows_leaves_no_file(spark, tmp_path, native_writes):
    write(spark.range(0), tmp_path)
    assert len(native_writes) == 1
    assert data_files(tmp_path) == set()
    assert rows(tmp_path) == []


@pytest.mark.parametrize(
    ("column", "properties"),
    [
        ("array(1) AS a", {}),
        ("map('k', 1) AS a", {}),
        ("parse_json('1') AS a", {}),
        ("1 AS a", {"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "name"}),
        ("1 AS a", {"delta.targetFileSize": "64mb"}),
        ("1 AS a", {"delta.parquet.compression.codec": "lz4"}),
    ],
)
def test_tables_that_spark_cannot_write_the_same_way_go_through_python(
    spark, tmp_path, native_writes, column, properties
):
    frame = spark.sql(f"SELECT 1L AS id, {column}")
    write(frame, tmp_path, **properties)
    write(frame, tmp_path)
    assert native_writes == []
    assert spark.read.format("delta").load(str(tmp_path)).count() == 2


def test_rules_of_rows_go_through_python(spark, tmp_path, native_writes):
    write(spark.range(1), tmp_path)
    bayou.table(str(tmp_path)).alter.add_constraint({"small": "id < 10"})
    write(spark.range(1), tmp_path)
    assert len(native_writes) == 1
    assert len(rows(tmp_path)) == 2


def test_partitioned_tables_go_through_python(spark, tmp_path, native_writes):
    frame = spark.range(4).selectExpr("id", "id % 2 AS p")
    frame.write.format("delta").partitionBy("p").save(str(tmp_path))
    assert native_writes == []


def test_a_failed_task_leaves_neither_files_nor_a_folder(spark, tmp_path, native_writes):
    path = tmp_path / "new" / "table"
    frame = spark.range(0, 4, 1, 1).selectExpr("if(id = 3, raise_error('no luck'), id) AS id")
    with pytest.raises(Exception, match="no luck") as caught:
        write(frame.selectExpr("cast(id AS bigint) id"), path)
    assert "TASK_WRITE_FAILED" not in str(caught.value)
    assert not (tmp_path / "new").exists()
    write(spark.range(2), path)
    with pytest.raises(Exception, match="no luck"):
        write(frame.selectExpr("cast(id AS bigint) id"), path)
    assert data_files(path) == {add["path"] for add in adds(path)}
    assert not native_writes[1:]


@pytest.mark.parametrize("writer", ["auto", "python"])
def test_an_interrupted_write_cancels_its_job_and_leaves_no_files(spark, tmp_path, writer):
    session, path, started = spark.newSession(), tmp_path / "table", tmp_path / "started"
    session.conf.set(WRITER, writer)
    write(session.range(2), path)
    tracker = session.sparkContext.statusTracker()
    others = set(tracker.getActiveJobsIds())  # of earlier tests

    def endless(batches):
        for batch in batches:
            yield batch
            started.touch()
            while True:
                time.sleep(0.01)  # deliberate: until the job is cancelled

    def interrupt():
        wait_until(started.exists)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            write(session.range(0, 20, 1, 1).mapInArrow(endless, "id long"), path)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, handler)
    wait_until(lambda: set(tracker.getActiveJobsIds()) <= others)
    wait_until(lambda: data_files(path) == {add["path"] for add in adds(path)})


def test_an_unknown_writer_is_an_error_that_names_the_setting(spark, tmp_path):
    session = spark.newSession()
    session.conf.set(WRITER, "fast")
    with pytest.raises(ArgumentError, match=f"{WRITER}: 'fast' isn't valid"):
        write(session.range(1), tmp_path)


@pytest.mark.parametrize("mode", ["LEGACY", "EXCEPTION"])
def test_old_dates_are_written_as_they_are_whatever_the_rebase_mode(
    spark, tmp_path, native_writes, mode
):
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", mode)
    columns = "DATE'1500-01-01' AS id, TIMESTAMP'1500-01-01 00:00:00.123456' AS ts"
    write(session.sql(f"SELECT {columns}"), tmp_path)
    assert len(native_writes) == 1
    frame = session.read.format("delta").load(str(tmp_path))
    assert frame.where("id = DATE'1500-01-01'").count() == 1
    assert frame.where("ts = TIMESTAMP'1500-01-01 00:00:00.123456'").count() == 1
    assert statistics(tmp_path)[0]["minValues"]["id"] == "1500-01-01"
    assert rows(tmp_path)[0]["id"] == dt.date(1500, 1, 1)


def test_a_long_string_that_is_not_utf8_has_no_bounds(
    spark, tmp_path, native_writes, python_writer
):
    invalid = "concat(repeat('x', 6000), cast(X'FF41' AS string))"
    frame = spark.sql(f"SELECT id, if(id = 1, {invalid}, 'a') AS s FROM range(0, 2, 1, 1)")
    write(frame, tmp_path)
    python_writer(frame, tmp_path)
    assert len(native_writes) == 1
    for file in statistics(tmp_path):
        assert file["nullCount"] == {"id": 0, "s": 0}
        assert (file["minValues"], file["maxValues"]) == ({"id": 0}, {"id": 1})
    read = spark.read.format("delta").load(str(tmp_path))
    assert read.where(f"hex(s) = hex({invalid})").count() == 2


def test_the_sessions_settings_apply_to_the_rows_and_stay_as_they_are(spark, tmp_path):
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    write(session.sql("SELECT cast('x' AS int) AS id FROM range(1)"), tmp_path)
    assert rows(tmp_path) == [{"id": None}]
    assert session.conf.get("spark.sql.parquet.outputTimestampType") == "INT96"
