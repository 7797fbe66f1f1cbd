"""Replay of random histories against a reference made of dictionaries, at every version."""

from __future__ import annotations

import tempfile
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayou.engines.arrow import ArrowEngine
from bayou.engines.memory import MemoryEngine
from bayou.kernel import ByteRange, Engine, LogSlice, Scan, Snapshot
from bayou.kernel.scan_file import ADD_TYPE, ScanFile
from bayou.kernel.slices import replay_checkpoint_adds
from bayou.kernel.upkeep.checkpoint import checkpoint
from bayou.protocol.data_file_paths import canonical_path, spellings
from bayou.protocol.last_checkpoint import LastCheckpoint, encode
from bayou.testing.log_writer import (
    LogWriter,
    WireAction,
    add,
    deletion_vector,
    metadata,
    protocol,
    remove,
    txn,
)

PATHS = [
    "a.parquet",
    "b%20c.parquet",
    "b%2520c.parquet",
    "p=x%252Fy/d*~.parquet",
    "p=ü/é.parquet",
    "s3://other/table/e%20f.parquet",
    "file:/other/ä.parquet",
]
VECTORS = [None, deletion_vector("v1"), deletion_vector("v1", 4), deletion_vector("v2", 0)]
PROTOCOL = protocol(3, 7, (["deletionVectors"], ["deletionVectors"]))

Key: TypeAlias = tuple[str, str | None]


@dataclass(frozen=True)
class Reference:
    """One version, as dictionaries."""

    files: dict[Key, WireAction] = field(default_factory=dict)
    removed: dict[Key, WireAction] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    columns: int = 1

    def after(self, action: WireAction) -> Reference:
        ((kind, body),) = action.items()
        if kind == "txn":
            return replace(self, transactions={**self.transactions, body["appId"]: body["version"]})
        if kind == "metaData":
            return replace(self, columns=self.columns + 1)
        key = (canonical_path(body["path"]), vector_id(body.get("deletionVector")))
        files = {k: v for k, v in self.files.items() if k != key}
        removed = {k: v for k, v in self.removed.items() if k != key}
        if kind == "add":
            return replace(self, files={**files, key: action}, removed=removed)
        return replace(self, files=files, removed={**removed, key: action})

    def metadata(self) -> WireAction:
        return metadata({f"c{i}": "long" for i in range(self.columns)})

    def checkpoint(self) -> list[WireAction]:
        return [
            PROTOCOL,
            *self.files.values(),
            self.metadata(),
            *(txn(app, version) for app, version in self.transactions.items()),
            *self.removed.values(),
        ]


def vector_id(vector: Any) -> str | None:
    """PROTOCOL.md, Deletion Vector Descriptor Schema, derived field uniqueId."""
    if vector is None:
        return None
    suffix = f"@{vector['offset']}" if vector.get("offset") is not None else ""
    return vector["storageType"] + vector["pathOrInlineDv"] + suffix


@dataclass(frozen=True)
class History:
    """A log, and what holds at each of its versions."""

    commits: list[list[WireAction]]
    versions: list[Reference]
    checkpoints: dict[int, Any]
    hint: Any
    cleaned_up: bool
    row_group_size: int


@st.composite
def histories(draw: st.DrawFn) -> History:
    now = Reference()
    commits, versions = [], []
    for version in range(draw(st.integers(1, 9))):
        actions = [PROTOCOL, metadata({"c0": "long"})] if version == 0 else []
        vectors = draw(st.sampled_from([VECTORS[:1], VECTORS]))
        for path in draw(st.lists(st.sampled_from(PATHS), unique=True, max_size=5)):
            actions += changes(draw, now, path, vectors)
        for app in draw(st.lists(st.sampled_from("xyz"), unique=True, max_size=2)):
            actions.append(txn(app, draw(st.integers(0, 9))))
        for action in actions[2:] if version == 0 else actions:
            now = now.after(action)
        if version and draw(st.integers(0, 5)) == 0:
            now = replace(now, columns=now.columns + 1)
            actions.append(now.metadata())
        commits.append(actions)
        versions.append(now)
    return History(
        commits=commits,
        versions=versions,
        checkpoints=draw(
            st.dictionaries(
                st.integers(0, len(commits) - 1),
                st.sampled_from(["one file", "ours", "two parts", "three parts", "part missing"]),
                max_size=3,
            )
        ),
        hint=draw(st.sampled_from([None, "right", "stale", "ahead", b"", b'{"version":1', b"[]"])),
        cleaned_up=draw(st.booleans()),
        row_group_size=draw(st.integers(1, 4)),
    )


