"""The end of a log, as who follows a table reads it: commits from a version on, again and again."""

from __future__ import annotations

from itertools import pairwise

from bayou.errors import CorruptTableError, VersionNotFoundError
from bayou.kernel.catalog import Catalog
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.commit_times import monotonic_times
from bayou.kernel.log.segment import commit_files, log_path
from bayou.kernel.table_changes.boundary import CommitBoundary
from bayou.kernel.table_changes.commit_range import CommitRange
from bayou.protocol.file_names import commit_file_name

__all__ = ["commits_from", "contiguous_commits", "listed_commits"]

_MONOTONIZED = 100
"""Commits before the first that are listed, so that file times are raised above theirs."""


def commits_from(
    engine: Engine,
    table: str,
    start: int,
    *,
    allow_gaps: bool = False,
    catalog: Catalog | None = None,
) -> list[CommitRange]:
    """The commits from a version on that are in the log now, by one listing.

    Args:
        allow_gaps: commits that are gone are passed over.

    Returns:
        One range, or none where there is no such commit yet. With gaps, a range for each run.

    Raises:
        VersionNotFoundError: the commit of `start` has been cleaned up; `earliest` is the first one
            left.
        CorruptTableError: a commit is missing in between.
        TableNotFoundError: there is no log.
    """
    listed = listed_commits(engine, table, start, catalog=catalog)
    return contiguous_commits(table, listed, start, allow_gaps=allow_gaps)


def listed_commits(
    engine: Engine, table: str, start: int, *, catalog: Catalog | None = None
) -> list[tuple[int, FileStatus]]:
    """The commits from some before a version on, each with its file.

    Raises:
        TableNotFoundError: there is no log.
    """
    before = max(0, start - _MONOTONIZED)
    with commit_files(engine, table, before, catalog=catalog) as listing:
        return list(listing)


def contiguous_commits(
    table: str, listed: list[tuple[int, FileStatus]], start: int, *, allow_gaps: bool = False
) -> list[CommitRange]:
    """What `commits_from` gives, of what `listed_commits` gave."""
    times = dict(monotonic_times(listed))
    found = [(v, f) for v, f in listed if v >= start]
    if not found:
        return []
    if found[0][0] != start and not allow_gaps:
        raise VersionNotFoundError(
            f"Commit {start} of {table} has been cleaned up. The earliest commit available is "
            f"{found[0][0]}.",
            table=table,
            earliest=found[0][0],
            latest=found[-1][0],
        )
    runs: list[list[tuple[int, FileStatus]]] = [[found[0]]]
    for previous, current in pairwise(found):
        if current[0] == previous[0] + 1:
            runs[-1].append(current)
            continue
        if not allow_gaps:
            missing = previous[0] + 1
            raise CorruptTableError(
                f"Commit {missing} is missing in the log of {table}; versions must be contiguous. "
                "Restore that file.",
                table=table,
                file=f"{log_path(table)}/{commit_file_name(missing)}",
            )
        runs.append([current])
    return [
        CommitRange(
            table=table,
            start_version=run[0][0],
            end_version=run[-1][0],
            query_start_boundary=CommitBoundary.at_version(run[0][0]),
            query_end_boundary=None,
            files=tuple(file for _, file in run),
            file_times=tuple(times[version] for version, _ in run),
        )
        for run in runs
    ]
