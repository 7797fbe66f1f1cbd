"""Replay of random histories against a reference made of dictionaries, at every version."""

from __future__ import annotations

import tempfile
import uuid

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.kernel import Engine, LogSlice, Scan, Snapshot
from bayou.kernel.log.slices import replay_checkpoint_adds
from bayou.kernel.scan.scan_file import ADD_TYPE, ScanFile
from bayou.protocol.file_names import canonical_path
from support.examples import examples
from support.log_histories import (
    Key,
    Reference,
    copy_to_disk,
    histories,
    vector_id,
    write,
)
from support.log_writer import LogWriter


def replayed(engine: Engine, snapshot: Snapshot) -> dict[Key, int]:
    """All live files, those with vectors too, which a scan refuses as yet."""
    state, segment = snapshot.replay_state, snapshot.log_segment
    adds = [add for part in state.adds for add in part.to_pylist()]
    for part in snapshot.scan_builder().build().slices(engine):
        if part.split is None:
            continue
        columns = [f.name for f in ADD_TYPE]
        for found, unseen in replay_checkpoint_adds(
            engine, segment.table, part.split, state.seen_keys, columns
        ):
            adds += (found if unseen is None else found.filter(unseen)).to_pylist()
    sizes = {(canonical_path(a["path"]), vector_id(a["deletionVector"])): a["size"] for a in adds}
    assert len(sizes) == len(adds)
    return sizes


def scanned(engine: Engine, snapshot: Snapshot, max_slices: int | None) -> list[ScanFile]:
    """The files of a scan whose slices are replayed as by other processes."""
    scan = snapshot.scan_builder().build()
    slices = [part.to_bytes() for part in scan.slices(engine, max_slices)]
    elsewhere = scan.to_bytes()
    return [
        ScanFile.from_bytes(file.to_bytes())
        for part in reversed(slices)
        for batch in Scan.from_bytes(elsewhere).replay_slice(engine, LogSlice.from_bytes(part))
        for file in batch.rows()
    ]


def check(engine: Engine, table: str, version: int, expected: Reference, slices: int | None):
    snapshot = Snapshot.load(engine, table, version)
    assert snapshot.version == version
    check_snapshot(engine, snapshot, expected, slices)


def check_snapshot(engine: Engine, snapshot: Snapshot, expected: Reference, slices: int | None):
    assert snapshot.transactions == expected.transactions
    assert snapshot.schema.names == tuple(f"c{i}" for i in range(expected.columns))
    sizes = {key: action["add"]["size"] for key, action in expected.files.items()}
    assert replayed(engine, snapshot) == sizes
    files = scanned(engine, snapshot, slices)
    assert {f.add.key: f.size for f in files} == sizes
    assert len(files) == len(sizes)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(), max_slices=st.sampled_from([None, 1, 2, 5, 100]))
def test_every_version_is_what_the_reference_says(history, max_slices):
    memory = MemoryEngine()
    log = LogWriter(memory, f"memory://{uuid.uuid4().hex}/table")
    earliest = write(history, log)
    with tempfile.TemporaryDirectory() as folder:
        copy_to_disk(log, folder)
        for version in range(earliest, len(history.commits)):
            expected = history.versions[version]
            check(memory, log.table, version, expected, max_slices)
            check(ArrowEngine(), folder, version, expected, max_slices)
        assert Snapshot.load(memory, log.table).version == len(history.commits) - 1


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(), steps=st.sets(st.integers(0, 8)))
def test_a_snapshot_kept_up_to_date_is_the_one_that_is_read_anew(history, steps):
    engine = MemoryEngine()
    log = LogWriter(engine, f"memory://{uuid.uuid4().hex}/table")
    known: Snapshot | None = None
    for version, actions in enumerate(history.commits):
        log.commit(*actions)
        if version in steps or version == len(history.commits) - 1:
            known = Snapshot.load(engine, log.table) if known is None else known.refreshed(engine)
            assert known.version == version
            check_snapshot(engine, known, history.versions[version], None)
        if history.checkpoints.get(version) is not None:
            log.checkpoint(version, history.versions[version].checkpoint())
