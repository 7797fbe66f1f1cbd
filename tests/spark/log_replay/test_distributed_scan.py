"""Scans that Spark replays are the scans that the kernel replays."""

from __future__ import annotations

import tempfile
import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PythonException

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.errors import ArgumentError
from bayou.kernel import Scan, Snapshot, Table
from bayou.kernel.log.file_actions import tail_bytes
from bayou.protocol.schema import StructType
from bayou.spark import (
    DistributedScanBuilder,
    initial_snapshot_for_streaming,
    state_reconstruction,
)
from bayou.spark.log_replay.initial_snapshot import check_file_count
from bayou.spark.log_replay.tasks import assign_slices, newest_adds
from support.examples import examples
from support.log_histories import copy_to_disk, histories, write
from support.log_writer import LogWriter, add, metadata, protocol, remove
from support.waiting import wait_until

ENGINE = ArrowEngine()
HEAD = (protocol(), metadata({"day": "date", "id": "long"}, ["day"]))


def stats(low: int, high: int) -> dict:
    return {"numRecords": 2, "minValues": {"id": low}, "maxValues": {"id": high}}


def file(number: int) -> dict:
    return add(
        f"f{number:03}",
        partition_values={"day": f"2024-01-{1 + number % 3:02}"},
        size=number + 1,
        stats=stats(10 * number, 10 * number + 9),
        modificationTime=1000 - number % 7,
    )


@pytest.fixture
def log(tmp_path) -> LogWriter:
    """100 files in a checkpoint of many row groups, commits that add, remove and add again."""
    log = LogWriter(ENGINE, str(tmp_path / "table"))
    log.commit(*HEAD)
    log.checkpoint(0, [*HEAD, *(file(n) for n in range(100))], row_group_size=7)
    log.commit(*(remove(f"f{n:03}") for n in range(5)))
    log.commit(file(3), *(file(n) for n in range(100, 110)))
    return log


@pytest.fixture
def conf(spark):
    """Sets conf for one test."""
    changed = []

    def set_conf(name: str, value: str) -> None:
        changed.append(name)
        spark.conf.set(name, value)

    yield set_conf
    for name in changed:
        spark.conf.unset(name)


def snapshot_of(log: LogWriter) -> Snapshot:
    return Snapshot.load(ENGINE, log.table)


def paths(scan: Scan) -> list[str]:
    return [f.path for batch in scan.scan_files(ENGINE) for f in batch.rows()]


def in_order(scan: Scan) -> list[tuple[int, str]]:
    files = [f for batch in scan.scan_files(ENGINE) for f in batch.rows()]
    return [(f.modification_time, f.path) for f in files]


@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize(
    "filter",
    [
        pytest.param(None, marks=pytest.mark.slow),
        pytest.param("day = '2024-01-02'", marks=pytest.mark.slow),
        pytest.param("id < 55", marks=pytest.mark.slow),
        "id = 1 OR id > 1085",
    ],
)
def test_the_files_are_those_of_the_kernels_scan(spark, conf, log, window, filter):
    if window:
        conf("bayou.replay.windowBytes", "0")
    snapshot = snapshot_of(log)
    serial = snapshot.scan_builder().with_filter(filter).build()
    scan = DistributedScanBuilder(spark, snapshot, 3).with_filter(filter).build()
    assert isinstance(scan, Scan)
    assert (scan.is_distributed, scan.num_partitions) == (True, 3)
    assert str(scan.remaining_filter) == str(serial.remaining_filter)
    assert sorted(paths(scan)) == sorted(paths(serial))
    rows = scan.dataframe(ENGINE).select("add.path", "add.size").collect()
    assert sorted(row.path for row in rows) == sorted(paths(serial))
    assert scan.count_files(ENGINE) == len(paths(serial))


