"""The table's history: one entry a commit (PROTOCOL.md, Commit Provenance Information)."""

from __future__ import annotations

from typing import Any

from bayou.kernel.catalog import Catalog
from bayou.kernel.engine import Engine
from bayou.kernel.log.commit_times import in_commit_time, monotonic_times
from bayou.kernel.log.replay import read_commits
from bayou.kernel.log.segment import commit_files
from bayou.protocol.actions import CommitInfo

__all__ = ["read_history"]


def read_history(
    engine: Engine, table: str, limit: int | None = None, *, catalog: Catalog | None = None
) -> list[dict[str, Any]]:
    """Provenance of the commits that are still in the log, newest first.

    Each entry is the commit's `commitInfo` as it was written, with `version` and `timestamp` (ms
    since the epoch) put in front; a commit without one has only those. A timestamp names the
    version in time travel: it is in-commit since the table has had such without a break, and
    before that the time of the file, above the one of the version before.

    Raises:
        TableNotFoundError: there is no log.
    """
    newest_first = list(commit_files(engine, table, catalog=catalog))[::-1]
    file_times = dict(monotonic_times(reversed(newest_first)))
    if limit is not None:
        newest_first = newest_first[:limit]
    entries: list[dict[str, Any]] = []
    in_commit = True
    for commit in read_commits(engine, table, newest_first):
        info = next((a.values for a in commit.actions if isinstance(a, CommitInfo)), {})
        stamp = in_commit_time(commit.actions) if in_commit else None
        in_commit = stamp is not None
        time = file_times[commit.version] if stamp is None else stamp
        entry = {"version": commit.version, "timestamp": time}
        entry.update((k, v) for k, v in info.items() if k not in ("version", "timestamp"))
        entries.append(entry)
    return entries
