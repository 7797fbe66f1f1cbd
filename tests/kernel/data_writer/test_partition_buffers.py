"""Rows that wait for their partition's file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.errors import StorageError
from bayou.kernel.data_writer.partition_files import BufferedRows, PartitionBuffers
from bayou.kernel.data_writer.partitioner import PartitionSlice

Values = dict[str, list[int]]


def part(key: str, *numbers: int) -> PartitionSlice:
    rows = pa.record_batch({"n": pa.array(numbers, pa.int64())})
    return PartitionSlice((key,), rows, rows.nbytes)


def values(waiting: BufferedRows) -> list[int]:
    return [n for batch in waiting.combined_batches() for n in batch.column("n").to_pylist()]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_nothing_leaves_while_memory_has_room():
    buffers = PartitionBuffers(100, 50)
    buffers.add([part("a", 1, 2, 3, 4, 5, 6, 7, 8)])
    assert list(buffers.pop_full()) == []
    assert buffers.nbytes == 64


def test_partitions_worth_a_file_leave_and_others_wait_on_the_disk(folder):
    buffers = PartitionBuffers(100, 80)
    buffers.add([part("a", *range(10)), part("b", 1, 2, 3)])
    ((key, rows),) = buffers.pop_full()
    assert (key, values(rows)) == (("a",), list(range(10)))
    assert buffers.nbytes == 0
    buffers.add([part("b", 4), part("c", 5)])
    found = {key: values(rows) for key, rows in buffers.pop_all()}
    assert found == {("b",): [1, 2, 3, 4], ("c",): [5]}


def test_what_waits_on_the_disk_counts_for_a_file_too(folder):
    buffers = PartitionBuffers(100, 150)
    for _ in range(2):
        buffers.add([part("a", *range(12)), part("b", 7)])
        full = [(key, values(rows)) for key, rows in buffers.pop_full()]
    assert full == [(("a",), [*range(12), *range(12)])]
    assert [(key, values(rows)) for key, rows in buffers.pop_all()] == [(("b",), [7, 7])]


def test_temporary_files_have_no_name(folder):
    buffers = PartitionBuffers(10, 1000)
    buffers.add([part("a", 1, 2, 3)])
    assert list(buffers.pop_full()) == []
    assert list(folder.iterdir()) == []
    ((_, rows),) = buffers.pop_all()
    assert values(rows) == [1, 2, 3]


def test_rows_that_keep_a_batch_in_memory_let_go_of_it(folder):
    buffers = PartitionBuffers(1 << 20, 1 << 30)
    before = pa.total_allocated_bytes()
    for first in range(0, 1_000_000, 100_000):
        batch = pa.record_batch({"n": pa.array(range(first, first + 100_000), pa.int64())})
        halves = [batch.slice(0, 50_000), batch.slice(50_000)]
        buffers.add(PartitionSlice((str(i),), half, half.nbytes) for i, half in enumerate(halves))
        del batch, halves
        assert list(buffers.pop_full()) == []
        assert pa.total_allocated_bytes() - before < 3 << 20
    assert sum(sum(values(rows)) for _, rows in buffers.pop_all()) == sum(range(1_000_000))


def test_large_rows_are_not_combined(folder):
    batch = pa.record_batch({"s": ["x" * (9 << 20)]})
    buffers = PartitionBuffers(20 << 20, 1 << 30)
    for _ in range(4):
        buffers.add([PartitionSlice(("a",), batch, batch.nbytes)])
        assert list(buffers.pop_full()) == []
    ((_, rows),) = buffers.pop_all()
    assert [batch.num_rows for batch in rows.combined_batches()] == [1, 1, 1, 1]


def test_a_disk_that_refuses_is_named(monkeypatch, tmp_path):
    missing = tmp_path / "missing"
    monkeypatch.setattr(tempfile, "tempdir", str(missing))
    buffers = PartitionBuffers(10, 1000)
    buffers.add([part("a", 1, 2, 3)])
    with pytest.raises(StorageError, match="TMPDIR") as caught:
        list(buffers.pop_full())
    assert caught.value.path == str(missing)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.lists(st.integers(0, 9), min_size=1)), max_size=30
    ),
    st.integers(0, 200),
    st.integers(0, 200),
)
def test_every_row_comes_once_and_in_its_order(parts, memory, enough):
    buffers = PartitionBuffers(memory, enough)
    expected: Values = {}
    found: Values = {}
    for key, numbers in parts:
        expected.setdefault(key, []).extend(numbers)
        buffers.add([part(key, *numbers)])
        for (name,), rows in buffers.pop_full():
            found.setdefault(str(name), []).extend(values(rows))
    for (name,), rows in buffers.pop_all():
        found.setdefault(str(name), []).extend(values(rows))
    assert found == expected
