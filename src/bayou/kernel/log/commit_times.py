"""When versions were committed, and which version a time names (PROTOCOL.md, In-Commit Timestamps).

Without in-commit timestamps a commit's time is its file's modification time, made monotonic: a time
that isn't after the one before it becomes that one plus a millisecond. From the version on at which
in-commit timestamps were enabled, `commitInfo.inCommitTimestamp` alone counts.

The table's history: one entry a commit (PROTOCOL.md, Commit Provenance Information).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from bayou.errors import (
    CorruptTableError,
    FileMissingError,
    TableNotFoundError,
    TablePropertyError,
    VersionNotFoundError,
)
from bayou.kernel.catalog import Catalog
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.replay import read_commits
from bayou.kernel.log.segment import commit_files, log_path, monotonic_times
from bayou.kernel.log.table_state import TableState
from bayou.protocol.actions import Action, CommitInfo
from bayou.protocol.file_names import (
    ClassicCheckpoint,
    CommitFile,
    MultiPartCheckpoint,
    UuidCheckpoint,
    list_prefix,
    parse_log_file,
)

__all__ = [
    "commit_timestamp",
    "in_commit_time",
    "last_version_at_or_before",
    "monotonic_times",
    "read_history",
    "version_at",
    "version_at_or_after",
]


_ENABLED = "delta.enableInCommitTimestamps"
_ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
_ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


def commit_timestamp(state: TableState) -> int:
    """Time of the version in ms: in-commit, else its commit file's (or checkpoint's) time."""
    if _has_in_commit_timestamps(state) and state.in_commit_timestamp is not None:
        return state.in_commit_timestamp
    return state.log_segment.file_time


def in_commit_time(actions: Iterable[Action]) -> int | None:
    """The `inCommitTimestamp` of a commit's actions, None where it has none."""
    for action in actions:
        if isinstance(action, CommitInfo):
            stamp = action.integer("inCommitTimestamp")
            if stamp is not None:
                return stamp
    return None


def version_at(engine: Engine, latest: TableState, timestamp: int) -> int:
    """The last version committed at or before a time in ms since the epoch.

    Raises:
        VersionNotFoundError: before the earliest version that can be rebuilt, or after the last
            commit.
    """
    commits, checkpoints = _listing(engine, latest)
    earliest = _earliest_recreatable(commits, checkpoints)
    found = _last_at_or_before(engine, latest, commits, timestamp)
    if found is None or found[0] < earliest:
        first = next(((v, f) for v, f in commits if v >= earliest), None)
        when = "" if first is None else _time_text(engine, latest, commits, *first)
        raise VersionNotFoundError(
            f"{latest.path} can't be read as of {_iso(timestamp)}: the earliest version that can "
            f"be rebuilt is {earliest}{when}. Ask for that time or a later one.",
            table=latest.path,
            earliest=earliest,
            latest=latest.version,
        )
    version, time = found
    if version == latest.version and timestamp > time:
        raise VersionNotFoundError(
            f"{latest.path} has no version as of {_iso(timestamp)} yet: its latest version "
            f"{latest.version} was committed at {_iso(time)}. Leave the timestamp out to read the "
            "latest version.",
            table=latest.path,
            earliest=earliest,
            latest=latest.version,
        )
    return version


def version_at_or_after(engine: Engine, latest: TableState, timestamp: int) -> int:
    """The first version committed at or after a time, of those whose commits are in the log.

    Raises:
        VersionNotFoundError: after the last commit.
    """
    commits, checkpoints = _listing(engine, latest)
    found = _last_at_or_before(engine, latest, commits, timestamp - 1)
    if found is None:
        return commits[0][0] if commits else latest.version
    version, time = found
    if version == latest.version:
        raise VersionNotFoundError(
            f"{latest.path} has no commit at or after {_iso(timestamp)} yet: its latest version "
            f"{latest.version} was committed at {_iso(time)}. Ask for that time or an earlier one.",
            table=latest.path,
            earliest=_earliest_recreatable(commits, checkpoints),
            latest=latest.version,
        )
    return version + 1


def last_version_at_or_before(engine: Engine, latest: TableState, timestamp: int) -> int | None:
    """The last version committed at or before a time, of those whose commits are in the log.

    None where all of them are later.
    """
    found = _last_at_or_before(engine, latest, _listing(engine, latest)[0], timestamp)
    return None if found is None else found[0]


