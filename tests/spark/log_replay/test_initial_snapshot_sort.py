"""A stream's initial snapshot, sorted by Spark jobs for a source that has no session."""

from __future__ import annotations

import tempfile
from functools import partial

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import ArgumentError
from bayou.kernel import Snapshot
from bayou.kernel.table_changes.change_plan import path_order
from bayou.kernel.table_changes.streamed_commits import without_statistics
from bayou.spark.log_replay import initial_snapshot_sort
from bayou.spark.log_replay.initial_snapshot_sort import write_index
from bayou.spark.streaming.driver_files import (
    ALIVE,
    IndexRequest,
    index_requests,
    request_sorted_files,
)
from bayou.spark.streaming.sorted_files import SortedFiles
from support.log_writer import LogWriter, add, metadata, protocol

ENGINE = ArrowEngine()
PARTITIONS = "spark.databricks.delta.v2.streaming.initialSnapshot.numPartitions"


def test_the_index_is_the_one_that_the_source_would_make(spark, tmp_path):
    log = LogWriter(ENGINE, str(tmp_path / "t"))
    head = (protocol(), metadata({"id": "long"}))
    log.commit(*head)
    names = [f"p={n % 3}%20x/é{n:03}~.parquet" for n in range(300)]
    adds = [add(p, size=n, modificationTime=n % 4) for n, p in enumerate(names)]
    log.checkpoint(0, [*head, *adds[:250]], row_group_size=20)
    log.commit(*adds[250:])
    snapshot = Snapshot.load(ENGINE, log.table)
    folder = tmp_path / "index"
    folder.mkdir()
    spark.conf.set(PARTITIONS, "3")
    try:
        write_index(spark, ENGINE, snapshot, folder)
    finally:
        spark.conf.unset(PARTITIONS)
    files = [
        without_statistics(batch.selected().column("add"))
        for batch in snapshot.scan_builder().build().scan_files(ENGINE)
    ]
    mine = SortedFiles.build((f, path_order(f.field("path"))) for f in files)
    handed = SortedFiles.open(folder)
    assert handed is not None
    assert (handed.count, handed.size) == (mine.count, mine.size) == (300, sum(range(300)))
    assert pa.concat_arrays(list(handed.adds(0))).equals(pa.concat_arrays(list(mine.adds(0))))
    handed.close()
    assert not folder.exists()


def test_nobody_is_waited_for_who_shows_no_life(tmp_path):
    assert request_sorted_files(None, "id", 3) is None
    assert request_sorted_files(tmp_path, "id", 3) is None
    assert index_requests(tmp_path) == []


def test_a_request_says_which_version_of_which_table(tmp_path):
    (tmp_path / ALIVE).touch()
    request = IndexRequest.of(tmp_path, "a-b-c", 3)
    request.folder.mkdir()
    (request.folder / "wanted").touch()
    assert index_requests(tmp_path) == [request]


@pytest.mark.slow
def test_executors_sort_for_a_stream_of_a_large_table(spark, tmp_path, monkeypatch):
    table, jobs = str(tmp_path / "t"), []
    for n in range(6):
        bayou.write(table, pa.table({"id": [n]}))

    monkeypatch.setattr(initial_snapshot_sort, "write_index", partial(_noted, jobs))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    batches = []
    spark.conf.set(PARTITIONS, "2")
    try:
        frame = spark.readStream.format("delta").option("maxFilesPerTrigger", 2).load(table)
        for _ in range(2):  # the second run stands behind the initial snapshot: nothing is sorted
            query = (
                frame.writeStream.foreachBatch(lambda rows, n: batches.append(rows.collect()))
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(120)
            assert query.exception() is None
            bayou.write(table, pa.table({"id": [n + 1]}))
    finally:
        spark.conf.unset(PARTITIONS)
    assert [[row.id for row in rows] for rows in batches] == [[0, 1], [2, 3], [4, 5], [6]]
    assert jobs == [(5, 2)]
    assert not list(tmp_path.glob("bayou-index-*/*/sorted.arrow"))


@pytest.mark.slow
def test_a_stream_sorts_itself_where_the_jobs_fail(spark, tmp_path, monkeypatch, caplog):
    table = str(tmp_path / "t")
    bayou.write(table, pa.table({"id": [1]}))
    monkeypatch.setattr(initial_snapshot_sort, "write_index", _failing)
    reader = spark.readStream.format("delta")
    with pytest.raises(ArgumentError, match=f"{PARTITIONS}: 'few' isn't valid"):
        reader.option("bayou.streaming.initialSnapshot.numPartitions", "few").load(table)
    spark.conf.set(PARTITIONS, "2")
    try:
        frame = spark.readStream.format("delta").load(table)
        query = frame.writeStream.format("memory").queryName("alone").trigger(availableNow=True)
        assert query.start().awaitTermination(120)
    finally:
        spark.conf.unset(PARTITIONS)
    assert [row.id for row in spark.table("alone").collect()] == [1]
    assert "can't sort the files of the initial snapshot (no room)" in caplog.text


def _noted(jobs, spark, engine, snapshot, folder, num_partitions):
    jobs.append((snapshot.version, num_partitions))
    write_index(spark, engine, snapshot, folder, num_partitions)


def _failing(spark, engine, snapshot, folder, num_partitions):
    raise OSError("no room")
