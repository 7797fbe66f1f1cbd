import datetime as dt
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import functions as F  # noqa: N812

import bayou
from bayou.errors import ArgumentError, CommitConflictError, SchemaError, TableNotFoundError
from bayou.spark import short_message
from bayou.spark.native_read import read_planner, relation
from bayou.spark.native_read.read_planner import READER

pytestmark = pytest.mark.spark


def load(spark, path, **options):
    return spark.read.format("delta").options(**options).load(path)


def plan(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def is_native(frame):
    return "FileScan parquet" in plan(frame)


def files_of(frame):
    """Number of files that the scan of a query reads."""
    frame.collect()
    stack, found = [frame._jdf.queryExecution().executedPlan()], []
    while stack:
        node = stack.pop()
        if node.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
            stack.append(node.executedPlan())
            continue
        if node.getClass().getSimpleName() == "FileSourceScanExec":
            found.append(node.metrics().apply("numFiles").value())
        stack.extend(children_of(node))
    return sum(found)


def children_of(node):
    children = node.children()
    if node.getClass().getSimpleName().endswith("QueryStageExec"):
        return [node.plan()]
    return [children.apply(i) for i in range(children.size())]


def test_a_read_is_spark_s_own_scan_and_says_so(spark, table, capsys):
    frame = load(spark, table)
    assert is_native(frame)
    assert frame.columns == ["id", "name", "day"]
    assert frame.count() == 30
    frame.select("id").explain()
    shown = capsys.readouterr().out
    assert "FileScan parquet [id" in shown
    assert "ReadSchema: struct<id:bigint>" in shown
    with_source = load(spark, table)
    spark.conf.set(READER, "source")
    try:
        source = load(spark, table)
        assert not is_native(source)
        assert source.schema == with_source.schema
        assert sorted(source.collect(), key=str) == sorted(frame.collect(), key=str)
    finally:
        spark.conf.unset(READER)


def test_filters_leave_out_files_by_partition_and_by_statistics(spark, table):
    frame = load(spark, table)
    assert files_of(frame.where("id = 15")) == 1
    assert files_of(frame.where("day = '2024-01-01' AND id >= 0")) == 1
    assert files_of(frame.where("day IS NULL")) == 1
    assert files_of(frame.where("id > 100")) == 0
    assert files_of(frame) == 3


def test_conditions_of_partition_columns_are_exact_whatever_they_are(spark, table):
    """Spark doesn't apply them to the rows again."""
    frame = load(spark, table)
    assert frame.where("regexp_replace(day, '2024-', '') = '01-02'").count() == 10
    assert frame.where("substr(day, 10) = '1' OR day IS NULL").count() == 20
    assert frame.where("hash(day) = hash('2024-01-01')").count() == 10
    assert frame.where("day > 'a' OR length(day) < 3").count() == 0
    assert frame.where("coalesce(day, 'none') = 'none' AND id < 25").count() == 5


def test_filters_of_one_query_are_not_those_of_the_next(spark, table):
    frame = load(spark, table)
    assert frame.where("id = 3").count() == 1
    assert frame.count() == 30
    left, right = frame.where("id < 5").alias("l"), frame.where("id >= 3").alias("r")
    assert left.join(right, F.col("l.id") == F.col("r.id")).count() == 2
    assert frame.where("id < 5").unionAll(frame.where("id > 25")).count() == 9


def test_a_version_and_a_time_are_read(spark, table):
    assert load(spark, table, versionAsOf=0).count() == 10
    assert load(spark, table, versionAsOf=0, filter="id < 3").count() == 3
    assert is_native(load(spark, f"{table}@v0"))
    assert load(spark, f"{table}@v0").count() == 10
    later = load(spark, table)
    bayou.write(table, pa.table({"id": [99], "name": ["x"], "day": ["2024-01-09"]}), mode="append")
    assert later.count() == 30  # it is pinned to the version that load saw
    assert load(spark, table).count() == 31
    timestamp = bayou.table(table).snapshot(version=1).timestamp
    moment = spark.sql(f"SELECT CAST(timestamp_millis({timestamp}) AS STRING) t").first().t
    assert load(spark, table, timestampAsOf=moment).count() == 20


def test_timestamps_are_in_the_session_s_time_zone(spark, tmp_path):
    path = str(tmp_path / "t")
    hours = [dt.datetime(2024, 7, 1, hour, tzinfo=dt.UTC) for hour in range(6)]
    for at in hours:
        bayou.write(
            path, pa.table({"at": [at], "moment": [at]}), mode="append", partition_by=["at"]
        )
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    frame = load(session, path)
    for column in ("at", "moment"):
        later = frame.where(f"{column} >= TIMESTAMP '2024-06-30 23:00:00'")
        assert is_native(later)
        assert files_of(later) == 3
        assert later.count() == 3
    assert frame.agg(F.max("at").cast("string")).first()[0] == "2024-07-01 01:00:00"


def test_a_frame_gives_the_same_rows_when_the_session_changes_its_time_zone(spark, tmp_path):
    path = str(tmp_path / "t")
    hours = [dt.datetime(2024, 7, 1, hour, tzinfo=dt.UTC) for hour in range(3)]
    for at in hours:
        bayou.write(path, pa.table({"at": [at]}), mode="append")
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    frame = load(session, path)
    for zone in ("America/New_York", "Asia/Tokyo", "+02:00", "PST", "UTC"):
        session.conf.set("spark.sql.session.timeZone", zone)
        for at in hours:
            for other in (frame, load(session, path)):
                found = other.where(f"at = TIMESTAMP '{at.isoformat()}'")
                assert is_native(found)
                assert found.count() == 1, (zone, at)


def test_a_schema_narrows(spark, table):
    frame = spark.read.format("delta").schema("day string, ID long").load(table)
    assert is_native(frame)
    assert frame.columns == ["day", "ID"]
    assert frame.where("ID = 15").collect() == [("2024-01-02", 15)]
    with pytest.raises(SchemaError, match="has a column 'nope'"):
        spark.read.format("delta").schema("nope int").load(table)
    with pytest.raises(SchemaError, match="has the type long, .* has integer"):
        spark.read.format("delta").schema("id int").load(table)


def test_errors_come_from_load_in_one_line(spark, table, tmp_path):
    with pytest.raises(TableNotFoundError):
        load(spark, str(tmp_path / "nothing"))
    with pytest.raises(ArgumentError, match="versionAsOf and timestampAsOf"):
        load(spark, table, versionAsOf=1, timestampAsOf="2024-01-01")
    for name in ("readChangeFeed", "metadataColumn"):
        with pytest.raises(ArgumentError, match=f"{name}: 'yes' isn't valid .*Set true"):
            load(spark, table, **{name: "yes"})
    spark.conf.set(READER, "front")
    try:
        with pytest.raises(
            ArgumentError, match="'front' isn't valid. It must be auto, native or source"
        ):
            load(spark, table)
    finally:
        spark.conf.unset(READER)


def test_metadata_columns_of_spark_are_there(spark, table):
    row = load(spark, table).where("id = 15").select("_metadata.*", "id").first()
    assert row.file_name in {p.rpartition("/")[2] for p in files_on_disk(table)}
    assert row.row_index == 5


def files_on_disk(table):
    return bayou.table(table).snapshot().files()["path"].to_pylist()


def test_input_files_and_sizes_are_the_log_s(spark, table):
    frame = load(spark, table)
    found = frame.inputFiles()
    assert len(found) == 3
    assert all(path.startswith("file:/") and "a%20table" in path for path in found)
    size = bayou.table(table).snapshot().files()["size"].to_pylist()
    stats = frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    assert int(stats) == sum(size)
    joined = frame.join(spark.range(100000).repartition(2), "id")
    assert "BroadcastHashJoin" in plan(joined)


@pytest.mark.slow
def test_partitions_are_pruned_dynamically(spark, table, tmp_path):
    days = str(tmp_path / "days")
    bayou.write(days, pa.table({"d": ["2024-01-01", "2024-01-02"], "kind": ["a", "b"]}))
    frame = load(spark, table).join(
        load(spark, days).where("kind = 'b'"), F.col("day") == F.col("d")
    )
    assert frame.count() == 10
    assert "dynamicpruning" in plan(frame)
    assert files_of(frame) == 2  # one of each table


def test_a_cached_frame_serves_other_reads_of_the_version(spark, table):
    cached = load(spark, table).cache()
    try:
        assert cached.count() == 30
        assert "InMemoryTableScan" in plan(load(spark, table).where("id = 3"))
        assert "InMemoryTableScan" not in plan(load(spark, table, versionAsOf=1))
        assert cached.where("id < 3").count() == 3
    finally:
        cached.unpersist()


def test_files_are_written_while_a_frame_is_cached(spark, table, tmp_path):
    frame = load(spark, table).cache()
    try:
        assert frame.count() == 30
        for folder in (tmp_path / "elsewhere", Path(table) / "_inside"):
            spark.range(3).write.parquet(str(folder))
        assert frame.count() == 30
    finally:
        frame.unpersist()


@pytest.mark.slow
def test_threads_may_query_at_once(spark, table):
    frame = load(spark, table)

    def count(n):
        return frame.where(f"id < {n}").count(), load(spark, table).where(f"id >= {n}").count()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(count, range(5, 13))) == [(n, 30 - n) for n in range(5, 13)]


