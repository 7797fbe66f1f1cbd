"""Checkpoints by an engine's workers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bayou.errors import StorageError
from bayou.kernel import Snapshot, Table
from bayou.kernel.checkpoint.parts import (
    CheckpointPart,
    CheckpointWorkers,
    WrittenPart,
    plan_checkpoint,
    write_checkpoint_part,
    write_checkpoint_with_workers,
)
from support.log_writer import LogWriter, add, metadata, protocol

CLASSIC = (protocol(), metadata({"id": "long"}))
V2 = (protocol(3, 7, (["v2Checkpoint"], ["v2Checkpoint"])), metadata({"id": "long"}))
HEADS = pytest.mark.parametrize("head", [CLASSIC, V2], ids=["multi-part", "sidecars"])


class WorkingEngine:
    """An engine whose workers are this process."""

    def __init__(self, engine, parts: int = 3, fails: bool = False, gone: bool = False) -> None:
        self._engine = engine
        self._parts = parts
        self._fails = fails
        self._gone = gone
        self.asked: list[int] = []
        self.written = 0

    def __getattr__(self, name: str):
        return getattr(self._engine, name)

    def checkpoint_parts(self, log_bytes: int) -> int:
        self.asked.append(log_bytes)
        return self._parts

    def write_checkpoint_parts(
        self, table: str, parts: Sequence[CheckpointPart]
    ) -> Sequence[WrittenPart] | None:
        if self._gone:
            return None
        done = []
        for part in parts:
            done.append(write_checkpoint_part(self._engine, part))
            self.written += 1
            if self._fails:
                raise StorageError("the disk is full", path=part.path)
        return done


def history(log: LogWriter, head) -> None:
    actions = [*head, *(add(f"f{i}", size=i) for i in range(18))]
    log.commit(*actions)
    log.checkpoint(0, actions, row_group_size=2)
    log.commit(add("new", size=100))


def files(log: LogWriter) -> list[str]:
    scan = Snapshot.load(log.engine, log.table).scan_builder().build()
    return sorted(f.path for b in scan.scan_files(log.engine) for f in b.rows())


def checkpoint_of(log: LogWriter):
    found = Snapshot.load(log.engine, log.table).log_segment.checkpoint
    assert found is not None
    return found


@HEADS
def test_workers_write_what_is_large(log, head):
    history(log, head)
    before = files(log)
    engine = WorkingEngine(log.engine)
    assert isinstance(engine, CheckpointWorkers)
    assert write_checkpoint_with_workers(engine, log.table) == 1
    assert engine.written > 1
    assert engine.asked[0] > 0
    for version in (0, 1):
        log.delete(f"{version:020d}.json")
    log.delete(f"{0:020d}.checkpoint.parquet")
    assert files(log) == before
    assert len(checkpoint_of(log).files) == (1 if head is V2 else engine.written + 1)


def test_what_is_small_is_written_here(log):
    history(log, CLASSIC)
    engine = WorkingEngine(log.engine, parts=1)
    assert Table(log.table).checkpoint(engine) == 1
    assert engine.written == 0
    assert len(checkpoint_of(log).files) == 1


def test_a_log_without_a_checkpoint_is_written_here(log):
    log.commit(*CLASSIC, add("a"))
    engine = WorkingEngine(log.engine)
    assert write_checkpoint_with_workers(engine, log.table) == 0
    assert engine.asked == []
    assert files(log) == ["a"]


@HEADS
def test_where_workers_cannot_be_had_it_is_written_here(log, head):
    history(log, head)
    before = files(log)
    assert write_checkpoint_with_workers(WorkingEngine(log.engine, gone=True), log.table) == 1
    assert checkpoint_of(log).version == 1
    assert files(log) == before


@HEADS
def test_of_workers_that_fail_nobody_sees_anything(log, head):
    history(log, head)
    before = files(log)
    with pytest.raises(StorageError):
        write_checkpoint_with_workers(WorkingEngine(log.engine, fails=True), log.table)
    assert checkpoint_of(log).version == 0
    assert write_checkpoint_with_workers(WorkingEngine(log.engine), log.table) == 1
    assert checkpoint_of(log).version == 1
    assert files(log) == before


def test_parts_that_lie_there_already_are_not_mixed_with_new_ones(log):
    history(log, CLASSIC)
    other = plan_checkpoint(log.engine, log.table, max_parts=3)
    write_checkpoint_part(log.engine, other.parts[0])
    engine = WorkingEngine(log.engine)
    assert write_checkpoint_with_workers(engine, log.table) == 1
    assert engine.written == 0
    assert len(checkpoint_of(log).files) == 1


def test_two_that_plan_the_parts_of_one_version_do_not_mix_them(log):
    """The second one reads another checkpoint, so that its parts hold other files."""
    history(log, CLASSIC)
    for name in "abc":
        log.commit(add(name))
    before = files(log)
    first = plan_checkpoint(log.engine, log.table, max_parts=2)
    everything = [*CLASSIC, *(add(path) for path in before if path != "c")]
    log.checkpoint(3, everything, row_group_size=2)
    second = plan_checkpoint(log.engine, log.table, max_parts=2)
    assert (len(first.parts), len(second.parts)) == (2, 0)
    written = [write_checkpoint_part(log.engine, part) for part in first.parts]
    assert second.finish(log.engine, []) == 4
    assert first.finish(log.engine, written) == 4
    for version in (0, 3):
        log.delete(f"{version:020d}.checkpoint.parquet")
    assert files(log) == before


def test_a_claim_of_parts_goes_with_the_checkpoint_that_they_make(log):
    history(log, CLASSIC)
    assert write_checkpoint_with_workers(WorkingEngine(log.engine), log.table) == 1
    assert write_checkpoint_with_workers(WorkingEngine(log.engine, gone=True), log.table) == 1
    names = [s.path for s in log.engine.files.list_from(f"{log.table}/_delta_log/.")]
    assert not [name for name in names if name.endswith(".tmp")]