@pytest.mark.parametrize("partitions", [None, 1, 4])
def test_a_sorted_scan_is_in_order_of_time_and_path(spark, log, partitions):
    snapshot = snapshot_of(log)
    scan = DistributedScanBuilder(spark, snapshot, partitions).with_sort_key().build()
    found = in_order(scan)
    assert found == sorted(found)
    assert len(found) == 106
    assert scan.is_distributed == (partitions is not None)


@pytest.mark.slow
def test_many_buckets_are_in_order_too(spark, log, monkeypatch):
    monkeypatch.setattr("bayou.spark.log_replay.distributed_scan._BUCKET_FILES", 9)
    found = in_order(DistributedScanBuilder(spark, snapshot_of(log), 2).with_sort_key().build())
    assert found == sorted(found)
    assert len(found) == len(set(found)) == 106


@settings(max_examples=examples(6), suppress_health_check=list(HealthCheck))
@given(history=histories(), tasks=st.integers(1, 3), data=st.data())
def test_serial_slices_and_window_are_what_the_reference_says(spark, history, tasks, data):
    log = LogWriter(MemoryEngine(), f"memory://{uuid.uuid4().hex}/table")
    earliest = write(history, log)
    version = data.draw(st.integers(earliest, len(history.commits) - 1))
    live = history.versions[version].files
    expected = sorted(((*key, a["add"]["size"]) for key, a in live.items()), key=str)
    with tempfile.TemporaryDirectory() as folder:
        copy_to_disk(log, folder)
        snapshot = Snapshot.load(ENGINE, folder, version)
        builder = DistributedScanBuilder(spark, snapshot, tasks)
        assert keys(snapshot.scan_builder().build()) == expected
        assert keys(builder.build()) == expected
        spark.conf.set("bayou.replay.windowBytes", "0")
        try:
            assert keys(builder.with_sort_key().build()) == expected
        finally:
            spark.conf.unset("bayou.replay.windowBytes")


def keys(scan: Scan) -> list[tuple]:
    files = [f for batch in scan.scan_files(ENGINE) for f in batch.rows()]
    return sorted(((*f.add.key, f.size) for f in files), key=str)


@pytest.mark.slow
def test_without_removes_deleted_files_would_come_back(spark):
    actions = spark.createDataFrame(
        [("a", 1, True, (1,)), ("a", 2, True, None), ("b", 1, True, (1,))],
        "key string, version bigint, dataChange boolean, add struct<size bigint>",
    )
    assert newest_adds(actions, 2).count() == 1
    assert newest_adds(actions.where("add IS NOT NULL"), 2).count() == 2


def test_of_one_version_what_changes_data_counts(spark):
    actions = spark.createDataFrame(
        [("a", 2, False, (1,)), ("a", 2, True, (2,)), ("a", 1, True, (3,))],
        "key string, version bigint, dataChange boolean, add struct<size bigint>",
    )
    assert [row.add.size for row in newest_adds(actions, 2).collect()] == [2]


def test_a_frame_is_taken_instead_of_the_log(spark, log):
    snapshot = snapshot_of(log)
    frame = state_reconstruction(spark, snapshot, 2)
    some = frame.where("add.size % 2 = 0").unionAll(spark.sql("SELECT null")).cache()
    scan = DistributedScanBuilder(spark, snapshot, frame=some).with_filter("id < 300").build()
    serial = snapshot.scan_builder().with_filter("id < 300").build()
    expected = {f.path for b in serial.scan_files(ENGINE) for f in b.rows() if f.size % 2 == 0}
    assert set(paths(scan)) == expected
    assert len(expected) > 5


def test_a_sorted_frame_is_not_sorted_again(spark, log):
    snapshot = snapshot_of(log)
    frame = initial_snapshot_for_streaming(spark, snapshot, 3)
    builder = DistributedScanBuilder(spark, snapshot, frame=frame).with_sort_key()
    expected = paths(snapshot_scan(spark, snapshot))
    before = jobs(spark)
    assert paths(builder.build()) == expected
    names = {stage.name.split()[0] for stage in stages_of(spark, jobs(spark) - before)}
    assert "repartitionById" not in names
    assert paths(replace(builder, frame=frame.orderBy("add.path")).build()) == expected


