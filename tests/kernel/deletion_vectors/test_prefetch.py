"""Deletion vectors of many files, read in few requests."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from bayou.api.table import TableHandle
from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory.engine import MemoryFiles
from bayou.errors import CorruptTableError, DataFileError
from bayou.kernel import ByteRange, Table, prefetch_vectors
from bayou.kernel.deletion_vectors import prefetch
from bayou.protocol.actions import DeletionVectorDescriptor
from support.log_writer import LogWriter, add, metadata, protocol, remove
from support.vectors import inline_vector, write_vectors

FEATURES = (["deletionVectors"], ["deletionVectors"])


class CountingFiles(MemoryFiles):
    """Knows the ranges that were asked for, call by call."""

    def __init__(self) -> None:
        self.calls: list[list[ByteRange]] = []

    def read_files(self, ranges: Iterable[ByteRange]):
        wanted = list(ranges)
        self.calls.append(wanted)
        return super().read_files(wanted)

    @property
    def of_vectors(self) -> list[list[ByteRange]]:
        return [
            call for call in self.calls if any("deletion_vector" in wanted.path for wanted in call)
        ]


@pytest.fixture
def files() -> CountingFiles:
    return CountingFiles()


@pytest.fixture
def log(files: CountingFiles) -> LogWriter:
    return LogWriter(ArrowEngine(files=files), f"memory://{uuid.uuid4()}/t")


def descriptors(log: LogWriter, *rows: list[int]) -> list[DeletionVectorDescriptor]:
    return [
        DeletionVectorDescriptor(
            storage_type=d["storageType"],
            path_or_inline_dv=d["pathOrInlineDv"],
            offset=d.get("offset"),
            size_in_bytes=d["sizeInBytes"],
            cardinality=d["cardinality"],
        )
        for d in write_vectors(log.engine, log.table, *rows)
    ]


def write_file(log: LogWriter, name: str, rows: int = 10) -> int:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(rows)}), sink)
    log.engine.files.put(f"{log.table}/{name}", sink.getvalue())
    return len(sink.getvalue())


def test_vectors_side_by_side_in_one_file_are_one_range(log, files):
    vectors = descriptors(log, *([n] for n in range(50)))
    files.calls.clear()
    found = list(prefetch_vectors(log.engine, log.table, vectors, lambda v: [v]))
    assert [item for item, _ in found] == vectors
    assert [loaded[item] for item, loaded in found] == [BitMap64([n]) for n in range(50)]
    assert [len(call) for call in files.calls] == [1]


def test_vectors_of_several_files_come_in_one_call(log, files):
    vectors = [*descriptors(log, [1], [2]), *descriptors(log, [3]), *descriptors(log, [4])]
    files.calls.clear()
    found = list(prefetch_vectors(log.engine, log.table, reversed(vectors), lambda v: [v]))
    assert [loaded[item] for item, loaded in found] == [BitMap64([n]) for n in (4, 3, 2, 1)]
    assert [len(call) for call in files.calls] == [3]


def test_vectors_far_apart_are_ranges_of_their_own(log, files, monkeypatch):
    monkeypatch.setattr(prefetch, "_MAX_GAP_BYTES", 0)
    vectors = descriptors(log, [1], list(range(0, 1000, 3)), [3])
    files.calls.clear()
    list(prefetch_vectors(log.engine, log.table, [vectors[0], vectors[2]], lambda v: [v]))
    assert [len(call) for call in files.calls] == [2]


def test_items_are_taken_a_few_at_a_time(log, files, monkeypatch):
    monkeypatch.setattr(prefetch, "_MAX_CHUNK_FILES", 4)
    vectors = descriptors(log, *([n] for n in range(10)))
    files.calls.clear()
    taken: list[int] = []
    source = (taken.append(i) or v for i, v in enumerate(vectors))
    with prefetch_vectors(log.engine, log.table, source, lambda v: [v]) as found:
        assert next(found)[1] == {vectors[0]: BitMap64([0])}
        assert (len(taken), len(files.calls)) == (4, 1)
        assert len(list(found)) == 9
    assert len(files.calls) == 3


def test_items_without_vectors_and_vectors_in_the_log_need_no_request(log, files):
    inline = DeletionVectorDescriptor(
        storage_type="i",
        path_or_inline_dv=str(inline_vector([1])["pathOrInlineDv"]),
        size_in_bytes=1,
        cardinality=1,
    )
    found = list(prefetch_vectors(log.engine, log.table, [None, inline], lambda v: [v]))
    assert found == [(None, {}), (inline, {})]
    assert files.calls == []


def test_a_vector_that_cant_be_read_names_its_file(log):
    (vector,) = descriptors(log, [1])
    (path,) = (f.path for f in log.engine.files.list_from(f"{log.table}/deletion"))
    log.engine.files.put(path, b"\x01\x02")
    with pytest.raises(DataFileError, match="deletion_vector_"):
        list(prefetch_vectors(log.engine, log.table, [vector], lambda v: [v]))
    log.engine.files.delete_files([path])
    with pytest.raises(DataFileError, match=r"deletion_vector_.* is missing"):
        list(prefetch_vectors(log.engine, log.table, [vector], lambda v: [v]))
    unknown = DeletionVectorDescriptor(
        storage_type="x", path_or_inline_dv="", size_in_bytes=1, cardinality=1
    )
    with pytest.raises(CorruptTableError, match="unknown storage type"):
        list(prefetch_vectors(log.engine, log.table, [unknown], lambda v: [v]))


def test_a_table_whose_files_share_a_vector_file_reads_it_once(log, files):
    vectors = write_vectors(log.engine, log.table, *([n] for n in range(10)))
    log.commit(protocol(3, 7, FEATURES), metadata({"id": "long"}))
    for n, vector in enumerate(vectors):
        size = write_file(log, f"f{n}")
        log.commit(add(f"f{n}", vector=vector, size=size, stats={"numRecords": 10}))
    handle = TableHandle(log.engine, Table.for_path(log.engine, log.table))
    files.calls.clear()
    assert handle.to_arrow().num_rows == 90
    assert [len(call) for call in files.of_vectors] == [1]


def test_changes_of_vectors_in_one_file_read_it_once(log, files):
    feed = {"delta.enableChangeDataFeed": "true"}
    vectors = write_vectors(log.engine, log.table, *([n] for n in range(10)))
    log.commit(protocol(3, 7, FEATURES), metadata({"id": "long"}, (), feed))
    sizes = [write_file(log, f"f{n}") for n in range(10)]
    log.commit(*(add(f"f{n}", size=size) for n, size in enumerate(sizes)))
    marks = [
        action
        for n, (size, vector) in enumerate(zip(sizes, vectors, strict=True))
        for action in (
            remove(f"f{n}", partitionValues={}, size=size),
            add(f"f{n}", size=size, vector=vector),
        )
    ]
    log.commit(*marks)
    handle = TableHandle(log.engine, Table.for_path(log.engine, log.table))
    files.calls.clear()
    changes = handle.changes(2)
    assert sorted(changes.to_arrow().column("id").to_pylist()) == list(range(10))
    assert [len(call) for call in files.of_vectors] == [1]
