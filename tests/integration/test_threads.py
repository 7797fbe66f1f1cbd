"""Readers in many threads, beside a writer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

import bayou
from bayou.engines.arrow import ArrowEngine
from bayou.kernel import Table
from support.examples import examples


def test_one_table_is_read_by_sixteen_threads_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for i in range(8):
        bayou.write(path, pa.table({"part": [i] * 100, "id": range(100)}), partition_by=["part"])
    table = bayou.table(path)
    snapshot = table.snapshot()
    start = threading.Barrier(16)

    def read(number: int) -> tuple[int, int, int, list[int]]:
        start.wait()
        part = number % 8
        return (
            snapshot.to_arrow(filter=f"part = {part} AND id >= 90").num_rows,
            table.to_arrow(version=part).num_rows,
            snapshot.files(filter=f"id = {number}").num_rows,
            sorted(set(table.to_arrow(columns=["part"]).column("part").to_pylist())),
        )

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(read, range(16)))
    for number, found in enumerate(results):
        assert found == (10, (number % 8 + 1) * 100, 8, list(range(8)))


def test_a_reader_beside_a_writer_never_sees_half_a_commit(tmp_path: Path) -> None:
    """Each commit replaces both partitions; every version holds its number in each of them."""
    path, rounds = str(tmp_path / "t"), examples(1000)
    engine = ArrowEngine()

    def rows(version: int) -> pa.Table:
        return pa.table({"side": ["left", "right"], "version": [version, version]})

    bayou.write(path, rows(0), partition_by=["side"])
    done = False
    written = 0
    changed = threading.Condition()
    seen: list[set[int]] = []

    def write() -> None:
        nonlocal done, written
        try:
            for version in range(1, rounds + 1):
                properties = {"delta.checkpointInterval": "7"} if version == 1 else None
                committed = bayou.write(path, rows(version), "overwrite", configuration=properties)
                assert committed == version
                if version % 10 == 0:
                    Table.for_path(engine, path).checkpoint(engine)
                with changed:
                    written = version
                    changed.notify_all()
        finally:
            with changed:
                done = True
                changed.notify_all()

    def read() -> None:
        versions: set[int] = set()
        table = bayou.table(path)
        while not done:
            snapshot = table.snapshot()
            found = sorted(map(tuple, (r.values() for r in snapshot.to_arrow().to_pylist())))
            assert found == [("left", snapshot.version), ("right", snapshot.version)]
            assert not versions or snapshot.version >= max(versions)
            versions.add(snapshot.version)
            with changed:  # the writer goes on meanwhile
                changed.wait_for(lambda seen=snapshot.version: done or written > seen)
        seen.append(versions)

    with ThreadPoolExecutor(3) as pool:
        work = [pool.submit(write), *(pool.submit(read) for _ in range(2))]
        for task in work:
            task.result()
    assert bayou.table(path).snapshot().version == rounds
    assert len(set().union(*seen)) > 3
