from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from bayou.kernel.writes import partition_files
from bayou.kernel.writes.partition_buffers import WaitingRows
from bayou.kernel.writes.partition_files import PartitionFiles
from bayou.protocol.actions import AddFile

ROWS = WaitingRows(batches=[pa.record_batch({"n": list(range(1000))})], nbytes=8000)


def add(path):
    return AddFile(path=path, partition_values={}, size=1, modification_time=0, data_change=True)


def write_partitions(write, adds, keys):
    with PartitionFiles(write, adds) as files:
        for key in keys:
            files.begin((str(key),), ROWS)


def test_actions_come_in_the_order_in_which_partitions_were_begun():
    def write(key, batches, found):
        time.sleep(0.02 if key == ("0",) else 0)
        found.append(add(key[0]))

    adds = []
    write_partitions(write, adds, range(20))
    assert [a.path for a in adds] == [str(n) for n in range(20)]


def test_an_error_is_raised_and_what_is_written_is_told():
    def write(key, batches, found):
        found.append(add(key[0]))
        if key == ("3",):
            raise ValueError("disk full")

    adds = []
    with pytest.raises(ValueError, match="disk full"):
        write_partitions(write, adds, range(4))
    assert "3" in [a.path for a in adds]


def test_an_error_of_the_rows_waits_for_the_files_under_way():
    done = []

    def write(key, batches, found):
        time.sleep(0.02)
        found.append(add(key[0]))
        done.append(key)

    def keys():
        yield 0
        time.sleep(0.005)
        raise KeyError

    adds = []
    with pytest.raises(KeyError):
        write_partitions(write, adds, keys())
    assert [a.path for a in adds] == [key[0] for key in done]
    assert not [t for t in threading.enumerate() if t.name.startswith("bayou-write")]


def test_no_more_rows_are_under_way_than_allowed(monkeypatch):
    monkeypatch.setattr(partition_files, "_MOST_BYTES", 3 * ROWS.nbytes)
    running, most = [], []

    def write(key, batches, found):
        running.append(key)
        most.append(len(running))
        time.sleep(0.005)
        running.remove(key)

    write_partitions(write, [], range(12))
    assert max(most) <= 3
