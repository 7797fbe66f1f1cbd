"""Log replay: which actions hold at a version (PROTOCOL.md, Action Reconciliation).

Two phases. The *commit phase* reads the few commits behind the checkpoint, newest first, and gives
a `ReplayState`: what they set, the files they added that are still live, and the keys they touched.
The *checkpoint phase* needs nothing but that state: a checkpoint is reconciled in itself, so each
part of it only drops the rows whose key was touched. Parts are independent of each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute

from bayou.errors import CorruptTableError, FileMissingError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.catalog import InlineCommit
from bayou.kernel.engine import ByteRange, Engine, FileStatus
from bayou.kernel.log.file_action_keys import KEY_SEPARATOR, FileKey, TouchedKeys
from bayou.kernel.log.segment import LogSegment
from bayou.kernel.log.spilled_replay import LongTail
from bayou.kernel.scan.data_skipping.stored_bounds import DatedMetadata, double_files
from bayou.kernel.scan.scan_file import adds_to_array
from bayou.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Transaction,
    decode_actions,
)

__all__ = [
    "CommitActions",
    "ReplayState",
    "decode_commit",
    "read_commit",
    "read_commit_files",
    "read_commit_info",
    "read_commits",
    "replay_commits",
    "replay_newer_commits",
]

pc: Any = pyarrow.compute

_FEW_PARTS = 2
_MAX_INT = (1 << 31) - 1
"""Largest offset and size of a deletion vector (PROTOCOL.md, Deletion Vector Descriptor Schema)."""
_HEAD = 64 * 1024
"""Bytes of a commit in which its commitInfo is looked for first."""

LONG_TAIL_BYTES = 64 * 1024 * 1024
"""Commits of more bytes than these (some 150,000 actions) are reconciled on the local disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitActions:
    """A commit's version, file and actions in the order of the log."""

    version: int
    file: FileStatus
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayState:
    """What the commits behind the checkpoint say.

    Attributes:
        protocol, metadata: the newest, None where no commit behind the checkpoint has one.
        transactions: newest version by application id.
        domains: newest by domain, removed ones included.
        touched: keys to be dropped from the checkpoint.
        adds: live files added by the commits, `ADD_TYPE`; one array, or those of a long tail,
            which lie in the disk's cache and in no order.
        double_files: paths of files known to have doubles for all columns that were float once.
        removes: tombstones of the commits.
        long_removes: those of a long tail, `REMOVE_TYPE`, likewise.
        commit_info: of the newest commit, None where it has none.
    """

    protocol: Protocol | None
    metadata: Metadata | None
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    touched: TouchedKeys
    adds: tuple[pa.StructArray, ...]
    double_files: pa.Array[Any]
    removes: tuple[RemoveFile, ...] = ()
    long_removes: tuple[pa.StructArray, ...] = ()
    commit_info: CommitInfo | None = None


@closeable
def read_commits(
    engine: Engine, table: str, files: Iterable[tuple[int, FileStatus]]
) -> Iterator[CommitActions]:
    """Read and decode commits in the order given.

    Raises:
        CorruptTableError: a commit is gone, or a line of it isn't an action.
    """
    with read_commit_files(engine, table, files) as contents:
        for version, file, data in contents:
            yield read_commit(table, version, file, data)


@closeable
def read_commit_files(
    engine: Engine, table: str, files: Iterable[tuple[int, FileStatus]]
) -> Iterator[tuple[int, FileStatus, bytes]]:
    """Versions, files and bytes of commits in the order given; some are read ahead.

    Raises:
        CorruptTableError: a commit is gone.
    """
    known = list(files)
    stored = [f for _, f in known if not isinstance(f, InlineCommit)]
    ranges = (ByteRange(path=f.path) for f in stored)
    with _missing_commits_named(table), engine.files.read_files(ranges) as contents:
        for version, file in known:
            data = file.content if isinstance(file, InlineCommit) else next(contents)
            yield version, file, bytes(data)


@contextmanager
def _missing_commits_named(table: str) -> Iterator[None]:
    try:
        yield
    except FileMissingError as error:
        raise CorruptTableError(
            f"A commit of {table} was deleted while it was read: {error.path}. Try again; where it "
            "stays so, restore the file.",
            table=table,
            file=error.path,
        ) from error


def read_commit(table: str, version: int, file: FileStatus, data: bytes) -> CommitActions:
    """Decode the bytes of one commit.

    Raises:
        CorruptTableError: a line isn't an action; names file and line.
    """
    actions = tuple(decode_commit(table, version, file, bytes(data)))
    return CommitActions(version=version, file=file, actions=actions)


