"""Statistics that a scan leaves for the next one of the same checkpoint."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from bayou.engines.memory.json import MemoryJsonHandler
from bayou.kernel import Snapshot
from bayou.kernel.checkpoint.stats import CheckpointStatisticsCache, StatisticsCache
from support.log_writer import LogWriter, WireAction, add, metadata, protocol, remove

HEAD = (protocol(), metadata({"day": "date", "id": "long", "name": "string"}, ["day"]))
FILTERS = [
    "id = 25",
    "id >= 20 AND id < 60",
    "id > 1000",
    "name = 'n3'",
    "id = 25 OR name = 'n5'",
    "name IS NULL",
    "day = '2024-01-01' AND id < 40",
    "NOT (id < 50)",
]


def part(number: int) -> WireAction:
    bounds = {"id": number * 10, "name": f"n{number}"}
    stats = {
        "numRecords": 10,
        "minValues": bounds,
        "maxValues": {**bounds, "id": number * 10 + 9},
        "nullCount": {"id": 0, "name": number % 2},
    }
    return add(f"{number}", partition_values={"day": f"2024-01-0{number % 2 + 1}"}, stats=stats)


class CountingJson(MemoryJsonHandler):
    """Knows how many texts it parsed."""

    parsed = 0

    def parse_json(self, texts: Any, schema: pa.Schema) -> pa.RecordBatch:
        self.parsed += len(texts)
        return super().parse_json(texts, schema)


@pytest.fixture(params=["one file", "parts", "sidecars"])
def table(request, log: LogWriter) -> LogWriter:
    """Ten files in a checkpoint, of which one was removed since; one was added."""
    head = HEAD
    if request.param == "sidecars":
        head = (protocol(3, 7, (["v2Checkpoint"], ["v2Checkpoint"])), HEAD[1])
    files = [part(n) for n in range(10)]
    log.commit(*head)
    log.commit(*files)
    if request.param == "sidecars":
        log.v2_checkpoint(1, [*head, *files], sidecars=3)
    else:
        log.checkpoint(
            1, [*head, *files], parts=3 if request.param == "parts" else None, row_group_size=4
        )
    log.commit(part(10), remove("2", partition_values={"day": "2024-01-01"}))
    return log


def kept(log: LogWriter, max_bytes: int = 1 << 20) -> tuple[Snapshot, StatisticsCache]:
    store = StatisticsCache(max_bytes)
    known = CheckpointStatisticsCache(store)
    return Snapshot.load(log.engine, log.table).with_statistics_cache(known), store


def found(log: LogWriter, snapshot: Snapshot, text: str) -> list[str]:
    scan = snapshot.scan_builder().with_filter(text).build()
    return sorted(f.path for batch in scan.scan_files(log.engine) for f in batch.rows())


@pytest.mark.parametrize("text", FILTERS)
def test_a_second_scan_finds_the_same_files(table, text):
    expected = found(table, Snapshot.load(table.engine, table.table), text)
    snapshot, _ = kept(table)
    assert [found(table, snapshot, text) for _ in range(3)] == [expected] * 3


def test_scans_with_other_filters_share_what_they_have_in_common(table):
    plain = Snapshot.load(table.engine, table.table)
    snapshot, store = kept(table)
    for text in FILTERS * 2:
        assert found(table, snapshot, text) == found(table, plain, text)
    assert 0 < store.memory_bytes < 1 << 20


def test_a_second_scan_parses_the_tail_alone(table, monkeypatch):
    json = CountingJson(table.engine.files)
    monkeypatch.setattr(type(table.engine), "json", property(lambda _: json))
    snapshot, _ = kept(table)
    assert found(table, snapshot, "id = 25 OR id = 105") == ["10"]
    first, json.parsed = json.parsed, 0
    assert found(table, snapshot, "id = 31 OR id = 105") == ["10", "3"]
    assert (first, json.parsed) == (11, 1)


def test_newer_commits_leave_what_is_known(table):
    snapshot, store = kept(table)
    found(table, snapshot, "id = 25")
    size = store.memory_bytes
    table.commit(part(11), remove("3", partition_values={"day": "2024-01-02"}))
    newer = snapshot.refreshed(table.engine)
    assert newer.statistics_cache is snapshot.statistics_cache
    assert found(table, newer, "id >= 30 AND id < 50 OR id = 115") == ["11", "4"]
    assert store.memory_bytes >= size


def test_another_checkpoint_is_read_anew(log):
    log.commit(*HEAD)
    log.commit(part(0), part(1))
    log.checkpoint(1, [*HEAD, part(0), part(1)])
    snapshot, _ = kept(log)
    assert found(log, snapshot, "id < 5") == ["0"]
    log.commit(part(2))
    log.checkpoint(2, [*HEAD, part(0), part(1), part(2)])
    newer = snapshot.refreshed(log.engine)
    assert newer.statistics_cache is None
    assert found(log, newer, "id >= 10") == ["1", "2"]


def test_a_scan_that_ends_early_keeps_nothing(table):
    snapshot, store = kept(table)
    with snapshot.scan_builder().with_filter("id >= 0").build().scan_files(table.engine) as files:
        next(files)
        next(files)
    assert store.memory_bytes == 0


def test_more_than_the_limit_is_not_kept(table):
    snapshot, store = kept(table, max_bytes=10)
    assert found(table, snapshot, "id = 35") == found(table, snapshot, "id = 35") == ["3"]
    assert store.memory_bytes == 0


def test_what_was_used_longest_ago_goes_first(log):
    log.commit(*HEAD)
    log.commit(part(0), part(1))
    log.checkpoint(1, [*HEAD, part(0), part(1)])
    snapshot, store = kept(log)
    found(log, snapshot, "id = 5")
    one = store.memory_bytes
    found(log, snapshot, "name = 'n1'")
    both = store.memory_bytes
    store.set_max_bytes(both)
    found(log, snapshot, "id = 5")
    store.set_max_bytes(both - 1)
    assert store.memory_bytes == one


def test_tables_forget_their_own_only(log):
    log.commit(*HEAD)
    log.commit(part(0))
    log.checkpoint(1, [*HEAD, part(0)])
    snapshot, store = kept(log)
    other = snapshot.with_statistics_cache(CheckpointStatisticsCache(store))
    found(log, snapshot, "id = 5")
    one = store.memory_bytes
    found(log, other, "id = 5")
    assert store.memory_bytes == 2 * one
    snapshot.statistics_cache.clear()
    assert store.memory_bytes == one
    store.clear()
    assert store.memory_bytes == 0
