"""A stream's initial snapshot, sorted by Spark jobs for a source that has no session."""

from __future__ import annotations

import pyarrow as pa

from bayou.engines.arrow import ArrowEngine
from bayou.kernel import Snapshot
from bayou.kernel.changes.commit_files import without_statistics
from bayou.kernel.changes.path_order import path_order
from bayou.spark.replay.sorted_index import write_index
from bayou.spark.streaming.handed_index import ALIVE, IndexRequest, handed_index, requests
from bayou.spark.streaming.sorted_files import SortedFiles
from bayou.testing.log_writer import LogWriter, add, metadata, protocol

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
    assert handed.is_there


def test_nobody_is_waited_for_who_shows_no_life(tmp_path):
    assert handed_index(None, "id", 3) is None
    assert handed_index(tmp_path, "id", 3) is None
    assert requests(tmp_path) == []


def test_a_request_says_which_version_of_which_table(tmp_path):
    (tmp_path / ALIVE).touch()
    request = IndexRequest.of(tmp_path, "a-b-c", 3)
    request.folder.mkdir()
    (request.folder / "wanted").touch()
    assert requests(tmp_path) == [request]
