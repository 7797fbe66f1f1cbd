"""Log replay (PROTOCOL.md, Action Reconciliation).

The commit phase reads the commits after the checkpoint, newest first, and returns a `ReplayState`:
protocol, metadata, the live files that the commits added, and the keys of all files that they added
or removed. The checkpoint phase drops the checkpoint's rows with such a key. A checkpoint is
reconciled already, so its parts are processed independently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import CorruptTableError, FileMissingError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.catalog import InlineCommit
from bayou.kernel.engine import ByteRange, Engine, FileStatus
from bayou.kernel.log.file_action_keys import KEY_SEPARATOR, FileActionKeys, FileKey
from bayou.kernel.log.segment import LogSegment
from bayou.kernel.log.spilled_replay import SpilledReplay
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

_MAX_CONCATENATED_ARRAYS = 2
_MAX_INT = (1 << 31) - 1
"""Largest offset and size of a deletion vector (PROTOCOL.md, Deletion Vector Descriptor Schema)."""
_HEAD_BYTES = 64 * 1024
"""Length of the beginning of a commit that is searched for `commitInfo` first."""

SPILL_THRESHOLD_BYTES = 64 * 1024 * 1024
"""Larger commits in total (about 150,000 actions) are reconciled on the local disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitActions:
    """A commit's version and file, and its actions in the order of the log."""

    version: int
    file: FileStatus
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayState:
    """Result of the replay of the commits after the checkpoint.

    Attributes:
        protocol, metadata: the newest action, None if no commit after the checkpoint has one.
        transactions: newest transaction by application id.
        domains: newest domain metadata by domain, including removed domains.
        touched: keys of the files to drop from the checkpoint.
        adds: live files that the commits added, `ADD_TYPE`. One array in the order of the log, or
            the unordered memory-mapped arrays of a spilled replay.
        double_files: paths of files that have doubles in all columns that were widened from float.
        removes: tombstones of the commits.
        spilled_removes: tombstones of a spilled replay, `REMOVE_TYPE`, also memory-mapped.
        commit_info: `commitInfo` of the newest commit, None for none.
    """

    protocol: Protocol | None
    metadata: Metadata | None
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    touched: FileActionKeys
    adds: tuple[pa.StructArray, ...]
    double_files: pa.Array[Any]
    removes: tuple[RemoveFile, ...] = ()
    spilled_removes: tuple[pa.StructArray, ...] = ()
    commit_info: CommitInfo | None = None


@closeable
def read_commits(
    engine: Engine, table: str, files: Iterable[tuple[int, FileStatus]]
) -> Iterator[CommitActions]:
    """Read and decode commits in the order of `files`.

    Raises:
        CorruptTableError: a commit is missing, or contains a line that isn't an action.
    """
    with read_commit_files(engine, table, files) as contents:
        for version, file, data in contents:
            yield read_commit(table, version, file, data)


@closeable
def read_commit_files(
    engine: Engine, table: str, files: Iterable[tuple[int, FileStatus]]
) -> Iterator[tuple[int, FileStatus, bytes]]:
    """Read versions, files and bytes of commits in the order of `files`, with read-ahead.

    Raises:
        CorruptTableError: a commit is missing.
    """
    commits = list(files)
    stored = [f for _, f in commits if not isinstance(f, InlineCommit)]
    ranges = (ByteRange(path=f.path) for f in stored)
    with _report_missing_commits(table), engine.files.read_files(ranges) as contents:
        for version, file in commits:
            data = file.content if isinstance(file, InlineCommit) else next(contents)
            yield version, file, bytes(data)


@contextmanager
def _report_missing_commits(table: str) -> Iterator[None]:
    try:
        yield
    except FileMissingError as error:
        raise CorruptTableError(
            f"{table}: commit file {error.path} was deleted while it was read. Try again; if the "
            "error persists, restore the file.",
            table=table,
            file=error.path,
        ) from error


def read_commit(table: str, version: int, file: FileStatus, data: bytes) -> CommitActions:
    """Decode the bytes of one commit.

    Raises:
        CorruptTableError: a line isn't an action; the message has file and line.
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
    """Decode the actions in a commit's bytes one by one; see `decode_actions`.

    Raises:
        CorruptTableError: a line isn't an action; the message has file and line.
    """
    try:
        yield from _decode(data, kinds)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptTableError(
            f"{table}: commit {version} can't be read: {_faulty_line(data)}{error} (file "
            f"{file.path}). Restore the file.",
            table=table,
            file=file.path,
        ) from error


def read_commit_info(
    engine: Engine, table: str, version: int, file: FileStatus
) -> CommitInfo | None:
    """The `commitInfo` of one commit, None for none.

    It usually is the first line, so only the beginning of a large commit is read first.

    Raises:
        CorruptTableError: the commit is missing, or can't be read.
    """
    if file.size > _HEAD_BYTES and not isinstance(file, InlineCommit):
        start = ByteRange(path=file.path, length=_HEAD_BYTES)
        with _report_missing_commits(table), engine.files.read_files([start]) as contents:
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

    Log compaction files replace their commits. If one can't be read, the commits are read instead.

    Raises:
        CorruptTableError: a commit is missing, or contains a line that isn't an action.
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
    """The commit phase of a segment of which only the last commits are new.

    Args:
        segment: segment up to the newest commit.
        before: replay state of the segment without its last `newer` commits.
        newer: number of new commits.

    Returns:
        None if a new commit changes protocol or metadata, so that all commits must be replayed.

    Raises:
        CorruptTableError: a commit is missing, or contains a line that isn't an action.
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
        touched=before.touched.union(since.touched),
        adds=_concatenate((*_untouched(before.adds, touched), *since.adds)),
        # May drop too many paths, which only makes data skipping less effective.
        double_files=double.filter(
            pc.invert(pc.is_in(double, value_set=touched.paths.cast(pa.string())))
        ),
        removes=(
            *since.removes,
            *(r for r in before.removes if r.path + KEY_SEPARATOR + (r.key[1] or "") not in keys),
        ),
        spilled_removes=(*since.spilled_removes, *_untouched(before.spilled_removes, touched)),
        commit_info=since.commit_info,
    )


