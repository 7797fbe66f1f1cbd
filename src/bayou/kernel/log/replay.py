"""Log replay (PROTOCOL.md, Action Reconciliation).

A file is identified by its log-replay key: path and deletion vector id. Replay has two phases:

- This module reads the commits after the checkpoint. The result is a `ReplayState` with the live
  files that the commits added, and the keys of all files that the commits added or removed.
- A scan reads the checkpoint (`slices`), and drops the files whose key is in the `ReplayState`. A
  checkpoint has at most one row for each key, so slices of a checkpoint are independent of each
  other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import CorruptTableError, FileMissingError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.arrow.compute import pc
from bayou.kernel.catalog import InlineCommit
from bayou.kernel.engine import ByteRange, Engine, FileStatus
from bayou.kernel.engine.file_system import check_length
from bayou.kernel.log.action_reconciliation import (
    ActionAccumulator,
    FileActionStore,
    MemoryStore,
)
from bayou.kernel.log.file_action_keys import FileActionKeys
from bayou.kernel.log.segment import LogSegment
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

_MAX_CONCATENATED_ARRAYS = 2
_MAX_INT = (1 << 31) - 1
"""Largest offset and size of a deletion vector (PROTOCOL.md, Deletion Vector Descriptor Schema)."""
_HEAD_BYTES = 64 * 1024
"""Number of bytes at the start of a large commit that `read_commit_info` reads first."""

SPILL_THRESHOLD_BYTES = 32 * 1024 * 1024
"""Minimum total size of commits whose replay uses the local disk; about 75,000 actions."""


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
        protocol, metadata: the newest action; None if no commit after the checkpoint has one.
        domains: newest domain metadata by domain, including removed domains.
        seen_keys: log-replay keys (path and deletion vector id) of the files that the commits added
            or removed. Rows of the checkpoint with these keys are dropped. If there is no
            checkpoint, no keys are stored.
        adds: live files that the commits added, `ADD_TYPE`, as one array in the order of the log.
            If replay used the local disk (`spilled_replay`), there are several unordered,
            memory-mapped arrays.
        exact_double_files: paths of the files that were written after the last change of a column
            from float to double.
        removes: tombstones of the commits, `REMOVE_TYPE`, in the same form as `adds`.
        commit_info: `commitInfo` of the newest commit; None if the commit has none.
    """

    protocol: Protocol | None
    metadata: Metadata | None
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    seen_keys: FileActionKeys
    adds: tuple[pa.StructArray, ...]
    exact_double_files: pa.Array[Any]
    removes: tuple[pa.StructArray, ...]
    commit_info: CommitInfo | None = None


@closeable
def read_commits(
    engine: Engine, table: str, files: Iterable[tuple[int, FileStatus]]
) -> Iterator[CommitActions]:
    """Read and decode commits in the order of `files`."""
    with read_commit_files(engine, table, files) as contents:
        for version, file, data in contents:
            yield read_commit(table, version, file, data)


@closeable
def read_commit_files(
    engine: Engine, table: str, files: Iterable[tuple[int, FileStatus]]
) -> Iterator[tuple[int, FileStatus, bytes]]:
    """Yield (version, file, bytes) of each commit in the order of `files`, with read-ahead.

    Raises:
        CorruptTableError: a commit is missing.
        StorageError: the store returned only the beginning of a commit.
    """
    commits = list(files)
    stored = [f for _, f in commits if not isinstance(f, InlineCommit)]
    ranges = (ByteRange(path=f.path) for f in stored)
    with _report_missing_commits(table), engine.files.read_files(ranges) as contents:
        for version, file in commits:
            data = file.content if isinstance(file, InlineCommit) else next(contents)
            check_length(file, len(data))
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
    """Decode the bytes of a commit file."""
    actions = tuple(decode_commit(table, version, file, bytes(data)))
    return CommitActions(version=version, file=file, actions=actions)


def decode_commit(
    table: str,
    version: int,
    file: FileStatus,
    data: bytes,
    kinds: Collection[type] | None = None,
) -> Iterator[Action]:
    """Decode the actions of a commit file, see `decode_actions`.

    Raises:
        CorruptTableError: a line isn't an action, and the message names the file and the line. Or
            the file is an empty log compaction file. An empty commit has no actions, as in
            delta-spark.
    """
    if not data and file.path.endswith(".compacted.json"):
        raise CorruptTableError(
            f"{table}: the log compaction file {file.path} is empty. Delete it.",
            table=table,
            file=file.path,
        )
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
    """Read the `commitInfo` of one commit; None if the commit has none.

    `commitInfo` is usually in the first line. If the commit is large, only its beginning is read at
    first.

    Raises:
        CorruptTableError: the commit is missing, or can't be read.
    """
    if file.size > _HEAD_BYTES and not isinstance(file, InlineCommit):
        start = ByteRange(path=file.path, length=_HEAD_BYTES)
        with _report_missing_commits(table), engine.files.read_files([start]) as contents:
            first, newline, _ = bytes(next(contents)).partition(b"\n")
        if newline:
            for action in decode_commit(table, version, file, first):
                if isinstance(action, CommitInfo):
                    return action
    for commit in read_commits(engine, table, [(version, file)]):
        for action in commit.actions:
            if isinstance(action, CommitInfo):
                return action
    return None