def decode_commit(
    table: str,
    version: int,
    file: FileStatus,
    data: bytes,
    kinds: Collection[type] | None = None,
) -> Iterator[Action]:
    """The actions of a commit's bytes, decoded one by one; see `decode_actions`.

    Raises:
        CorruptTableError: a line isn't an action; names file and line.
    """
    try:
        yield from _decoded(data, kinds)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptTableError(
            f"Commit {version} of {table} can't be read: {_line_at_fault(data)}{error} "
            f"(file {file.path}).",
            table=table,
            file=file.path,
        ) from error


def read_commit_info(
    engine: Engine, table: str, version: int, file: FileStatus
) -> CommitInfo | None:
    """The commitInfo of one commit, None where it has none.

    It usually is the first line, so that the beginning of a large commit is read first.

    Raises:
        CorruptTableError: the commit is gone, or can't be read.
    """
    if file.size > _HEAD and not isinstance(file, InlineCommit):
        start = ByteRange(path=file.path, length=_HEAD)
        with _missing_commits_named(table), engine.files.read_files([start]) as contents:
            first, newline, _ = bytes(next(contents)).partition(b"\n")
        for action in decode_commit(table, version, file, first if newline else b""):
            if isinstance(action, CommitInfo):
                return action
    for commit in read_commits(engine, table, [(version, file)]):
        for action in commit.actions:
            if isinstance(action, CommitInfo):
                return action
    return None


def replay_commits(engine: Engine, segment: LogSegment) -> ReplayState:
    """The commit phase: replay a segment's commits, newest first.

    Log compaction files stand for their commits; where one can't be read, the commits do.

    Raises:
        CorruptTableError: a commit is gone, or a line of it isn't an action.
    """
    if segment.compacted:
        try:
            return _replay(engine, segment)[0]
        except CorruptTableError:
            segment = replace(segment, compacted=())
    return _replay(engine, segment)[0]


def replay_newer_commits(
    engine: Engine, segment: LogSegment, before: ReplayState, newer: int
) -> ReplayState | None:
    """The commit phase of a segment whose commits but the last ones have been replayed.

    Args:
        segment: up to the newest commit.
        before: of the same segment without its last `newer` commits.

    Returns:
        None where a newer commit changes protocol or metadata: replay all of them.

    Raises:
        CorruptTableError: a commit is gone, or a line of it isn't an action.
    """
    commits = segment.commits[len(segment.commits) - newer :]
    since, touched = _replay(engine, replace(segment, commits=commits, compacted=()))
    if since.protocol is not None or since.metadata is not None:
        return None
    keys = set(touched.keys.to_pylist())
    double = before.double_files
    return ReplayState(
        protocol=before.protocol,
        metadata=before.metadata,
        transactions={**before.transactions, **since.transactions},
        domains={**before.domains, **since.domains},
        touched=before.touched.and_those_of(since.touched),
        adds=_joined((*_kept(before.adds, touched), *since.adds)),
        # Fewer than there are, perhaps, which loses nothing but skipped files.
        double_files=double.filter(
            pc.invert(pc.is_in(double, value_set=touched.paths.cast(pa.string())))
        ),
        removes=(
            *since.removes,
            *(r for r in before.removes if r.path + KEY_SEPARATOR + (r.key[1] or "") not in keys),
        ),
        long_removes=(*since.long_removes, *_kept(before.long_removes, touched)),
        commit_info=since.commit_info,
    )


def _kept(files: Iterable[pa.StructArray], touched: TouchedKeys) -> Iterator[pa.StructArray]:
    for part in files:
        untouched = touched.untouched(part)
        yield part if untouched is None else part.filter(untouched)


def _joined(parts: tuple[pa.StructArray, ...]) -> tuple[pa.StructArray, ...]:
    """In one array, unless they are those of a long tail, which aren't to be in memory."""
    if len(parts) > _FEW_PARTS:
        return parts
    joined = pa.concat_arrays(parts)
    assert isinstance(joined, pa.StructArray)
    return (joined,)


def _newest_first(segment: LogSegment) -> list[tuple[int, FileStatus]]:
    """The fewest files that hold a segment's commits; the latest commit is always one of them."""
    first = segment.version - len(segment.commits) + 1
    instead = {
        version: compacted
        for compacted in segment.compacted
        for version in range(compacted.version, compacted.end_version + 1)
    }
    files: list[tuple[int, FileStatus]] = []
    for version, file in enumerate(segment.commits, first):
        compacted = instead.get(version)
        if compacted is None or version == segment.version:
            files.append((version, file))
        elif version == min(compacted.end_version, segment.version - 1):
            files.append((version, compacted.file))
    return list(reversed(files))