def hang(batches):
    time.sleep(30)  # deliberate: the job runs until it is cancelled
    yield from ()


def test_a_cancelled_query_leaves_the_frame_usable(spark, table):
    from support.waiting import wait_until  # not above: Spark's workers import this module

    frame = load(spark, table)

    def run():
        spark.sparkContext.setJobGroup("slow", "slow", interruptOnCancel=True)
        with pytest.raises(Exception, match="(?i)cancel"):
            frame.mapInArrow(hang, "id long").count()
        return True

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        tracker = spark.sparkContext.statusTracker()
        wait_until(tracker.getActiveJobsIds, what="the job")
        spark.sparkContext.cancelJobGroup("slow")
        assert running.result()
    assert frame.count() == 30


@pytest.mark.slow
def test_views_and_sql_read_it(spark, table, tmp_path):
    load(spark, table).createOrReplaceTempView("natively")
    assert spark.sql("SELECT count(*) n FROM natively AS t WHERE t.id < 5").first().n == 5
    query = "SELECT a.id FROM natively a JOIN natively b ON a.id = b.id + 1 WHERE a.day IS NULL"
    assert spark.sql(query).count() == 10
    target = str(tmp_path / "target")
    load(spark, table).select("id").write.parquet(target)
    assert spark.read.parquet(target).join(load(spark, table), "id").count() == 30
    spark.catalog.dropTempView("natively")