def replay_commits(engine: Engine, segment: LogSegment) -> ReplayState:
    """Replay the commits of a segment.

    Log compaction files are read instead of the commits that they contain. If a log compaction file
    can't be read, the replay starts again and reads only commits.

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
    """Update a replay state with the last commits of a segment.

    Args:
        before: replay state of the segment without its last commits.
        newer: number of commits to replay.

    Returns:
        The new state. None if a commit has a protocol or metadata action; in this case, the caller
        must replay all commits.
    """
    commits = segment.commits[len(segment.commits) - newer :]
    since, seen_keys = _replay(engine, replace(segment, commits=commits, compacted=()))
    if since.protocol is not None or since.metadata is not None:
        return None
    double = before.exact_double_files
    return ReplayState(
        protocol=before.protocol,
        metadata=before.metadata,
        transactions={**before.transactions, **since.transactions},
        domains={**before.domains, **since.domains},
        seen_keys=before.seen_keys.union(since.seen_keys),
        adds=_concatenate((*_unseen(before.adds, seen_keys), *since.adds)),
        # If a commit only changes a file's deletion vector, the path is dropped although the
        # bounds are still exact. This only makes data skipping less effective.
        exact_double_files=double.filter(
            pc.invert(pc.is_in(double, value_set=seen_keys.paths.cast(pa.string())))
        ),
        removes=_concatenate((*since.removes, *_unseen(before.removes, seen_keys))),
        commit_info=since.commit_info,
    )


def _unseen(files: Iterable[pa.StructArray], seen_keys: FileActionKeys) -> Iterator[pa.StructArray]:
    for array in files:
        unseen = seen_keys.unseen_mask(array)
        yield array if unseen is None else array.filter(unseen)


def _concatenate(arrays: tuple[pa.StructArray, ...]) -> tuple[pa.StructArray, ...]:
    """Concatenate one or two arrays; return more than two arrays unchanged.

    There are more than two arrays only if replay used the local disk. These arrays are
    memory-mapped files, so they aren't copied to memory.
    """
    if len(arrays) > _MAX_CONCATENATED_ARRAYS:
        return arrays
    concatenated = pa.concat_arrays(arrays)
    assert isinstance(concatenated, pa.StructArray)
    return (concatenated,)


def _newest_first(segment: LogSegment) -> list[tuple[int, FileStatus]]:
    """Return the (version, file) of commits and log compaction files to replay, newest first.

    The version of a log compaction file is the last version of the commits that it replaces.
    """
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
    """Replay the commits of a segment.

    Also return the log-replay keys of all files that the commits add or remove. These keys are
    returned even if the segment has no checkpoint.
    """
    files = _newest_first(segment)
    compacted = {c.file.path for c in segment.compacted}
    size = sum(file.size for _, file in files)
    with ExitStack() as stack:
        store: FileActionStore = MemoryStore()
        if size > SPILL_THRESHOLD_BYTES:
            from bayou.kernel.log.spilled_replay import SpilledStore

            store = stack.enter_context(SpilledStore(size))
        accumulator = ActionAccumulator(store)
        contents = stack.enter_context(read_commit_files(engine, segment.table, files))
        for version, file, data in contents:
            actions = decode_commit(segment.table, version, file, data)
            accumulator.add_commit(version, actions, is_compacted=file.path in compacted)
        reconciled = accumulator.reconciled_files()
    newest = accumulator.newest
    state = ReplayState(
        protocol=newest.protocol,
        metadata=newest.metadata,
        transactions=newest.transactions,
        domains=newest.domains,
        commit_info=accumulator.commit_info,
        seen_keys=reconciled.seen_keys if segment.checkpoint else FileActionKeys.from_keys(()),
        adds=reconciled.adds,
        exact_double_files=reconciled.exact_double_files,
        removes=reconciled.removes,
    )
    return state, reconciled.seen_keys


def _decode(data: bytes, kinds: Collection[type] | None = None) -> Iterator[Action]:
    """Decode actions. Raise an error if a size or offset of a deletion vector exceeds 2^31 - 1."""
    for action in decode_actions(data, kinds):
        vector = action.deletion_vector if isinstance(action, AddFile | RemoveFile) else None
        if vector is not None and max(vector.size_in_bytes, vector.offset or 0) > _MAX_INT:
            raise msgspec.ValidationError(
                f"a deletion vector has a size or offset above {_MAX_INT} bytes"
            )
        yield action


def _faulty_line(data: bytes) -> str:
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            list(_decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return f"line {number}: "
    return ""
