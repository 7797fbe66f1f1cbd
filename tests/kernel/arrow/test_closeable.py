from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pytest

import bayou
from bayou.api.table import TableHandle
from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.engines.memory.engine import MemoryFiles
from bayou.kernel import CloseableIterator, Engine, Operation, Scan, Table, closeable, write_data
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.engine import ByteRange, FileSplit

SIDECARS = {"delta.checkpointPolicy": "v2"}


class Source:
    """Counts how often it is closed."""

    def __init__(self, items: list[Any]) -> None:
        self.items = iter(items)
        self.closed = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self.items)

    def close(self) -> None:
        self.closed += 1


def test_a_with_block_closes_what_is_iterated_over() -> None:
    source = Source([1, 2, 3])
    with CloseableIterator(source) as numbers:
        assert next(numbers) == 1
    assert source.closed == 1


def test_nothing_comes_from_a_closed_iterator_and_closing_again_does_nothing() -> None:
    source = Source([1, 2, 3])
    numbers = CloseableIterator(source)
    numbers.close()
    numbers.close()
    assert list(numbers) == []
    assert source.closed == 1


def test_map_filter_and_flat_map_give_their_items_in_order() -> None:
    numbers = CloseableIterator([1, 2, 3, 4])
    result = numbers.filter(lambda n: n % 2 == 0).map(lambda n: n * 10).flat_map(range)
    assert list(result) == [*range(20), *range(40)]


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize(
    "chain",
    [
        lambda items: items.map(str),
        lambda items: items.filter(bool),
        lambda items: items.flat_map(lambda n: [n, n]),
        lambda items: items.map(str).filter(bool).flat_map(lambda n: [n]),
    ],
)
def test_closing_the_end_of_a_chain_closes_its_beginning(
    chain: Callable[[CloseableIterator[int]], CloseableIterator[Any]], begun: bool
) -> None:
    source = Source([1, 2, 3])
    result = chain(CloseableIterator(source))
    if begun:
        next(result)
    result.close()
    assert source.closed == 1


def test_flat_map_closes_each_inner_iterator_at_its_end_and_when_it_stops_early() -> None:
    inner = [Source([1]), Source([2, 3]), Source([4])]
    with CloseableIterator(inner).flat_map(lambda source: source) as numbers:
        assert [next(numbers), next(numbers)] == [1, 2]
        assert [source.closed for source in inner] == [1, 0, 0]
    assert [source.closed for source in inner] == [1, 1, 0]


def test_a_generator_function_is_closed_where_it_stands() -> None:
    log = []

    @closeable
    def numbers(count: int) -> Iterator[int]:
        try:
            yield from range(count)
        finally:
            log.append("closed")

    with numbers(10) as first:
        assert next(first) == 0
    assert log == ["closed"]


def test_all_sources_are_closed_also_where_one_fails() -> None:
    class Failing(Source):
        def close(self) -> None:
            raise ValueError("can't")

    last = Source([])
    numbers = CloseableIterator(Failing([1]), Failing([]), last)
    with pytest.raises(ValueError, match="can't"):
        numbers.close()
    assert last.closed == 1


class CountingFiles(MemoryFiles):
    """Knows which inputs are open."""

    def __init__(self) -> None:
        self.open = 0
        self.opened = 0

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        files = self
        source = super().open_input(path, size)

        class Counted(type(source)):  # type: ignore[misc]
            def close(self) -> None:
                if not self.closed:
                    files.open -= 1
                super().close()

        self.open += 1
        self.opened += 1
        return Counted(source.read())


@pytest.fixture
def table(table_path: str) -> str:
    """Four files of four row groups each, in a checkpoint's sidecar and behind it."""
    for first in range(4):
        rows = pa.table({"id": range(first * 100, first * 100 + 100)})
        bayou.write(table_path, rows, configuration=SIDECARS if first == 0 else None)
        if first == 2:
            Table(table_path).checkpoint(MemoryEngine())
    return table_path


def test_a_scan_that_stops_early_leaves_no_file_open(table: str) -> None:
    files = CountingFiles()
    engine = ArrowEngine(files=files)
    scan = Table.for_path(engine, table).latest_snapshot(engine).scan_builder().build()
    assert files.open == 0
    held = scan.scan_files(engine)
    kept_alive = [next(held), next(held)]
    assert files.open == 1
    held.close()
    assert files.open == 0
    assert sum(batch.num_selected for batch in kept_alive) >= 2


def test_reading_a_data_file_that_stops_early_leaves_no_file_open(table: str) -> None:
    files = CountingFiles()
    engine = ArrowEngine(files=files)
    scan = Table.for_path(engine, table).latest_snapshot(engine).scan_builder().build()
    state = scan.scan_state(engine)
    with scan.scan_files(engine).flat_map(lambda batch: batch.rows()) as found:
        file = next(found)
        split = FileSplit(path=file.status.path, size=file.size)
        physical = engine.parquet.read_parquet_files(
            [split, split], state.physical_read_schema, batch_size=10
        )
        logical = Scan.transform_physical_data(engine, state, file, physical)
        next(logical)
        assert files.open == 1
        logical.close()
        assert files.open == 0


def test_a_reader_of_a_table_that_is_let_go_leaves_no_file_open(table: str) -> None:
    files = CountingFiles()
    engine = ArrowEngine(files=files)
    handle = TableHandle(engine, Table.for_path(engine, table))
    reader = handle.to_batches(limit=1_000_000)  # files one by one: none is read to its end ahead
    reader.read_next_batch()
    assert files.open > 0
    del reader
    assert files.open == 0


def test_iterators_that_were_never_begun_open_nothing(table: str) -> None:
    files = CountingFiles()
    engine = ArrowEngine(files=files)
    scan = Table.for_path(engine, table).latest_snapshot(engine).scan_builder().build()
    opened = files.opened
    scan.scan_files(engine).close()
    scan.scan_files(engine).flat_map(lambda batch: batch.rows()).close()
    assert files.opened == opened


def handles() -> set[str]:
    """What this process has open, on the disk."""
    gc.collect()
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return {path for path in found if path.startswith("/") and "/_delta_log/" in path}


def test_no_handle_of_the_operating_system_stays_open(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for number in range(3):
        rows = pa.table({"id": range(100)})
        bayou.write(path, rows, configuration=SIDECARS if number == 0 else None)
    engine: Engine = ArrowEngine()
    Table(path).checkpoint(engine)
    scan = Table(path).latest_snapshot(engine).scan_builder().build()
    held = scan.scan_files(engine)
    next(held)
    assert len(handles()) == 1
    held.close()
    assert handles() == set()


def test_what_a_writer_yields_can_be_closed_and_leaves_nothing(table_path: str) -> None:
    engine = ArrowEngine(files=MemoryFiles())
    batch = pa.RecordBatch.from_pydict({"id": [1, 2]})
    table = Table(table_path)
    transaction = (
        table.create_transaction_builder(engine, "test", Operation.WRITE)
        .with_schema(from_arrow_schema(batch.schema))
        .build(engine)
    )
    source = Source([batch])
    state = transaction.transaction_state(engine)
    transaction.transform_logical_data(engine, state, source, {}).close()
    assert source.closed == 1
    write_data(engine, state, [batch])
    with engine.files.list_from(f"{table_path}/") as listed:
        (status,) = listed
    with engine.files.read_files([ByteRange(path=status.path)]) as contents:
        assert next(contents)[:4] == b"PAR1"
