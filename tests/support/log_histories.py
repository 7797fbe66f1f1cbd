"""Random logs (Hypothesis strategies), and the expected table state of each version."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import strategies as st

from bayou.kernel import ByteRange
from bayou.kernel.checkpoint.write import checkpoint
from bayou.protocol.file_names import canonical_path, equivalent_paths
from bayou.protocol.last_checkpoint import LastCheckpoint, encode
from support.log_writer import (
    LogWriter,
    WireAction,
    add,
    deletion_vector,
    metadata,
    protocol,
    remove,
    txn,
)

__all__ = ["History", "Key", "Reference", "copy_to_disk", "histories", "vector_id", "write"]

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
    """The expected table state of one version, as dictionaries."""

    files: dict[Key, WireAction] = field(default_factory=dict)
    removed: dict[Key, WireAction] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    columns: int = 1

    def after(self, action: WireAction) -> Reference:
        """Return the state after an action is applied."""
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
        """Return the current metaData action."""
        return metadata({f"c{i}": "long" for i in range(self.columns)})

    def checkpoint(self) -> list[WireAction]:
        """Return all actions that a checkpoint of this version must have."""
        return [
            PROTOCOL,
            *self.files.values(),
            self.metadata(),
            *(txn(app, version) for app, version in self.transactions.items()),
            *self.removed.values(),
        ]


def vector_id(vector: Any) -> str | None:
    """Return the `uniqueId` of a deletion vector descriptor, as PROTOCOL.md derives it."""
    if vector is None:
        return None
    suffix = f"@{vector['offset']}" if vector.get("offset") is not None else ""
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{suffix}"


@dataclass(frozen=True)
class History:
    """A random log, and the expected state of each of its versions.

    Attributes:
        commits: the actions of each commit.
        versions: the expected state of each version.
        checkpoints: the kind of checkpoint to write, by version.
        hint: how `_last_checkpoint` is: right, wrong, invalid bytes, or missing (None).
        cleaned_up: whether commits before the first checkpoint are deleted.
        row_group_size: rows per row group of checkpoints.
    """

    commits: list[list[WireAction]]
    versions: list[Reference]
    checkpoints: dict[int, Any]
    hint: Any
    cleaned_up: bool
    row_group_size: int


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw a log of up to nine commits on a few files, with checkpoints of all kinds."""
    now = Reference()
    commits, versions = [], []
    for version in range(draw(st.integers(1, 9))):
        actions = [PROTOCOL, metadata({"c0": "long"})] if version == 0 else []
        vectors = draw(st.sampled_from([VECTORS[:1], VECTORS]))
        for path in draw(st.lists(st.sampled_from(PATHS), unique=True, max_size=5)):
            actions += _changes(draw, now, path, vectors)
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


def _changes(draw: st.DrawFn, now: Reference, path: str, vectors: list[Any]) -> list[WireAction]:
    """Draw the actions of a commit for one file, with at most one action per key (path and vector).

    Their path is one of the equivalent spellings of `path`.
    """
    live = [key for key in now.files if key[0] == canonical_path(path)]
    path = draw(st.sampled_from(equivalent_paths(path)))
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
    """Write the log; return the earliest version that can be reconstructed."""
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
    _write_hint(history.hint, complete, log)
    if not history.cleaned_up or not complete:
        return 0
    for version in range(complete[0]):
        log.delete(f"{version:020d}.json")
    return complete[0]


def _write_hint(hint: Any, complete: list[int], log: LogWriter) -> None:
    log.delete("_last_checkpoint")
    if isinstance(hint, bytes):
        log.put("_last_checkpoint", hint)
    elif hint is not None and complete:
        version = {"right": complete[-1], "stale": complete[0], "ahead": complete[-1] + 1}[hint]
        log.put("_last_checkpoint", encode(LastCheckpoint(version=version, size=1)))


def copy_to_disk(log: LogWriter, folder: str) -> None:
    """Copy a log from a `MemoryEngine` to a table's folder on disk."""
    target = Path(folder, "_delta_log")
    target.mkdir()
    for status in log.engine.files.list_from(log.path("")):
        (data,) = log.engine.files.read_files([ByteRange(path=status.path)])
        (target / status.path.rsplit("/", 1)[1]).write_bytes(data)
