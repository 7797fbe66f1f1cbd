"""Commit timestamps, the version at a timestamp, and the history of a table.

Without in-commit timestamps, the timestamp of a commit is the modification time of the commit file.
If the modification time isn't later than the previous commit's timestamp, the timestamp is the
previous timestamp plus 1 ms. Starting with the version that enables in-commit timestamps, the
timestamp is `commitInfo.inCommitTimestamp` (PROTOCOL.md, In-Commit Timestamps and Commit Provenance
Information).
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
from bayou.kernel.log.listing import LogListing
from bayou.kernel.log.replay import read_commits
from bayou.kernel.log.segment import commit_files, log_path, monotonic_times
from bayou.kernel.log.table_state import TableState
from bayou.protocol.actions import Action, CommitInfo
from bayou.protocol.file_names import list_prefix

_ENABLED = "delta.enableInCommitTimestamps"
_ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
_ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


def commit_timestamp(state: TableState) -> int:
    """Return the timestamp of a version in ms since the epoch.

    This is the in-commit timestamp. A version without one has the timestamp of its commit file (see
    `monotonic_times`). If log cleanup deleted the commit file, the timestamp is the modification
    time of the checkpoint.
    """
    if _has_in_commit_timestamps(state) and state.in_commit_timestamp is not None:
        return state.in_commit_timestamp
    return state.log_segment.file_time


def in_commit_time(actions: Iterable[Action]) -> int | None:
    """Return the `inCommitTimestamp` in a commit's actions; None if there is none."""
    for action in actions:
        if isinstance(action, CommitInfo):
            timestamp = action.integer("inCommitTimestamp")
            if timestamp is not None:
                return timestamp
    return None


def version_at(engine: Engine, latest: TableState, timestamp: int) -> int:
    """Return the last version committed at or before `timestamp`, which is in ms since the epoch.

    Raises:
        VersionNotFoundError: `timestamp` is earlier than the commit of the first version that can
            be rebuilt, or later than the last commit.
    """
    commits, checkpoints = _list_log(engine, latest)
    earliest = _earliest_recreatable(commits, checkpoints)
    match = _last_at_or_before(engine, latest, commits, timestamp)
    if match is None or match[0] < earliest:
        first = next(((v, f) for v, f in commits if v >= earliest), None)
        committed_at = "" if first is None else _committed_at(engine, latest, commits, *first)
        raise VersionNotFoundError(
            f"{latest.path}: the table can't be read as of {_iso(timestamp)}; the earliest version "
            f"that can be rebuilt is {earliest}{committed_at} "
            "(DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION). Use a timestamp at or after the "
            "commit of this version.",
            table=latest.path,
            earliest=earliest,
            latest=latest.version,
        )
    version, time = match
    if version == latest.version and timestamp > time:
        raise VersionNotFoundError(
            f"{latest.path}: {_iso(timestamp)} is after the latest version {latest.version}, which "
            f"was committed at {_iso(time)} (DELTA_TIMESTAMP_GREATER_THAN_COMMIT). Omit the "
            "timestamp to read the latest version.",
            table=latest.path,
            earliest=earliest,
            latest=latest.version,
        )
    return version


def version_at_or_after(engine: Engine, latest: TableState, timestamp: int) -> int:
    """Return the first version in the log that was committed at or after `timestamp`.

    Raises:
        VersionNotFoundError: `timestamp` is after the last commit.
    """
    commits, checkpoints = _list_log(engine, latest)
    match = _last_at_or_before(engine, latest, commits, timestamp - 1)
    if match is None:
        return commits[0][0] if commits else latest.version
    version, time = match
    if version == latest.version:
        raise VersionNotFoundError(
            f"{latest.path}: the table has no commit at or after {_iso(timestamp)}; its latest "
            f"version {latest.version} was committed at {_iso(time)}. Use a timestamp at or before "
            "this commit.",
            table=latest.path,
            earliest=_earliest_recreatable(commits, checkpoints),
            latest=latest.version,
        )
    return version + 1


def last_version_at_or_before(engine: Engine, latest: TableState, timestamp: int) -> int | None:
    """Return the last version committed at or before `timestamp`; None if all commits are later."""
    match = _last_at_or_before(engine, latest, _list_log(engine, latest)[0], timestamp)
    return None if match is None else match[0]


def _last_at_or_before(
    engine: Engine, latest: TableState, commits: list[tuple[int, FileStatus]], timestamp: int
) -> tuple[int, int] | None:
    """Return (version, ms) of the last commit at or before `timestamp`; None if all are later."""
    enabled_at = _enablement_version(latest)
    if enabled_at is not None:
        timestamped = [(v, f) for v, f in commits if v >= enabled_at]
        if timestamped and timestamp >= _enablement_time(engine, latest, enabled_at, commits):
            match = _last_in_commit(engine, latest.path, timestamped, timestamp)
            return match if match[1] <= timestamp else None
        commits = [(v, f) for v, f in commits if v < enabled_at]
    last: tuple[int, int] | None = None
    for version, time in monotonic_times(commits):
        if time > timestamp:
            break
        last = version, time
    return last


