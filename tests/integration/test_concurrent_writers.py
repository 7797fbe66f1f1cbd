"""Writers in processes of their own, on one table on the local disk."""

from __future__ import annotations

import multiprocessing as mp
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou.errors import BayouError, CommitConflictError

WRITERS = 8
APPENDS = 50


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(WRITERS, mp.get_context("spawn")) as executor:
        yield executor


@pytest.fixture(scope="module")
def start() -> Iterator[threading.Barrier]:
    """Holds the writers until all of them are there."""
    with mp.get_context("spawn").Manager() as manager:
        yield manager.Barrier(WRITERS)


def append_many(path: str, writer: int) -> list[int]:
    return [bayou.write(path, rows(writer, i)) for i in range(APPENDS)]


def overwrite(path: str, writer: int, start) -> tuple[str, int]:
    """What became of an overwrite: its version, or that of the winner."""
    start.wait()
    try:
        return "committed", bayou.write(path, rows(writer, 0), mode="overwrite")
    except CommitConflictError as error:
        return type(error).__name__, error.winning_version


def create(path: str, writer: int, start, mode: str) -> str:
    start.wait()
    try:
        bayou.write(path, rows(writer, 0), mode=mode, partition_by=["writer"])
    except BayouError as error:
        return type(error).__name__
    return "done"


def rows(writer: int, number: int) -> pa.Table:
    return pa.table(
        {
            "writer": pa.array([writer, writer], pa.int32()),
            "number": pa.array([2 * number, 2 * number + 1], pa.int64()),
        }
    )


def data_files(path: Path) -> set[str]:
    return {str(f.relative_to(path)) for f in path.rglob("part-*.parquet")}


def hidden_files(path: Path) -> list[str]:
    return [f.name for f in path.rglob(".*")]


@pytest.mark.slow
def test_eight_writers_of_fifty_appends_make_four_hundred_versions(tmp_path, pool):
    path = str(tmp_path / "table")
    futures = [pool.submit(append_many, path, w) for w in range(WRITERS)]
    versions = [v for f in futures for v in f.result()]

    assert sorted(versions) == list(range(WRITERS * APPENDS))
    table = bayou.table(path)
    assert table.snapshot().version == WRITERS * APPENDS - 1
    expected = {(w, n): 1 for w in range(WRITERS) for n in range(2 * APPENDS)}
    assert Counter(pairs(table.to_arrow())) == expected
    assert Counter(pairs(pa.table(deltalake.DeltaTable(path).to_pyarrow_table()))) == expected

    log = tmp_path / "table" / "_delta_log"
    checkpoints = sorted(log.glob("*.checkpoint.parquet"))
    assert [int(f.name[:20]) for f in checkpoints] == list(range(10, 400, 10))
    for file in (checkpoints[0], checkpoints[-1]):
        version = int(file.name[:20])
        assert pq.read_table(file, columns=["add"]).column(0).drop_null().length() == version + 1
        assert len(deltalake.DeltaTable(path, version=version).file_uris()) == version + 1
    assert hidden_files(tmp_path) == []


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return list(
        zip(table.column("writer").to_pylist(), table.column("number").to_pylist(), strict=True)
    )


def test_of_overwrites_at_once_the_losers_raise_and_leave_nothing(tmp_path, pool, start):
    path = str(tmp_path / "table")
    bayou.write(path, rows(99, 0))
    futures = [pool.submit(overwrite, path, w, start) for w in range(WRITERS)]
    outcomes = [f.result() for f in futures]

    committed = sorted(v for kind, v in outcomes if kind == "committed")
    assert committed == list(range(1, len(committed) + 1))
    assert {kind for kind, _ in outcomes} <= {
        "committed",
        "ConcurrentAppendError",
        "ConcurrentDeleteReadError",
        "ConcurrentDeleteDeleteError",
    }
    assert all(1 <= version <= committed[-1] for _, version in outcomes)

    table = bayou.table(path)
    assert table.snapshot().version == committed[-1]
    for version in range(committed[-1] + 1):
        found = table.snapshot(version=version)
        assert found.files().num_rows == 1
        assert found.to_arrow().num_rows == 2
    named = {p for v in range(committed[-1] + 1) for p in paths(table, v)}
    assert data_files(tmp_path / "table") == named


def paths(table, version: int) -> list[str]:
    return table.snapshot(version=version).files().column("path").to_pylist()


@pytest.mark.parametrize("mode", ["append", "error", "ignore"])
def test_a_table_that_several_make_at_once_is_made_once(tmp_path, pool, start, mode):
    path = str(tmp_path / "table")
    futures = [pool.submit(create, path, w, start, mode) for w in range(WRITERS)]
    outcomes = Counter(f.result() for f in futures)

    files = bayou.table(path).snapshot().files()
    match mode:
        case "append":
            assert outcomes == {"done": WRITERS}
            assert files.num_rows == WRITERS
        case "error":
            assert outcomes == {"done": 1, "TableAlreadyExistsError": WRITERS - 1}
            assert files.num_rows == 1
        case "ignore":
            assert outcomes == {"done": WRITERS}
            assert files.num_rows == 1
    assert data_files(tmp_path / "table") == set(files.column("path").to_pylist())