def test_a_frame_keeps_its_order(spark, log):
    snapshot = snapshot_of(log)
    frame = state_reconstruction(spark, snapshot, 3).orderBy("add.size", ascending=False)
    files = DistributedScanBuilder(spark, snapshot, frame=frame).build().scan_files(ENGINE)
    sizes = [file.size for batch in files for file in batch.rows()]
    assert len(sizes) == 106
    assert sizes == sorted(sizes, reverse=True)


def test_the_first_files_arrive_before_the_last_task_starts(spark, log):
    snapshot = snapshot_of(log)
    before = jobs(spark)
    with DistributedScanBuilder(spark, snapshot, 14).build().scan_files(ENGINE) as batches:
        first = next(batches)
        started = sum(stage.numTasks for stage in stages_of(spark, jobs(spark) - before))
        assert started < 14
        assert first.num_selected + sum(batch.num_selected for batch in batches) == 106


def test_a_file_that_is_damaged_while_files_are_read_doubles_none(spark, tmp_path):
    log = LogWriter(ENGINE, str(tmp_path / "table"))
    actions = [*HEAD, *(file(n) for n in range(100))]
    log.commit(*actions)
    parts = log.checkpoint(0, actions, parts=20)
    snapshot = snapshot_of(log)
    scan = DistributedScanBuilder(spark, snapshot, 20).build()
    with scan.scan_files(ENGINE) as batches:
        names = [f.path for f in next(batches).rows()]
        for part in parts[10:]:
            log.put(part, b"PAR1 damaged PAR1")
        names += [f.path for batch in batches for f in batch.rows()]
    assert sorted(names) == [f"f{n:03}" for n in range(100)]


def snapshot_scan(spark, snapshot):
    return DistributedScanBuilder(spark, snapshot, 2).with_sort_key().build()


def stages_of(spark, job_ids):
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getJobInfo(job) for job in job_ids]
    stages = [tracker.getStageInfo(stage) for info in infos if info for stage in info.stageIds]
    return [stage for stage in stages if stage is not None]


def test_the_two_frames_have_the_adds_of_the_log(spark, log):
    snapshot = snapshot_of(log)
    state = state_reconstruction(spark, snapshot, 2)
    assert state.columns == ["add"]
    assert state.where("add.stats IS NOT NULL").count() == 106
    first = initial_snapshot_for_streaming(spark, snapshot, 2).select("add.*").collect()
    found = [(row.modificationTime, row.path) for row in first]
    assert found == sorted(found)
    assert len(found) == 106
    assert all(row.stats is None for row in first)
    assert first[0].partitionValues == {"day": "2024-01-01"}


def test_the_stage_has_as_many_tasks_as_were_asked_for(spark, log):
    snapshot = snapshot_of(log)
    before = jobs(spark)
    scan = DistributedScanBuilder(spark, snapshot, 5).build()
    assert len(paths(scan)) == 106
    tracker = spark.sparkContext.statusTracker()
    stages = [
        tracker.getStageInfo(stage)
        for job in jobs(spark) - before
        for stage in tracker.getJobInfo(job).stageIds
    ]
    assert 5 in [stage.numTasks for stage in stages if stage is not None]


def test_jobs_say_what_they_reconstruct(spark, log):
    snapshot = snapshot_of(log)
    spark.sparkContext.setJobDescription("mine")
    scan = DistributedScanBuilder(spark, snapshot, 2).build()
    assert scan.description == f"State Reconstruction {log.table}@2"
    assert len(paths(scan)) == 106
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "mine"
    store = spark.sparkContext._jsc.sc().statusStore()
    listed = store.jobsList(None)
    found = {str(listed.apply(i).description()) for i in range(listed.size())}
    assert f"Some({scan.description})" in found
    spark.sparkContext.setLocalProperty("spark.job.description", None)


