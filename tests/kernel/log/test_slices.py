"""Slices: the tail of commits, and runs of row groups of checkpoint files."""

from __future__ import annotations

import pytest

from bayou.errors import ArgumentError
from bayou.kernel import FileSplit, LogSlice, Scan, Snapshot
from bayou.kernel.log import slices as slices_module
from bayou.kernel.scan.scan_file import adds_to_array
from bayou.protocol.actions import AddFile
from support.log_writer import LogWriter, add, metadata, protocol

HEAD = (protocol(), metadata({"id": "long"}))
FILES = [add(f"{n:03}") for n in range(40)]
ADD = AddFile(path="a", partition_values={}, size=1, modification_time=2, data_change=True)


def slices(log: LogWriter, max_slices: int | None = None) -> list[LogSlice]:
    scan = Snapshot.load(log.engine, log.table).scan_builder().build()
    return scan.slices(log.engine, max_slices)


def files_of(log: LogWriter, part: LogSlice) -> list[str]:
    scan = Snapshot.load(log.engine, log.table).scan_builder().build()
    return [f.path for b in scan.replay_slice(log.engine, part) for f in b.rows()]


def test_without_a_checkpoint_the_tail_is_the_only_slice(log):
    log.commit(*HEAD, *FILES)
    (tail,) = slices(log, 8)
    assert tail.split is None
    assert tail.adds is not None
    assert len(tail.adds) == len(FILES)


def test_an_empty_table_has_no_slice(log):
    log.commit(*HEAD)
    assert slices(log, 8) == []


def test_unless_more_are_wanted_a_file_is_a_slice(log):
    log.commit(*HEAD)
    log.checkpoint(0, [*HEAD, *FILES], parts=3, row_group_size=2)
    found = slices(log, 3)
    assert [s.split.path for s in found] == [
        log.path(f"{0:020d}.checkpoint.{n:010d}.0000000003.parquet") for n in (1, 2, 3)
    ]
    assert all(s.estimated_bytes == s.split.size > 0 for s in found)
    assert all(s.split.end_row_group is None for s in found)


@pytest.mark.parametrize("wanted", [2, 4, 100])
def test_a_file_is_split_between_its_row_groups(log, wanted):
    log.commit(*HEAD)
    log.checkpoint(0, [*HEAD, *FILES], row_group_size=3)
    found = slices(log, wanted)
    assert 1 < len(found) <= wanted
    splits = [s.split for s in found]
    assert splits[0].first_row_group == 0
    assert [s.first_row_group for s in splits[1:]] == [s.end_row_group for s in splits[:-1]]
    assert splits[-1].end_row_group == 14
    assert sorted(p for s in found for p in files_of(log, s)) == [f"{n:03}" for n in range(40)]


def test_never_is_a_row_group_split(log):
    log.commit(*HEAD)
    log.checkpoint(0, [*HEAD, *FILES], row_group_size=1000)
    assert len(slices(log, 50)) == 1


def test_the_tail_comes_before_the_checkpoint(log):
    log.commit(*HEAD)
    log.checkpoint(0, [*HEAD, *FILES[:2]])
    log.commit(FILES[2])
    tail, checkpoint = slices(log)
    assert files_of(log, tail) == ["002"]
    assert files_of(log, checkpoint) == ["000", "001"]


@pytest.mark.parametrize(
    "part",
    [
        LogSlice(adds=adds_to_array([ADD])),
        LogSlice(
            split=FileSplit(path="s3://b/ü", size=9, first_row_group=1, end_row_group=4),
            estimated_bytes=7,
        ),
    ],
)
def test_a_slice_comes_back_from_its_bytes(part):
    assert LogSlice.from_bytes(part.to_bytes()) == part


def test_a_long_tail_is_cut_where_slices_are_wanted(log, monkeypatch):
    monkeypatch.setattr(slices_module, "_TAIL_ROWS", 2)
    log.commit(*HEAD, *FILES)
    assert len(slices(log, None)) == 1
    parts = slices(log, 8)
    assert len(parts) == -(-len(FILES) // 2)
    found = [f for part in parts for f in files_of(log, LogSlice.from_bytes(part.to_bytes()))]
    assert found == files_of(log, slices(log, None)[0])


def test_a_scan_that_came_as_bytes_lists_no_slices(log):
    log.commit(*HEAD, *FILES)
    scan = Snapshot.load(log.engine, log.table).scan_builder().build()
    with pytest.raises(ArgumentError, match="was deserialized"):
        Scan.from_bytes(scan.to_bytes()).slices(log.engine)
