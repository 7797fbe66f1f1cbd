"""Rows of many files: order, memory, stopping early, how much is fetched."""

from __future__ import annotations

import gc
import json
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.api.table import TableHandle
from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.files import ArrowFiles
from bayou.errors import ArgumentError, DataFileError
from bayou.kernel import Table
from support.log_writer import LogWriter, add, metadata, protocol

FILES, ROWS = 12, 1000


class CountedFile:
    """A file that counts the bytes read, and is no file of the operating system's to pyarrow."""

    def __init__(self, inner, files):
        self._inner = inner
        self._files = files
        self.closed = False

    def read(self, size=-1):
        data = self._inner.read(size)
        with self._files.lock:
            self._files.bytes_read += len(data)
            self._files.requests += 1
        return bytes(data)

    def seek(self, *arguments):
        return self._inner.seek(*arguments)

    def tell(self):
        return self._inner.tell()

    def readable(self):
        return True

    def seekable(self):
        return True

    def writable(self):
        return False

    def flush(self):
        pass

    def size(self):
        return self._inner.size()

    def close(self):
        if not self.closed:
            self.closed = True
            self._inner.close()
            with self._files.lock:
                self._files.open_files -= 1


class CountingFiles(ArrowFiles):
    """Counts what is opened and read."""

    def __init__(self):
        super().__init__({})
        self.lock = threading.Lock()
        self.opened = []
        self.open_files = self.bytes_read = self.requests = 0

    def open_input(self, path, size=None):
        file = CountedFile(super().open_input(path, size), self)
        with self.lock:
            self.opened.append(path)
            self.open_files += 1
        return file


@pytest.fixture
def files() -> CountingFiles:
    return CountingFiles()


@pytest.fixture
def table(tmp_path, files) -> TableHandle:
    log = LogWriter(ArrowEngine(), str(tmp_path / "t"))
    actions = []
    for i in range(FILES):
        rows = range(i * ROWS, (i + 1) * ROWS)
        data = pa.table(
            {"id": list(rows), "file": [i] * ROWS, "pad": [f"{r:02000d}" for r in rows]}
        )
        path = f"{log.table}/f{i:02d}"
        pq.write_table(data, path, row_group_size=250, compression="none", use_dictionary=False)
        size = log.engine.files.status(path).size
        actions.append(add(f"f{i:02d}", size=size))
    log.commit(protocol(), metadata({"id": "long", "file": "long", "pad": "string"}), *actions)
    engine = ArrowEngine(files=files)
    return TableHandle(engine, Table.for_path(engine, log.table))


def listed(table):
    """Numbers of the files in the order in which the log lists them."""
    return [int(path[1:]) for path in table.snapshot().files().column("path").to_pylist()]


def test_to_arrow_gives_file_after_file(table):
    found = table.to_arrow(columns=["id", "file"])
    expected = [row for i in listed(table) for row in range(i * ROWS, (i + 1) * ROWS)]
    assert found.column("id").to_pylist() == expected


def test_to_batches_keeps_the_order_of_rows_inside_a_file(table):
    seen = {}
    for batch in table.to_batches(columns=["id", "file"]):
        (number,) = set(batch.column("file").to_pylist())
        seen.setdefault(number, []).extend(batch.column("id").to_pylist())
    assert seen == {i: list(range(i * ROWS, (i + 1) * ROWS)) for i in range(FILES)}


def test_a_limit_reads_no_more_files_than_it_needs(table, files):
    found = table.to_arrow(limit=ROWS + 1)
    assert found.num_rows == ROWS + 1
    assert len(files.opened) <= 3
    assert files.open_files == 0
    assert table.to_arrow(limit=0).num_rows == 0
    assert table.to_batches(filter="id >= 100", limit=7).read_all().num_rows == 7


def test_a_negative_limit_is_refused(table):
    with pytest.raises(ArgumentError, match="limit: -1"):
        table.to_arrow(limit=-1)


def test_a_reader_that_is_let_go_closes_its_files(table, files):
    reader = table.to_batches()
    reader.read_next_batch()
    del reader
    gc.collect()
    assert files.open_files == 0
    assert not [t for t in threading.enumerate() if t.name.startswith("bayou-read")]


def test_two_narrow_columns_do_not_cost_the_download_of_the_file(table, files):
    whole = FILES * ROWS * 2000
    table.to_arrow(columns=["id", "file"])
    assert files.open_files == 0
    assert files.bytes_read < whole // 10


def test_a_missing_file_among_many_is_named_and_nothing_stays_open(table, files, tmp_path):
    (tmp_path / "t" / "f07").unlink()
    with pytest.raises(DataFileError, match="f07 is missing"):
        table.to_arrow()
    assert files.open_files == 0


def test_a_file_that_is_cut_off_is_named(table, files, tmp_path):
    path = tmp_path / "t" / "f03"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataFileError, match=r"f03 can't be read") as caught:
        table.to_arrow()
    assert caught.value.file == str(path)


def test_rows_are_counted_without_opening_a_file(tmp_path):
    path = str(tmp_path / "t")
    vectors = {"delta.enableDeletionVectors": "true"}
    bayou.write(path, pa.table({"id": range(10)}), configuration=vectors)
    bayou.write(path, pa.table({"id": range(10, 13)}))
    bayou.table(path).delete("id IN (1, 2)")
    snapshot = bayou.table(path).snapshot()
    assert snapshot.count() == len(snapshot.to_arrow()) == 11
    for file in tmp_path.rglob("*.parquet"):
        file.unlink()
    assert bayou.table(path).snapshot().count() == 11


def test_rows_of_files_without_statistics_are_counted_in_the_files(tmp_path):
    path = tmp_path / "t"
    for _ in range(2):
        bayou.write(str(path), pa.table({"id": [1, 2]}))
    commit = path / "_delta_log" / f"{1:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    commit.write_text("\n".join(map(json.dumps, actions)))
    assert bayou.table(str(path)).snapshot().count() == 4


def test_an_empty_table_has_no_rows(tmp_path):
    bayou.write(str(tmp_path), pa.table({"id": pa.array([], pa.int64())}))
    assert bayou.table(str(tmp_path)).snapshot().count() == 0
