"""Log compaction: combines commits into one file (PROTOCOL.md, Log Compaction Files)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bayou.errors import ArgumentError
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.action_reconciliation import NewestActions
from bayou.kernel.log.replay import CommitActions, read_commits
from bayou.kernel.log.segment import commit_files, log_path
from bayou.protocol.actions import Action, AddFile, RemoveFile, encode_action
from bayou.protocol.file_names import compacted_file_name


def is_compaction_due(version: int, interval: int) -> bool:
    """Whether a log compaction file is due after `version`: one is due every `interval` commits."""
    return version > 0 and (version + 1) % interval == 0


def compact_log(engine: Engine, table: str, first: int, last: int) -> bool:
    """Write a log compaction file of the versions `first` to `last`, both included.

    The file contains the tombstones of removed files and domains. Readers need the tombstones to
    drop files and domains of an older checkpoint. The file doesn't contain `commitInfo` and `cdc`
    actions.

    Returns:
        True if the file was written, False if it exists already.
    """
    if not 0 <= first < last:
        raise ArgumentError(
            f"{table}: the log can't be compacted from version {first} to {last}. A range needs at "
            "least two versions, and its first version can't be negative.",
            argument="first",
        )
    path = f"{log_path(table)}/{compacted_file_name(first, last)}"
    files = list(_files(engine, table, first, last))
    commits = read_commits(engine, table, reversed(files))
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
            f"{expected} doesn't exist. Use a range of existing commits.",
            argument="last",
        )


def _reconciled(newest_first: Iterable[CommitActions]) -> list[Action]:
    """Return the newest action of each file, application and domain, including tombstones.

    The newest `protocol` and `metaData` actions come first.
    """
    newest = NewestActions()
    files: dict[tuple[str, str | None], AddFile | RemoveFile] = {}
    for commit in newest_first:
        for action in reversed(commit.actions):
            if isinstance(action, AddFile | RemoveFile):
                files.setdefault(action.key, action)
            else:
                newest.add(action)
    head = [action for action in (newest.protocol, newest.metadata) if action is not None]
    by_key = (*newest.transactions.values(), *newest.domains.values(), *reversed(files.values()))
    return [*head, *by_key]
