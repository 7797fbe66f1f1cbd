"""Log compaction: several commits in one file (PROTOCOL.md, Log Compaction Files)."""

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
    """Whether a version is the last one of an interval, counted from version 0."""
    return version > 0 and (version + 1) % interval == 0


def compact_log(engine: Engine, table: str, first: int, last: int) -> bool:
    """Write the commits `first..last`, reconciled, to one file, unless it is there.

    Tombstones stay, of files and of domains: what they end may stand in an older checkpoint.
    Provenance and change data don't, so the commits themselves are still needed for those.

    Returns:
        Whether this call wrote the file.

    Raises:
        ArgumentError: the range isn't one of at least two versions.
        CorruptTableError: a commit of the range is gone or can't be read.
        StorageError: the store failed.
    """
    if not 0 <= first < last:
        raise ArgumentError(
            f"The log of {table} can't be compacted from version {first} to {last}: a range has at "
            "least two versions, the first one from 0 on.",
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
            f"The log of {table} can't be compacted from version {first} to {last}: it has no "
            f"commit {expected}.",
            argument="last",
        )


def _reconciled(commits: Iterable[CommitActions]) -> list[Action]:
    """The actions that hold behind the last of the commits (PROTOCOL.md, Action Reconciliation)."""
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
                    files.pop(action.key, None)  # the later one also stands later
                    files[action.key] = action
                case _:
                    pass
    head = [action for action in (protocol, metadata) if action is not None]
    return [*head, *transactions.values(), *domains.values(), *files.values()]