def test_a_missing_data_file_is_named(spark, table):
    frame = load(spark, table)
    gone = files_on_disk(table)[0]
    (Path(table) / unquote(gone)).unlink()
    with pytest.raises(Exception, match=gone.rpartition("/")[2]):
        frame.collect()


def test_an_internal_that_is_missing_leaves_the_read_to_the_source(
    spark, table, monkeypatch, caplog
):
    def refuse(*_, **__):
        raise Py4JError("constructor HadoopFsRelation does not exist")

    monkeypatch.setattr(relation, "file_index_frame", refuse)
    monkeypatch.setattr(read_planner, "_warned", set())
    with caplog.at_level(logging.WARNING):
        frames = [load(spark, table) for _ in range(2)]
    assert not any(map(is_native, frames))
    assert frames[0].count() == 30
    (said,) = [r.getMessage() for r in caplog.records if r.name == read_planner.__name__]
    assert "(constructor HadoopFsRelation does not exist)" in said
    bayou.table(table).delete("id = 1")
    with pytest.raises(CommitConflictError):
        frames[0].write.format("delta").mode("overwrite").save(table)


def test_a_damaged_log_is_told_of_by_the_query(spark, table):
    bayou.table(table).create_checkpoint()
    frame = load(spark, table)
    log = Path(table) / "_delta_log"
    for file in log.iterdir():
        if file.suffix == ".json" or "checkpoint.parquet" in file.name:
            file.write_bytes(b"x")
    with pytest.raises(Exception) as caught:
        frame.count()
    assert "can't be read" in short_message(caught.value)
