"""How much of the store opening and planning a table takes."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import IO

import pytest

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory.engine import MemoryFiles
from bayou.kernel import ByteRange, Snapshot
from bayou.protocol.last_checkpoint import LastCheckpoint, encode
from support.log_writer import LogWriter, add, metadata, protocol

HEAD = (protocol(), metadata({"id": "long"}))
V2 = (protocol(3, 7, (["v2Checkpoint"], ["v2Checkpoint"])), HEAD[1])


class CountingFiles(MemoryFiles):
    """Knows how often it was asked, and for what."""

    def __init__(self) -> None:
        self.lists: list[str] = []
        self.gets: list[str] = []
        self.opens: list[str] = []

    def list_from(self, path: str):
        self.lists.append(path)
        return super().list_from(path)

    def read_files(self, ranges: Iterable[ByteRange]):
        wanted = list(ranges)
        self.gets += [_name(r.path) for r in wanted]
        return super().read_files(wanted)

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        self.opens.append(_name(path))
        return super().open_input(path, size)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


@pytest.fixture
def files() -> CountingFiles:
    return CountingFiles()


def write(log: LogWriter, *, kind: str) -> None:
    """Version 20 has a checkpoint, two commits follow."""
    log.commit(*HEAD)
    for version in range(1, 20):
        log.commit(add(f"{version}"))
    log.commit(add("20"))
    adds = [add(f"{version}") for version in range(1, 21)]
    if kind == "v2":
        log.v2_checkpoint(20, [*V2, *adds], kind="json", sidecars=3)
    else:
        log.checkpoint(20, [*HEAD, *adds])
    log.put("_last_checkpoint", encode(LastCheckpoint(version=20, size=22)))
    log.commit(add("21"))
    log.commit(add("22"))
    if kind == "checksum":
        log.checksum(
            22,
            protocol=HEAD[0]["protocol"],
            metadata=HEAD[1]["metaData"],
            setTransactions=[],
            domainMetadata=[],
        )


CHECKPOINT = f"{20:020d}.checkpoint.parquet"
TAIL = [f"{22:020d}.json", f"{21:020d}.json"]


def test_opening_a_table_with_a_checkpoint_takes_one_list_and_few_gets(log, files):
    write(log, kind="classic")
    Snapshot.load(ArrowEngine(files=files), log.table)
    assert len(files.lists) == 1
    assert files.gets == ["_last_checkpoint", *TAIL, CHECKPOINT]
    assert files.opens == []


def test_a_large_checkpoint_is_opened_for_its_kinds_its_actions_and_its_files(log, files):
    stats = {"long": random.Random(4).randbytes(1 << 20).hex()}
    log.commit(*HEAD, add("1"))
    log.checkpoint(0, [*HEAD, add("1", stats=stats)])
    engine = ArrowEngine(files=files)
    scan = Snapshot.load(engine, log.table).scan_builder().build()
    assert len(files.opens) == 2
    with scan.scan_files(engine) as batches:
        assert sum(batch.num_selected for batch in batches) == 1
    assert files.opens == [f"{0:020d}.checkpoint.parquet"] * 3


def test_with_a_checksum_the_checkpoint_is_not_opened(log, files):
    write(log, kind="checksum")
    Snapshot.load(ArrowEngine(files=files), log.table)
    assert len(files.lists) == 1
    assert files.gets == ["_last_checkpoint", *TAIL, f"{22:020d}.crc"]
    assert files.opens == []


def test_opening_a_table_with_sidecars_opens_none_of_them(log, files):
    write(log, kind="v2")
    Snapshot.load(ArrowEngine(files=files), log.table)
    assert len(files.lists) == 1
    assert len(files.gets) == 4
    assert files.opens == []


@pytest.mark.parametrize(
    ("kind", "gets", "opens"), [("classic", 0, 0), ("checksum", 1, 0), ("v2", 0, 3)]
)
def test_planning_reads_each_file_of_the_checkpoint_once(log, files, kind, gets, opens):
    write(log, kind=kind)
    engine = ArrowEngine(files=files)
    scan = Snapshot.load(engine, log.table).scan_builder().build()
    files.opens.clear()
    files.gets.clear()
    found = [f.path for b in scan.scan_files(engine) for f in b.rows()]
    assert len(found) == 22
    assert len(files.lists) == 1
    assert files.gets == [CHECKPOINT] * gets
    assert len(files.opens) == opens


def test_several_scans_of_a_snapshot_read_a_small_checkpoint_once(log, files):
    write(log, kind="classic")
    engine = ArrowEngine(files=files)
    snapshot = Snapshot.load(engine, log.table)
    for _ in range(3):
        with snapshot.scan_builder().build().scan_files(engine) as batches:
            assert sum(batch.num_selected for batch in batches) == 22
    assert files.gets.count(CHECKPOINT) == 1
    assert files.opens == []
