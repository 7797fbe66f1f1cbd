"""Parquet far away: few requests, side by side, and only for the columns wanted."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.parquet_files.ranged_input import Chunk, RangedInput
from bayou.engines.memory.engine import MemoryFiles
from bayou.errors import StorageError
from bayou.kernel import ByteRange, FileSplit, closeable
from support.examples import examples

MB = 1 << 20


class CountingFiles(MemoryFiles):
    """Knows each request: offset and length, of ranges and of reads of an opened file."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.reads: list[tuple[int, int]] = []

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        for wanted in ranges:
            with super().read_files([wanted]) as contents:
                data = next(contents)
            self.ranges.append((wanted.offset, len(data)))
            yield data

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        reads = self.reads

        class Counted(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                offset = self.tell()
                data = super().read(size)
                reads.append((offset, len(data)))
                return data

        return Counted(super().open_input(path, size).read())

    @property
    def bytes(self) -> int:
        return sum(length for _, length in self.ranges + self.reads)


def put(files: MemoryFiles, path: str, table: pa.Table, row_group_size: int) -> FileSplit:
    sink = io.BytesIO()
    pq.write_table(
        table, sink, row_group_size=row_group_size, compression="none", use_dictionary=False
    )
    files.put(path, sink.getvalue())
    return FileSplit(path=path, size=len(sink.getvalue()))


@pytest.fixture
def wide(table_path: str) -> FileSplit:
    """20 columns of 800 KB each, in four row groups: 16 MB."""
    table = pa.table({f"c{i}": pa.array(range(100_000), pa.int64()) for i in range(20)})
    return put(MemoryFiles(), f"{table_path}/wide.parquet", table, 25_000)


@pytest.fixture
def table_path(tmp_path) -> str:
    return f"memory:/{tmp_path}"


def test_two_of_many_columns_are_two_columns_worth_of_bytes(wide: FileSplit) -> None:
    files = CountingFiles()
    schema = pa.schema([("c3", pa.int64()), ("c17", pa.int64())])
    batches = list(ArrowEngine(files=files).parquet.read_parquet_files([wide], schema))
    table = pa.Table.from_batches(batches)
    assert table.column("c17").to_pylist() == list(range(100_000))
    assert wide.size > 16_000_000
    assert files.bytes < 2 * 810_000 + 70_000  # the columns, and the footer
    assert len(files.ranges) == 8  # a row group's chunk of a column each
    assert len(files.reads) == 1  # the footer


def test_columns_side_by_side_are_one_request_a_row_group(wide: FileSplit) -> None:
    files = CountingFiles()
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(5, 9)])
    list(ArrowEngine(files=files).parquet.read_parquet_files([wide], schema))
    assert len(files.ranges) == 4


def test_row_groups_that_are_skipped_are_not_fetched(wide: FileSplit) -> None:
    from bayou.kernel import col

    files = CountingFiles()
    schema = pa.schema([("c0", pa.int64())])
    batches = list(
        ArrowEngine(files=files).parquet.read_parquet_files([wide], schema, col("c0") < 10)
    )
    assert sum(batch.num_rows for batch in batches) == 25_000
    assert len(files.ranges) == 1


def test_a_small_file_is_one_request(table_path: str) -> None:
    split = put(MemoryFiles(), f"{table_path}/small", pa.table({"a": range(1000)}), 100)
    files = CountingFiles()
    schema = pa.schema([("a", pa.int64())])
    batches = list(ArrowEngine(files=files).parquet.read_parquet_files([split], schema))
    assert sum(batch.num_rows for batch in batches) == 1000
    assert (len(files.reads), len(files.ranges)) == (1, 0)


def test_a_large_chunk_is_several_requests(table_path: str) -> None:
    text = pa.array(["x" * 1000 + str(i) for i in range(20_000)])
    split = put(MemoryFiles(), f"{table_path}/large", pa.table({"t": text}), 20_000)
    files = CountingFiles()
    schema = pa.schema([("t", pa.string())])
    batches = list(ArrowEngine(files=files).parquet.read_parquet_files([split], schema))
    assert pa.Table.from_batches(batches).column("t").combine_chunks().equals(text)
    assert [length for _, length in files.ranges][:2] == [8 * MB, 8 * MB]
    assert len(files.ranges) == 3


class ConcurrentFiles(MemoryFiles):
    """Ranges are read by threads, as from an object store; none returns before all have started."""

    def __init__(self, requests: int) -> None:
        self.started = threading.Barrier(requests, timeout=60)

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        from bayou.engines.arrow.storage.object_store_files import ObjectStoreFiles

        store = ObjectStoreFiles()
        store._read = self._read_together  # type: ignore[method-assign]
        with store.read_files(ranges) as contents:
            yield from contents

    def _read_together(self, wanted: ByteRange) -> bytes:
        self.started.wait()
        return next(MemoryFiles().read_files([wanted]))


def test_the_next_row_groups_are_on_their_way_while_one_is_decoded(wide: FileSplit) -> None:
    files = ConcurrentFiles(requests=8)  # all four row groups, with two columns each
    schema = pa.schema([("c0", pa.int64()), ("c10", pa.int64())])
    with ArrowEngine(files=files).parquet.read_parquet_files([wide], schema) as batches:
        assert next(batches).num_rows > 0  # a request that is missing breaks the barrier


def test_a_file_that_is_cut_off_is_an_error_that_names_it(wide: FileSplit) -> None:
    files = CountingFiles()
    data = next(MemoryFiles().read_files([ByteRange(path=wide.path)]))
    files.put(wide.path, data[:4] + data[8_000_000:])  # the footer is there, columns aren't
    split = FileSplit(path=wide.path, size=len(data) - 8_000_000 + 4)
    schema = pa.schema([("c0", pa.int64())])
    with pytest.raises(StorageError, match=r"wide\.parquet"):
        list(ArrowEngine(files=files).parquet.read_parquet_files([split], schema))


@settings(max_examples=examples(200))
@given(
    st.integers(1, 3_000_000),
    st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(1, 1_000_000)), max_size=8),
    st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(0, 1_500_000)), max_size=20),
)
def test_whatever_was_expected_any_read_gives_the_files_bytes(
    size: int, expected: list[tuple[int, int]], reads: list[tuple[int, int]]
) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    files = CountingFiles()
    files.put("memory://ranged/x", data)
    with RangedInput(io.BytesIO(data), files, "memory://ranged/x", size) as source:
        chunks = [Chunk(o, min(n, size - o)) for o, n in expected if o < size]
        source.prefetch([chunks[:4], chunks[4:]])
        for offset, length in [*reads, *chunks, *chunks]:
            source.seek(offset)
            assert source.read(length) == data[offset : offset + length]
            assert source.tell() == max(offset, min(size, offset + length))
