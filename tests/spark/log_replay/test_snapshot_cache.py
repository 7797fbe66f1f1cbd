"""Snapshots of the driver's process: kept, kept up to date, bounded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.errors import TableNotFoundError
from bayou.spark import clear_cache
from bayou.spark.log_replay import snapshot_cache
from bayou.spark.log_replay.snapshot_cache import SnapshotCache, latest_snapshot


@pytest.fixture
def paths(tmp_path) -> list[str]:
    found = [str(tmp_path / name) for name in "abc"]
    for path in found:
        write(path)
    return found


def write(path: str) -> None:
    bayou.write(path, pa.table({"id": [1]}))


def test_an_unchanged_table_is_the_same_object(paths):
    cache, engine = SnapshotCache(), ArrowEngine()
    first = cache.latest(engine, paths[0])
    assert cache.latest(ArrowEngine(), paths[0]) is first
    assert (len(cache), cache.memory_bytes) == (1, first.memory_bytes)


def test_commits_of_others_are_seen_at_once(paths):
    cache, engine = SnapshotCache(), ArrowEngine()
    for version in range(4):
        assert cache.latest(engine, paths[0]).version == version
        write(paths[0])
    assert len(cache) == 1


def test_other_credentials_share_nothing(paths):
    cache = SnapshotCache()
    first = cache.latest(ArrowEngine(), paths[0])
    assert cache.latest(ArrowEngine({"aws_access_key_id": "k"}), paths[0]) is not first


def test_the_table_read_longest_ago_goes_first(paths):
    engine = ArrowEngine()
    sizes = [SnapshotCache().latest(engine, path).memory_bytes for path in paths]
    cache = SnapshotCache(sum(sizes[:2]) + 10)
    first, second = (cache.latest(engine, path) for path in paths[:2])
    assert cache.latest(engine, paths[0]) is first
    cache.latest(engine, paths[2])
    assert cache.memory_bytes <= sum(sizes[:2]) + 10
    assert cache.latest(engine, paths[0]) is first
    assert cache.latest(engine, paths[1]) is not second


def test_a_limit_of_zero_keeps_nothing(paths):
    cache = SnapshotCache()
    cache.latest(ArrowEngine(), paths[0])
    cache.latest(ArrowEngine(), paths[1], max_bytes=0)
    assert (len(cache), cache.memory_bytes) == (0, 0)


def test_the_setting_limits_the_cache_of_the_process(paths, monkeypatch):
    clear_cache()
    engine, kept = ArrowEngine(), snapshot_cache._SNAPSHOTS
    latest_snapshot(engine, paths[0])
    assert len(kept) == 1
    monkeypatch.setenv("BAYOU_SNAPSHOTCACHE_MAXBYTES", "0")
    latest_snapshot(engine, paths[0])
    assert len(kept) == 0


def test_a_table_that_is_gone_is_forgotten(paths, tmp_path):
    cache, engine = SnapshotCache(), ArrowEngine()
    cache.latest(engine, paths[0])
    (tmp_path / "a").rename(tmp_path / "moved")
    with pytest.raises(TableNotFoundError):
        cache.latest(engine, paths[0])
    assert (len(cache), cache.memory_bytes) == (0, 0)


def test_clearing_gives_the_memory_back(paths):
    cache, engine = SnapshotCache(), ArrowEngine()
    first = cache.latest(engine, paths[0])
    cache.clear()
    assert (len(cache), cache.memory_bytes) == (0, 0)
    assert cache.latest(engine, paths[0]) is not first


def test_many_threads_see_what_was_committed_before_they_asked(paths):
    cache, engine = SnapshotCache(), ArrowEngine()

    def look(_: int) -> bool:
        write(paths[0])
        known = SnapshotCache().latest(engine, paths[0]).version
        return cache.latest(engine, paths[0]).version >= known

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(look, range(8)))
    assert len(cache) == 1
    assert cache.memory_bytes == cache.latest(engine, paths[0]).memory_bytes


def test_statistics_count_and_go_with_their_table(tmp_path):
    engine, names = ArrowEngine(), ("a", "b")
    for name in names:
        bayou.write(str(tmp_path / name), pa.table({"id": [1]}))
        bayou.table(str(tmp_path / name)).create_checkpoint()
    cache = SnapshotCache()
    sizes = []
    for name in names:
        snapshot = cache.latest(engine, str(tmp_path / name))
        before = cache.memory_bytes
        list(snapshot.scan_builder().with_filter("id = 1").build().scan_files(engine))
        sizes.append(cache.memory_bytes - before)
    assert sizes[0] == sizes[1] > 0
    (tmp_path / "a").rename(tmp_path / "moved")
    with pytest.raises(TableNotFoundError):
        cache.latest(engine, str(tmp_path / "a"))
    assert cache.memory_bytes == snapshot.memory_bytes + sizes[1]
    cache.clear()
    assert cache.memory_bytes == 0
