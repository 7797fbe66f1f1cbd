from __future__ import annotations

import threading
from concurrent.futures import wait

import pyarrow as pa
import pytest

from bayou.kernel.data_writer import partition_files
from bayou.kernel.data_writer.partition_files import BufferedRows, PartitionWriterPool
from bayou.protocol.actions import AddFile
from support.waiting import wait_until

ROWS = BufferedRows(batches=[pa.record_batch({"n": list(range(1000))})], nbytes=8000)


def add(path):
    return AddFile(path=path, partition_values={}, size=1, modification_time=0, data_change=True)


def write_partitions(write, adds, keys):
    with PartitionWriterPool(write, adds) as files:
        for key in keys:
            files.submit((str(key),), ROWS)


def test_actions_come_in_the_order_in_which_partitions_were_begun():
    last = threading.Event()

    def write(key, batches, found):
        if key == ("0",):
            assert last.wait(60)
        found.append(add(key[0]))
        if key == ("19",):
            last.set()

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
    started = threading.Event()
    adds = []

    def write(key, batches, found):
        started.set()
        wait_until(lambda: files._pool._shutdown, what="the end of the block")
        found.append(add(key[0]))

    def fail():
        with files:
            files.submit(("0",), ROWS)
            assert started.wait(60)
            raise KeyError

    files = PartitionWriterPool(write, adds)
    with pytest.raises(KeyError):
        fail()
    assert [a.path for a in adds] == ["0"]
    assert not [t for t in threading.enumerate() if t.name.startswith("bayou-write")]


def test_no_more_rows_are_under_way_than_allowed(monkeypatch):
    monkeypatch.setattr(partition_files, "_MAX_BYTES_IN_PROGRESS", 3 * ROWS.nbytes)
    running, most = [], []
    may_end = threading.Semaphore(0)

    def write(key, batches, found):
        running.append(key)
        most.append(len(running))
        assert may_end.acquire(timeout=60)
        running.remove(key)

    def wait_for_one(under_way, return_when):
        wait_until(lambda: len(running) == len(under_way), what="all that may run")
        may_end.release()
        return wait(under_way, return_when=return_when)

    monkeypatch.setattr(partition_files, "wait", wait_for_one)
    with PartitionWriterPool(write, []) as files:
        for number in range(12):
            files.submit((str(number),), ROWS)
        may_end.release(12)
    assert max(most) == 3