def changes(draw: st.DrawFn, now: Reference, path: str, vectors: list[Any]) -> list[WireAction]:
    """What a commit does to one file, spelled as it comes: each key at most once."""
    live = [key for key in now.files if key[0] == canonical_path(path)]
    path = draw(st.sampled_from(spellings(path)))
    vector = draw(st.sampled_from(vectors))
    size = draw(st.integers(1, 9))
    if not live:
        return [draw(st.sampled_from([add(path, size=size, vector=vector), remove(path)]))]
    old = now.files[live[0]]["add"].get("deletionVector")
    gone = remove(path, vector=old, deletionTimestamp=4102444800000)
    match draw(st.sampled_from(["remove", "again", "new vector"])):
        case "remove":
            return [gone]
        case "new vector" if vector_id(old) != vector_id(vector):
            return [gone, add(path, size=size, vector=vector)]
        case _:
            return [add(path, size=size, vector=old)]


def write(history: History, log: LogWriter) -> int:
    """Write the log; gives the earliest version that can be rebuilt."""
    complete: list[int] = []
    for version, actions in enumerate(history.commits):
        log.commit(*actions)
        reference = history.versions[version].checkpoint()
        kind = history.checkpoints.get(version)
        if kind == "ours":
            checkpoint(log.engine, log.table, version)
        elif kind == "one file":
            log.checkpoint(version, reference, row_group_size=history.row_group_size)
        elif kind is not None:
            parts = 2 if kind == "two parts" else 3
            names = log.checkpoint(
                version, reference, parts=parts, row_group_size=history.row_group_size
            )
            if kind == "part missing":
                log.delete(names[version % 3])
                continue
        if kind is not None:
            complete.append(version)
    write_hint(history.hint, complete, log)
    if not history.cleaned_up or not complete:
        return 0
    for version in range(complete[0]):
        log.delete(f"{version:020d}.json")
    return complete[0]


def write_hint(hint: Any, complete: list[int], log: LogWriter) -> None:
    log.delete("_last_checkpoint")
    if isinstance(hint, bytes):
        log.put("_last_checkpoint", hint)
    elif hint is not None and complete:
        version = {"right": complete[-1], "stale": complete[0], "ahead": complete[-1] + 1}[hint]
        log.put("_last_checkpoint", encode(LastCheckpoint(version=version, size=1)))


def copy_to_disk(log: LogWriter, folder: str) -> None:
    target = Path(folder, "_delta_log")
    target.mkdir()
    for status in log.engine.files.list_from(log.path("")):
        (data,) = log.engine.files.read_files([ByteRange(path=status.path)])
        (target / status.path.rsplit("/", 1)[1]).write_bytes(data)


def replayed(engine: Engine, snapshot: Snapshot) -> dict[Key, int]:
    """All live files, those with vectors too, which a scan refuses as yet."""
    state, segment = snapshot.replay_state, snapshot.log_segment
    adds = state.adds.to_pylist()
    for part in snapshot.scan_builder().build().slices(engine):
        if part.split is None:
            continue
        columns = [f.name for f in ADD_TYPE]
        for found, untouched in replay_checkpoint_adds(
            engine, segment.table, part.split, state.touched, columns
        ):
            adds += (found if untouched is None else found.filter(untouched)).to_pylist()
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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
