"""Many commits without a checkpoint are reconciled on the disk; the answers are the same."""

from __future__ import annotations

import tempfile
import tracemalloc
import uuid

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.errors import CorruptTableError
from bayou.kernel import Snapshot
from bayou.kernel.checkpoint.write import write_checkpoint
from bayou.kernel.log import replay
from support.examples import examples
from support.log_histories import histories, write
from support.log_writer import (
    LogWriter,
    add,
    commit_info,
    deletion_vector,
    metadata,
    protocol,
    remove,
    txn,
)

HEAD = (protocol(), metadata({"id": "long"}))
VECTORS = (protocol(3, 7, (["deletionVectors"], ["deletionVectors"])), metadata({"id": "long"}))


@pytest.fixture
def long_tails(monkeypatch, tmp_path):
    """Every tail counts as long; gives the folder of its files."""
    monkeypatch.setattr(replay, "SPILL_THRESHOLD_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def live(log: LogWriter, snapshot: Snapshot | None = None) -> list[str]:
    found = Snapshot.load(log.engine, log.table) if snapshot is None else snapshot
    batches = found.scan_builder().build().scan_files(log.engine)
    return sorted(f.path for batch in batches for f in batch.rows())


def removed(snapshot: Snapshot) -> list[str]:
    return [r["path"] for part in snapshot.replay_state.removes for r in part.to_pylist()]


def test_the_newest_action_of_a_file_counts(long_tails, log):
    log.commit(*HEAD, add("a"), add("b"))
    log.commit(remove("a"), txn("app", 1))
    log.commit(remove("b"), add("c"), txn("app", 2))
    log.commit(commit_info(operation="WRITE"), add("a", size=7))
    assert live(log) == ["a", "c"]
    found = Snapshot.load(log.engine, log.table)
    assert found.transactions == {"app": 2}
    assert found.replay_state.commit_info.get("operation") == "WRITE"
    assert removed(found) == ["b"]
    assert list(long_tails.iterdir()) == []  # mapped, and gone with the last who looks at it


def test_a_file_is_told_from_itself_with_another_vector_however_it_is_spelled(long_tails, log):
    log.commit(*VECTORS, add("p=ä/b%20c"), add("d e"))
    log.commit(remove("p=%c3%a4/b c"), add("p=ä/b%20c", vector=deletion_vector("x", 1)))
    state = Snapshot.load(log.engine, log.table).replay_state
    found = [(f["path"], f["deletionVector"]) for part in state.adds for f in part.to_pylist()]
    assert sorted((path, vector is not None) for path, vector in found) == [
        ("d e", False),
        ("p=ä/b%20c", True),
    ]


def test_commits_behind_a_checkpoint_take_files_out_of_it(long_tails, log):
    log.commit(*HEAD, *(add(name) for name in ("a", "b", "c d", "é")))
    log.checkpoint(0, [*HEAD, *(add(name) for name in ("a", "b", "c d", "é"))])
    log.commit(remove("b"), remove("c%20d"))
    log.commit(add("a", size=9), add("e"), remove("%C3%A9"))
    assert live(log) == ["a", "e"]


def test_keys_are_looked_up_in_pieces(long_tails, log, monkeypatch):
    monkeypatch.setattr("bayou.kernel.log.file_action_keys._LOOKUP_CHUNK_SIZE", 3)
    names = [f"f{n}" for n in range(20)]
    log.commit(*HEAD, *(add(name) for name in names))
    log.checkpoint(0, [*HEAD, *(add(name) for name in names)])
    for name in names[5:]:
        log.commit(remove(name))
    assert live(log) == sorted(names[:5])


def test_a_snapshot_of_a_long_tail_is_kept_up_to_date_by_short_ones(long_tails, log, monkeypatch):
    log.commit(*HEAD, *(add(f"f{n}") for n in range(40)))
    log.commit(remove("f1"), remove("f2"))
    known = Snapshot.load(log.engine, log.table)
    monkeypatch.setattr(replay, "SPILL_THRESHOLD_BYTES", 1 << 40)
    log.commit(remove("f3"), add("f1"), add("g"))
    known = known.refreshed(log.engine)
    assert live(log, known) == live(log)
    assert sorted(removed(known)) == ["f2", "f3"]


def test_a_checkpoint_of_a_long_tail_has_its_files_and_tombstones(tmp_path, monkeypatch):
    log = LogWriter(ArrowEngine(), str(tmp_path / "t"))
    log.commit(*HEAD, *(add(f"f{n}", stats={"numRecords": n}) for n in range(9)))
    log.commit(remove("f1", deletionTimestamp=4_000_000_000_000))
    monkeypatch.setattr(replay, "SPILL_THRESHOLD_BYTES", 0)
    write_checkpoint(log.engine, Snapshot.load(log.engine, log.table))
    for version in (0, 1):
        log.delete(f"{version:020d}.json")
    found = pa.parquet.read_table(
        tmp_path / "t" / "_delta_log" / f"{1:020d}.checkpoint.parquet", columns=["add", "remove"]
    ).to_pylist()
    assert [r["remove"]["path"] for r in found if r["remove"]] == ["f1"]
    assert len([r for r in found if r["add"]]) == 8
    log.commit(add("g"))
    assert live(log) == ["f0", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "g"]


def test_a_line_that_is_not_an_action_is_named(long_tails, log):
    log.commit(*HEAD, add("a"))
    log.put(f"{1:020d}.json", b'{"txn":{"appId":"a","version":1}}\nnonsense\n')
    with pytest.raises(CorruptTableError, match=r"commit 1 .* line 2"):
        Snapshot.load(log.engine, log.table)
    assert list(long_tails.iterdir()) == []


def test_its_memory_does_not_grow_with_the_actions(log, monkeypatch):
    names = [f"part-{n:05d}-{'x' * 60}.parquet" for n in range(24_000)]
    log.commit(*HEAD)
    for start in range(0, len(names), 2_000):
        log.commit(*(add(name) for name in names[start : start + 2_000]))
        log.commit(*(remove(name) for name in names[start : start + 1_000]))
    monkeypatch.setattr("bayou.kernel.log.action_reconciliation._MAX_BUFFERED_ACTIONS", 1_000)
    peaks = []
    for limit in (1 << 40, 0):
        monkeypatch.setattr(replay, "SPILL_THRESHOLD_BYTES", limit)
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        found = Snapshot.load(log.engine, log.table)
        peaks.append((tracemalloc.get_traced_memory()[1], pa.total_allocated_bytes() - before))
        tracemalloc.stop()
        assert sum(len(part) for part in found.replay_state.adds) == 12_000
        del found
    (python, arrow), (long_python, long_arrow) = peaks
    assert max(python, long_python) < 20 * 36_000  # the actions as objects are much larger
    assert long_arrow < arrow / 4


@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(history=histories())
def test_every_version_is_what_the_reference_says(history, monkeypatch):
    monkeypatch.setattr(replay, "SPILL_THRESHOLD_BYTES", 0)
    log = LogWriter(MemoryEngine(), f"memory://{uuid.uuid4().hex}/table")
    earliest = write(history, log)
    for version in range(earliest, len(history.commits)):
        snapshot = Snapshot.load(log.engine, log.table, version)
        expected = history.versions[version]
        batches = snapshot.scan_builder().build().scan_files(log.engine)
        files = {f.add.key: f.size for batch in batches for f in batch.rows()}
        assert files == {k: a["add"]["size"] for k, a in expected.files.items()}
        assert snapshot.transactions == expected.transactions