def _committed_at(
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


def _list_log(engine: Engine, latest: TableState) -> tuple[list[tuple[int, FileStatus]], list[int]]:
    """List the commits up to the latest version, and the versions with a complete checkpoint.

    Returns:
        (version, file) of each commit, and the versions with a checkpoint; both in ascending order.
    """
    listing = LogListing(latest.version, (), {})
    try:
        for status in engine.files.list_from(f"{log_path(latest.path)}/{list_prefix(0)}"):
            listing.add(status)
    except FileMissingError as error:
        raise TableNotFoundError(
            f"{latest.path}: the log was deleted while it was read. Restore the table, or check "
            "which process deleted it.",
            table=latest.path,
        ) from error
    commits = listing.commits
    if latest.catalog is not None:
        # Commits that the catalog ratified take precedence, published or not.
        tail = latest.log_segment.commits
        commits.update(enumerate(tail, latest.version - len(tail) + 1))
    checkpoints = [checkpoint.version for checkpoint in listing.checkpoints()]
    return sorted(commits.items(), key=lambda item: item[0]), checkpoints


def _earliest_recreatable(commits: list[tuple[int, FileStatus]], checkpoints: list[int]) -> int:
    if commits and commits[0][0] == 0:
        return 0
    return checkpoints[0] if checkpoints else 0


def _has_in_commit_timestamps(state: TableState) -> bool:
    return state.properties.get(_ENABLED, "").lower() == "true"


def _enablement_version(state: TableState) -> int | None:
    """Return the first version with in-commit timestamps; None if they are disabled."""
    if not _has_in_commit_timestamps(state):
        return None
    return _integer_property(state, _ENABLEMENT_VERSION)


def _integer_property(state: TableState, key: str) -> int:
    try:
        return int(state.properties.get(key, "0"))
    except ValueError as error:
        raise TablePropertyError(
            f"{state.path}: table property {key!r} is {state.properties[key]!r}, not an integer, "
            "so versions can't be found by timestamp. Correct the property.",
            table=state.path,
            key=key,
        ) from error


def _enablement_time(
    engine: Engine, state: TableState, version: int, commits: list[tuple[int, FileStatus]]
) -> int:
    if _ENABLEMENT_TIMESTAMP in state.properties:
        return _integer_property(state, _ENABLEMENT_TIMESTAMP)
    first = next(((v, f) for v, f in commits if v >= version), None)
    if first is None:
        return commit_timestamp(state)
    return _in_commit_time(engine, state.path, *first)


def _last_in_commit(
    engine: Engine, table: str, commits: list[tuple[int, FileStatus]], timestamp: int
) -> tuple[int, int]:
    """Return (version, time in ms) of the last commit whose in-commit timestamp is <= `timestamp`.

    If all commits are later, the first commit is returned. In-commit timestamps are ascending, so a
    binary search finds the commit and reads few commits.
    """
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
    timestamp = in_commit_time(commit.actions)
    if timestamp is not None:
        return timestamp
    raise CorruptTableError(
        f"{table}: commit {version} has no inCommitTimestamp, but the table has in-commit "
        f"timestamps enabled. Restore the commit file {file.path}.",
        table=table,
        file=file.path,
    )


def _iso(milliseconds: int) -> str:
    try:
        timestamp = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms since the epoch"
    return timestamp.isoformat(timespec="milliseconds")


def read_history(
    engine: Engine, table: str, limit: int | None = None, *, catalog: Catalog | None = None
) -> list[dict[str, Any]]:
    """Return the history: a dict for each commit in the log, newest first.

    The first keys of a dict are `version` and `timestamp`. The timestamp is the one that time
    travel uses, in ms since the epoch. The other keys are the fields of `commitInfo`.

    Args:
        limit: maximum number of commits; None if all commits are returned.
    """
    newest_first = list(commit_files(engine, table, catalog=catalog))[::-1]
    file_times = dict(monotonic_times(reversed(newest_first)))
    if limit is not None:
        newest_first = newest_first[:limit]
    entries: list[dict[str, Any]] = []
    in_commit = True
    for commit in read_commits(engine, table, newest_first):
        info = next((a.values for a in commit.actions if isinstance(a, CommitInfo)), {})
        timestamp = in_commit_time(commit.actions) if in_commit else None
        in_commit = timestamp is not None
        time = file_times[commit.version] if timestamp is None else timestamp
        entry = {"version": commit.version, "timestamp": time}
        entry.update((k, v) for k, v in info.items() if k not in ("version", "timestamp"))
        entries.append(entry)
    return entries