def _untouched(
    files: Iterable[pa.StructArray], touched: FileActionKeys
) -> Iterator[pa.StructArray]:
    for array in files:
        untouched = touched.untouched_mask(array)
        yield array if untouched is None else array.filter(untouched)


def _concatenate(arrays: tuple[pa.StructArray, ...]) -> tuple[pa.StructArray, ...]:
    """Concatenate arrays, except those of a spilled replay, which must stay on disk."""
    if len(arrays) > _MAX_CONCATENATED_ARRAYS:
        return arrays
    concatenated = pa.concat_arrays(arrays)
    assert isinstance(concatenated, pa.StructArray)
    return (concatenated,)


def _newest_first(segment: LogSegment) -> list[tuple[int, FileStatus]]:
    """The fewest files that hold a segment's commits, always including the latest commit."""
    first = segment.version - len(segment.commits) + 1
    replacements = {
        version: compacted
        for compacted in segment.compacted
        for version in range(compacted.version, compacted.end_version + 1)
    }
    files: list[tuple[int, FileStatus]] = []
    for version, file in enumerate(segment.commits, first):
        compacted = replacements.get(version)
        if compacted is None or version == segment.version:
            files.append((version, file))
        elif version == min(compacted.end_version, segment.version - 1):
            files.append((version, compacted.file))
    return list(reversed(files))


def _replay(engine: Engine, segment: LogSegment) -> tuple[ReplayState, FileActionKeys]:
    """Replay a segment's commits; also returns the touched keys, even without a checkpoint."""
    files = _newest_first(segment)
    if sum(file.size for _, file in files) > SPILL_THRESHOLD_BYTES:
        return _replay_spilled(engine, segment, files)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, Transaction] = {}
    domains: dict[str, DomainMetadata] = {}
    commit_info: CommitInfo | None = None
    seen: set[FileKey] = set()
    repeated: set[FileKey] = set()
    written: set[FileKey] = set()  # `seen` with the paths as written in the log
    adds: list[AddFile] = []
    versions: list[int | None] = []
    removes: list[RemoveFile] = []
    history: list[DatedMetadata] = []
    compacted = {c.file.path for c in segment.compacted}
    for commit in read_commits(engine, segment.table, files):
        keys: list[FileKey] = []
        is_compacted = commit.file.path in compacted
        own: set[FileKey] = set()  # a compaction file may repeat a key: its first action counts
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
    adds.reverse()  # oldest first, as in the log
    versions.reverse()
    touched = FileActionKeys.from_keys(written)
    state = ReplayState(
        protocol=protocol,
        metadata=metadata,
        transactions=transactions,
        domains=domains,
        touched=touched if segment.checkpoint else FileActionKeys.from_keys(()),
        adds=(adds_to_array(adds),),
        double_files=double_files(history, adds, versions, seen, repeated),
        removes=tuple(removes),
        commit_info=commit_info,
    )
    return state, touched


def _replay_spilled(
    engine: Engine, segment: LogSegment, files: Sequence[tuple[int, FileStatus]]
) -> tuple[ReplayState, FileActionKeys]:
    """Like `_replay`, with file actions on the local disk and without `double_files`."""
    newest: dict[type, Protocol | Metadata] = {}
    transactions: dict[str, Transaction] = {}
    domains: dict[str, DomainMetadata] = {}
    commit_info: CommitInfo | None = None
    size = sum(file.size for _, file in files)
    compacted = {c.file.path for c in segment.compacted}
    with SpilledReplay(size) as tail, read_commit_files(engine, segment.table, files) as contents:
        for version, file, data in contents:
            for action in decode_commit(segment.table, version, file, data):
                match action:
                    case AddFile() | RemoveFile():
                        tail.add(action)
                        if file.path in compacted:
                            tail.end_commit()  # the first action of a file counts
                    case Transaction():
                        transactions.setdefault(action.app_id, action)
                    case DomainMetadata():
                        domains.setdefault(action.domain, action)
                    case Metadata() | Protocol():
                        newest.setdefault(type(action), action)
                    case CommitInfo() if version == segment.version:
                        commit_info = commit_info or action
                    case _:
                        pass
            tail.end_commit()
        adds, removes, touched = tail.reconciled()
    protocol, metadata = newest.get(Protocol), newest.get(Metadata)
    assert protocol is None or isinstance(protocol, Protocol)
    assert metadata is None or isinstance(metadata, Metadata)
    state = ReplayState(
        protocol=protocol,
        metadata=metadata,
        transactions=transactions,
        domains=domains,
        commit_info=commit_info,
        touched=touched if segment.checkpoint else FileActionKeys.from_keys(()),
        adds=adds,
        double_files=pa.array([], pa.string()),
        spilled_removes=removes,
    )
    return state, touched


def _decode(data: bytes, kinds: Collection[type] | None = None) -> Iterator[Action]:
    """Decode actions, and reject deletion vectors that a checkpoint can't hold."""
    for action in decode_actions(data, kinds):
        vector = action.deletion_vector if isinstance(action, AddFile | RemoveFile) else None
        if vector is not None and max(vector.size_in_bytes, vector.offset or 0) > _MAX_INT:
            raise msgspec.ValidationError(f"a deletion vector exceeds {_MAX_INT} bytes")
        yield action


def _faulty_line(data: bytes) -> str:
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            list(_decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return f"line {number}: "
    return ""