def jobs(spark) -> set[int]:
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def test_closing_early_ends_the_jobs_and_frees_the_disk(spark, log):
    persisted = spark.sparkContext._jsc.sc().getPersistentRDDs
    before = persisted().size()
    files = DistributedScanBuilder(spark, snapshot_of(log), 4).build().scan_files(ENGINE)
    first = next(files)
    assert first.num_selected > 0
    files.close()
    assert list(files) == []
    tracker = spark.sparkContext.statusTracker()
    wait_until(lambda: not tracker.getActiveJobsIds(), what="the end of the jobs")
    assert persisted().size() == before


@pytest.mark.parametrize("by_path", [False, True])
def test_no_result_stays_with_the_scheduler(spark, log, by_path):
    jobs = spark.sparkContext._jsc.sc().dagScheduler().activeQueryToJobs()
    before = jobs.size()
    builder = DistributedScanBuilder(spark, snapshot_of(log), 4)
    scan = (builder.with_sort_key() if by_path else builder).build()
    with scan.scan_files(ENGINE) as batches:
        assert sum(batch.num_selected for batch in batches) == 106
    assert jobs.size() == before


def test_nothing_runs_before_the_first_file_is_asked_for(spark, log):
    before = jobs(spark)
    DistributedScanBuilder(spark, snapshot_of(log), 4).build().scan_files(ENGINE).close()
    assert jobs(spark) == before


def test_an_empty_table_has_no_files(spark, tmp_path):
    log = LogWriter(ENGINE, str(tmp_path / "empty"))
    log.commit(*HEAD)
    builder = DistributedScanBuilder(spark, snapshot_of(log), 2)
    assert paths(builder.build()) == paths(builder.with_sort_key().build()) == []
    assert builder.build().dataframe().count() == 0


def test_a_checkpoint_damaged_since_it_was_opened_is_survived(spark, log):
    snapshot = snapshot_of(log)
    expected = sorted(paths(snapshot.scan_builder().build()))
    name = f"{0:020d}.checkpoint.parquet"
    data = Path(log.path(name)).read_bytes()
    log.put(name, data[:100] + bytes(len(data) - 200) + data[-100:])
    assert sorted(paths(DistributedScanBuilder(spark, snapshot, 2).build())) == expected


def test_an_error_of_a_task_arrives_whole(spark, log):
    snapshot = snapshot_of(log)
    size = Path(log.table, "_delta_log", f"{1:020d}.json").stat().st_size
    log.put(f"{1:020d}.json", b"{nothing}".ljust(size - 1) + b"\n")
    spark.conf.set("bayou.replay.windowBytes", "0")
    try:
        with pytest.raises(PythonException, match=r"CorruptTableError: .*commit 1 .*line 1"):
            paths(DistributedScanBuilder(spark, snapshot, 2).build())
    finally:
        spark.conf.unset("bayou.replay.windowBytes")


def test_few_files_are_replayed_in_this_process_unless_told_otherwise(spark, conf, log):
    snapshot = snapshot_of(log)
    assert not DistributedScanBuilder(spark, snapshot).build().is_distributed
    conf("bayou.replay.localBytes", "10")
    assert DistributedScanBuilder(spark, snapshot).build().is_distributed
    conf("spark.databricks.delta.v2.distributedLogReplay.numPartitions", "7")
    conf("bayou.replay.localBytes", "1000000")
    scan = DistributedScanBuilder(spark, snapshot).build()
    assert (scan.is_distributed, scan.num_partitions) == (True, 7)