def _last_at_or_before(
    engine: Engine, latest: TableState, commits: list[tuple[int, FileStatus]], timestamp: int
) -> tuple[int, int] | None:
    """(version, ms) of the last commit at or before a time; None where all are after it."""
    enabled_at = _enablement_version(latest)
    if enabled_at is not None:
        stamped = [(v, f) for v, f in commits if v >= enabled_at]
        if stamped and timestamp >= _enablement_time(engine, latest, enabled_at, commits):
            found = _last_in_commit(engine, latest.path, stamped, timestamp)
            return found if found[1] <= timestamp else None
        commits = [(v, f) for v, f in commits if v < enabled_at]
    last: tuple[int, int] | None = None
    for version, time in monotonic_times(commits):
        if time > timestamp:
            break
        last = version, time
    return last


def _time_text(
    engine: Engine,
    latest: TableState,
    commits: list[tuple[int, FileStatus]],
    version: int,
    file: FileStatus,
) -> str:
    enabled_at = _enablement_version(latest)
    if enabled_at is not None and version >= enabled_at:
        time = _in_commit_time(engine, latest.path, version, file)
    else:
        time = next(t for v, t in monotonic_times(commits) if v == version)
    return f", committed at {_iso(time)}"


def _listing(engine: Engine, latest: TableState) -> tuple[list[tuple[int, FileStatus]], list[int]]:
    """All commits up to the latest version, and the versions of complete checkpoints."""
    commits: dict[int, FileStatus] = {}
    parts: dict[tuple[int, int], int] = {}
    try:
        for status in engine.files.list_from(f"{log_path(latest.path)}/{list_prefix(0)}"):
            match parse_log_file(status.path.rsplit("/", 1)[-1]):
                case CommitFile(version=version) if version <= latest.version:
                    commits[version] = status
                case ClassicCheckpoint(version=version) | UuidCheckpoint(version=version):
                    parts[version, 1] = 1
                case MultiPartCheckpoint() as file:
                    key = (file.version, file.parts)
                    parts[key] = parts.get(key, 0) + 1
                case _:
                    pass
    except FileMissingError as error:
        raise TableNotFoundError(
            f"The log of {latest.path} was deleted while it was read.", table=latest.path
        ) from error
    if latest.catalog is not None:
        # What the catalog ratified counts, published or not.
        tail = latest.log_segment.commits
        commits.update(enumerate(tail, latest.version - len(tail) + 1))
    complete = sorted(version for (version, count), n in parts.items() if n == count)
    return sorted(commits.items(), key=lambda item: item[0]), complete


def _earliest_recreatable(commits: list[tuple[int, FileStatus]], checkpoints: list[int]) -> int:
    if commits and commits[0][0] == 0:
        return 0
    return checkpoints[0] if checkpoints else 0


def _has_in_commit_timestamps(state: TableState) -> bool:
    return state.properties.get(_ENABLED, "").lower() == "true"


def _enablement_version(state: TableState) -> int | None:
    """The version from which on in-commit timestamps count; None where they don't."""
    if not _has_in_commit_timestamps(state):
        return None
    return _whole_number(state, _ENABLEMENT_VERSION)


def _whole_number(state: TableState, key: str) -> int:
    try:
        return int(state.properties.get(key, "0"))
    except ValueError as error:
        raise TablePropertyError(
            f"{state.path} can't be read by time: table property {key!r} is "
            f"{state.properties[key]!r}, not a whole number.",
            table=state.path,
            key=key,
        ) from error


def _enablement_time(
    engine: Engine, state: TableState, version: int, commits: list[tuple[int, FileStatus]]
) -> int:
    if _ENABLEMENT_TIMESTAMP in state.properties:
        return _whole_number(state, _ENABLEMENT_TIMESTAMP)
    first = next(((v, f) for v, f in commits if v >= version), None)
    if first is None:
        return commit_timestamp(state)
    return _in_commit_time(engine, state.path, *first)


def _last_in_commit(
    engine: Engine, table: str, commits: list[tuple[int, FileStatus]], timestamp: int
) -> tuple[int, int]:
    """Binary search, reading one commit a step: in-commit timestamps are ascending."""
    low, high = 0, len(commits) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _in_commit_time(engine, table, *commits[middle]) <= timestamp:
            low = middle
        else:
            high = middle - 1
    version, file = commits[low]
    return version, _in_commit_time(engine, table, version, file)


def _in_commit_time(engine: Engine, table: str, version: int, file: FileStatus) -> int:
    commit = next(iter(read_commits(engine, table, [(version, file)])))
    stamp = in_commit_time(commit.actions)
    if stamp is not None:
        return stamp
    raise CorruptTableError(
        f"Commit {version} of {table} has no inCommitTimestamp, though the table has in-commit "
        f"timestamps (file {file.path}).",
        table=table,
        file=file.path,
    )


def _iso(milliseconds: int) -> str:
    try:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms since the epoch"
    return moment.isoformat(timespec="milliseconds")


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
