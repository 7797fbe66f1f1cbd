"""Log compaction: combines several commits in one file (PROTOCOL.md, Log Compaction Files)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bayou.errors import ArgumentError
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.replay import CommitActions, read_commits
from bayou.kernel.log.segment import commit_files, log_path
from bayou.protocol.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Transaction,
    encode_action,
)
from bayou.protocol.file_names import compacted_file_name

__all__ = ["compact_log", "is_compaction_due"]


def is_compaction_due(version: int, interval: int) -> bool:
    """Whether a version is the last of an interval; intervals start at version 0."""
    return version > 0 and (version + 1) % interval == 0


def compact_log(engine: Engine, table: str, first: int, last: int) -> bool:
    """Write the reconciled actions of the commits `first..last` to one file unless it exists.

    Tombstones of files and domains are retained, because an older checkpoint may contain what they
    remove. commitInfo and change data actions aren't; they are read from the commits.

    Returns:
        Whether this call wrote the file.

    Raises:
        ArgumentError: the range has fewer than two versions, or a commit is missing.
        CorruptTableError: a commit of the range can't be read.
        StorageError: the log can't be listed, or the file can't be written.
    """
    if not 0 <= first < last:
        raise ArgumentError(
            f"{table}: the log can't be compacted from version {first} to {last}. A range needs at "
            "least two versions, and its first version can't be negative.",
            argument="first",
        )
    path = f"{log_path(table)}/{compacted_file_name(first, last)}"
    commits = read_commits(engine, table, _files(engine, table, first, last))
    lines = [encode_action(action) for action in _reconciled(commits)]
    return engine.json.write_json_file_atomically(path, lines)


def _files(engine: Engine, table: str, first: int, last: int) -> Iterator[tuple[int, FileStatus]]:
    expected = first
    for version, file in commit_files(engine, table, first):
        if version > last or version != expected:
            break
        yield version, file
        expected += 1
    if expected <= last:
        raise ArgumentError(
            f"{table}: the log can't be compacted from version {first} to {last}: commit "
            f"{expected} doesn't exist.",
            argument="last",
        )


def _reconciled(commits: Iterable[CommitActions]) -> list[Action]:
    """The actions in effect after the last commit (PROTOCOL.md, Action Reconciliation)."""
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, Transaction] = {}
    domains: dict[str, DomainMetadata] = {}
    files: dict[tuple[str, str | None], AddFile | RemoveFile] = {}
    for commit in commits:
        for action in commit.actions:
            match action:
                case Protocol():
                    protocol = action
                case Metadata():
                    metadata = action
                case Transaction():
                    transactions[action.app_id] = action
                case DomainMetadata():
                    domains[action.domain] = action
                case AddFile() | RemoveFile():
                    files.pop(action.key, None)  # retains the order of the latest actions
                    files[action.key] = action
                case _:
                    pass
    head = [action for action in (protocol, metadata) if action is not None]
    return [*head, *transactions.values(), *domains.values(), *files.values()]