def test_without_a_number_there_are_tasks_by_the_size_of_the_log(spark, conf, log, monkeypatch):
    conf("bayou.replay.localBytes", "0")
    snapshot = snapshot_of(log)
    assert DistributedScanBuilder(spark, snapshot).build().num_partitions == 1
    size = snapshot.checkpoint_bytes + tail_bytes(snapshot)
    monkeypatch.setattr("bayou.spark.log_replay.distributed_scan.TASK_BYTES", size // 9)
    tasks = DistributedScanBuilder(spark, snapshot).build().num_partitions
    assert tasks == -(-size // (size // 9))
    assert tasks > 8


def test_columns_that_are_not_read_are_no_part_of_the_scan(spark, log):
    snapshot = snapshot_of(log)
    schema = StructType(tuple(f for f in snapshot.schema if f.name == "id"))
    scan = DistributedScanBuilder(spark, snapshot, 2).with_read_schema(schema).build()
    assert scan.scan_state(ENGINE).logical_schema == schema
    assert len(paths(scan)) == 106


def test_what_makes_no_scan_is_refused_at_once(spark, log):
    snapshot = snapshot_of(log)
    for number in (0, -1, "3"):
        with pytest.raises(ArgumentError, match=rf"num_partitions: {number!r}.*at least 1"):
            state_reconstruction(spark, snapshot, number)
    with pytest.raises(ArgumentError, match="snapshot: the argument is a str.*latest_snapshot"):
        initial_snapshot_for_streaming(spark, log.table)
    with pytest.raises(ArgumentError, match="column 'add'"):
        DistributedScanBuilder(spark, snapshot, frame=spark.range(1))
    with pytest.raises(ArgumentError, match="a Snapshot isn't a session"):
        DistributedScanBuilder(snapshot, spark)


@pytest.mark.parametrize("checksum", [True, False])
def test_more_files_than_allowed_are_refused_by_number(spark, conf, log, checksum):
    if checksum:
        log.checksum(2, tableSizeBytes=1, numFiles=106, numMetadata=1, numProtocol=1)
    snapshot = snapshot_of(log)
    conf("bayou.streaming.maxInitialSnapshotFileCount", "106")
    check_file_count(spark, ENGINE, snapshot)
    name = "spark.databricks.delta.streaming.maxFilesPerTrigger.maxInitialSnapshotFileCount"
    spark.conf.unset("bayou.streaming.maxInitialSnapshotFileCount")
    conf(name, "105")
    with pytest.raises(ArgumentError, match=r"106 files.*limited to 105 files.*maxInitialSnapshot"):
        initial_snapshot_for_streaming(spark, snapshot)


def test_partition_timestamps_without_zone_are_in_the_sessions_time_zone(spark, tmp_path):
    log = LogWriter(ENGINE, str(tmp_path / "zoned"))
    log.commit(protocol(), metadata({"at": "timestamp", "id": "long"}, ["at"]))
    log.commit(add("a", partition_values={"at": "2024-01-01 00:30:00"}))
    builder = DistributedScanBuilder(spark, snapshot_of(log))
    wanted = "at = TIMESTAMP '2023-12-31 23:30:00Z'"
    assert paths(builder.with_filter(wanted).build()) == []
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        builder = DistributedScanBuilder(spark, snapshot_of(log))
        assert paths(builder.with_filter(wanted).build()) == ["a"]
        assert paths(builder.with_time_zone("UTC").with_filter(wanted).build()) == []
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_parts_are_dealt_out_by_bytes():
    parts = [(bytes([i]), size) for i, size in enumerate([5, 90, 10, 80, 30])]
    assert assign_slices(parts, 2) == [[b"\x01", b"\x02", b"\x00"], [b"\x03", b"\x04"]]
    assert assign_slices([], 2) == [[], []]


def test_a_table_written_by_bayou_is_read_by_file(spark, tmp_path):
    path = str(tmp_path / "t")
    bayou.write(path, pa.table({"id": range(10)}))
    snapshot = Table.for_path(ENGINE, path).latest_snapshot(ENGINE)
    (found,) = DistributedScanBuilder(spark, snapshot, 1).build().scan_files(ENGINE)
    (one,) = found.rows()
    assert Path(one.status.path).exists()
    assert one.num_records is None