def _replay(engine: Engine, segment: LogSegment) -> tuple[ReplayState, TouchedKeys]:
    """The state, and all keys that the commits touched: the state has them for a checkpoint."""
    files = _newest_first(segment)
    if sum(file.size for _, file in files) > LONG_TAIL_BYTES:
        return _replay_long(engine, segment, files)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, Transaction] = {}
    domains: dict[str, DomainMetadata] = {}
    commit_info: CommitInfo | None = None
    seen: set[FileKey] = set()
    repeated: set[FileKey] = set()
    written: set[FileKey] = set()  # what was seen, its paths as they stand
    adds: list[AddFile] = []
    versions: list[int | None] = []
    removes: list[RemoveFile] = []
    history: list[DatedMetadata] = []
    compacted = {c.file.path for c in segment.compacted}
    for commit in read_commits(engine, segment.table, files):
        keys: list[FileKey] = []
        is_compacted = commit.file.path in compacted
        own: set[FileKey] = set()  # of a compaction file that isn't reconciled the first counts
        version = None if is_compacted else commit.version
        info = next((a for a in commit.actions if isinstance(a, CommitInfo)), None)
        restores = info is not None and info.get("operation") == "RESTORE"
        for action in commit.actions:
            match action:
                case AddFile() | RemoveFile():
                    key = action.key
                    if key in seen or key in own:
                        pass
                    elif isinstance(action, RemoveFile):
                        removes.append(action)
                    else:
                        adds.append(action)
                        versions.append(None if restores else version)
                    keys.append(key)
                    if is_compacted:
                        own.add(key)
                    written.add(key if key[0] is action.path else (action.path, key[1]))
                case Transaction():
                    transactions.setdefault(action.app_id, action)
                case DomainMetadata():
                    domains.setdefault(action.domain, action)
                case Metadata():
                    metadata = metadata or action
                    history.append(DatedMetadata(version=version, metadata=action, info=info))
                case Protocol():
                    protocol = protocol or action
                case _:
                    pass
        if commit.version == segment.version:
            commit_info = info
        repeated |= seen.intersection(keys)
        seen.update(keys)
    adds.reverse()  # oldest first, as the log has them
    versions.reverse()
    touched = TouchedKeys.of(written)
    state = ReplayState(
        protocol=protocol,
        metadata=metadata,
        transactions=transactions,
        domains=domains,
        touched=touched if segment.checkpoint else TouchedKeys.of(()),
        adds=(adds_to_array(adds),),
        double_files=double_files(history, adds, versions, seen, repeated),
        removes=tuple(removes),
        commit_info=commit_info,
    )
    return state, touched


def _replay_long(
    engine: Engine, segment: LogSegment, files: Sequence[tuple[int, FileStatus]]
) -> tuple[ReplayState, TouchedKeys]:
    """The same with the files' actions on the local disk; nothing is known of double files."""
    found: dict[type, Protocol | Metadata] = {}
    transactions: dict[str, Transaction] = {}
    domains: dict[str, DomainMetadata] = {}
    commit_info: CommitInfo | None = None
    size = sum(file.size for _, file in files)
    compacted = {c.file.path for c in segment.compacted}
    with LongTail(size) as tail, read_commit_files(engine, segment.table, files) as contents:
        for version, file, data in contents:
            for action in decode_commit(segment.table, version, file, data):
                match action:
                    case AddFile() | RemoveFile():
                        tail.take(action)
                        if file.path in compacted:
                            tail.end_commit()  # the first action of a file counts
                    case Transaction():
                        transactions.setdefault(action.app_id, action)
                    case DomainMetadata():
                        domains.setdefault(action.domain, action)
                    case Metadata() | Protocol():
                        found.setdefault(type(action), action)
                    case CommitInfo() if version == segment.version:
                        commit_info = commit_info or action
                    case _:
                        pass
            tail.end_commit()
        adds, removes, touched = tail.reconciled()
    protocol, metadata = found.get(Protocol), found.get(Metadata)
    assert protocol is None or isinstance(protocol, Protocol)
    assert metadata is None or isinstance(metadata, Metadata)
    state = ReplayState(
        protocol=protocol,
        metadata=metadata,
        transactions=transactions,
        domains=domains,
        commit_info=commit_info,
        touched=touched if segment.checkpoint else TouchedKeys.of(()),
        adds=adds,
        double_files=pa.array([], pa.string()),
        long_removes=removes,
    )
    return state, touched


def _decoded(data: bytes, kinds: Collection[type] | None = None) -> Iterator[Action]:
    """Decode actions, and refuse deletion vectors that no checkpoint could hold."""
    for action in decode_actions(data, kinds):
        vector = action.deletion_vector if isinstance(action, AddFile | RemoveFile) else None
        if vector is not None and max(vector.size_in_bytes, vector.offset or 0) > _MAX_INT:
            raise msgspec.ValidationError(f"a deletion vector is beyond {_MAX_INT} bytes")
        yield action


def _line_at_fault(data: bytes) -> str:
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            list(_decoded(line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return f"line {number}: "
    return ""
