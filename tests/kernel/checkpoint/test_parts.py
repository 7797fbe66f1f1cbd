"""A checkpoint written by many: work items that travel, and what becomes of them."""

from __future__ import annotations

import time

import msgspec
import pytest

from bayou.errors import ArgumentError
from bayou.kernel import Snapshot
from bayou.kernel.checkpoint.parts import (
    CheckpointPart,
    WrittenPart,
    plan_checkpoint,
    write_checkpoint_part,
)
from bayou.kernel.checkpoint.write import checkpoint
from support.log_writer import LogWriter, add, metadata, protocol, remove, txn

NOW = time.time_ns() // 1_000_000
CLASSIC = (protocol(), metadata({"id": "long"}))
V2 = (protocol(3, 7, (["v2Checkpoint"], ["v2Checkpoint"])), metadata({"id": "long"}))


def history(log: LogWriter, head) -> None:
    """A checkpoint of ten row groups, and commits behind it."""
    actions = [*head, *(add(f"f{i}", size=i) for i in range(18))]
    log.commit(*actions, txn("app", 1))
    log.checkpoint(0, [*actions, txn("app", 1)], row_group_size=2)
    log.commit(remove("f3", deletionTimestamp=NOW), remove("f4"), add("new", size=100))


def state(log: LogWriter) -> tuple[list[str], dict[str, int]]:
    snapshot = Snapshot.load(log.engine, log.table)
    scan = snapshot.scan_builder().build()
    files = sorted(f.path for b in scan.scan_files(log.engine) for f in b.rows())
    return files, dict(snapshot.transactions)


def write_parts(log: LogWriter, parts) -> list[WrittenPart]:
    """As workers would: everything travels."""
    written = []
    for part in parts:
        item = CheckpointPart.from_bytes(part.to_bytes())
        done = msgspec.json.encode(write_checkpoint_part(log.engine, item))
        written.append(msgspec.json.decode(done, type=WrittenPart))
    return written


@pytest.mark.parametrize("head", [CLASSIC, V2], ids=["multi-part", "sidecars"])
def test_parts_make_up_the_same_table(log, head):
    history(log, head)
    before = state(log)
    plan = plan_checkpoint(log.engine, log.table, max_parts=4)
    assert 3 <= len(plan.parts) <= 5
    assert plan.finish(log.engine, write_parts(log, plan.parts)) == 1
    for version in (0, 1):
        log.delete(f"{version:020d}.json")
    log.delete(f"{0:020d}.checkpoint.parquet")
    assert state(log) == before
    found = Snapshot.load(log.engine, log.table).log_segment.checkpoint
    assert found is not None
    assert found.version == 1
    assert len(found.files) == (1 if head is V2 else len(plan.parts) + 1)


@pytest.mark.parametrize("head", [CLASSIC, V2], ids=["multi-part", "sidecars"])
def test_nobody_sees_a_checkpoint_that_was_not_finished(log, head):
    history(log, head)
    plan = plan_checkpoint(log.engine, log.table, max_parts=4)
    write_parts(log, plan.parts)
    behind = Snapshot.load(log.engine, log.table).log_segment.checkpoint
    assert behind is not None
    assert behind.version == 0


def test_a_part_that_is_missing_is_named(log):
    history(log, V2)
    plan = plan_checkpoint(log.engine, log.table, max_parts=4)
    with pytest.raises(ArgumentError, match=plan.parts[0].path):
        plan.finish(log.engine, write_parts(log, plan.parts[1:]))


@pytest.mark.parametrize("head", [CLASSIC, V2], ids=["multi-part", "sidecars"])
def test_without_a_checkpoint_there_are_no_parts(log, head):
    log.commit(*head, add("a"), add("b"))
    plan = plan_checkpoint(log.engine, log.table, max_parts=4)
    assert plan.parts == ()
    plan.finish(log.engine, ())
    log.delete(f"{0:020d}.json")
    assert state(log)[0] == ["a", "b"]


def test_a_part_can_be_written_twice(log):
    history(log, CLASSIC)
    before = state(log)
    plan = plan_checkpoint(log.engine, log.table, max_parts=3)
    write_parts(log, plan.parts)
    plan.finish(log.engine, write_parts(log, plan.parts))
    assert state(log) == before


def test_checkpoints_made_in_parts_are_built_upon(log):
    history(log, V2)
    plan = plan_checkpoint(log.engine, log.table, max_parts=3)
    plan.finish(log.engine, write_parts(log, plan.parts))
    log.commit(remove("new", size=100), add("newer"))
    before = state(log)
    checkpoint(log.engine, log.table)
    assert state(log) == before


def test_the_checksum_is_written_where_there_was_none(log):
    history(log, CLASSIC)
    plan = plan_checkpoint(log.engine, log.table, max_parts=3)
    plan.finish(log.engine, write_parts(log, plan.parts))
    segment = Snapshot.load(log.engine, log.table).log_segment
    assert segment.checksum is not None
    assert segment.checksum[0] == 1
