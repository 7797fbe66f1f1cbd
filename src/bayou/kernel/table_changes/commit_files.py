"""The files of one commit in the order of the log, numbered: what a stream of a table goes by.

The end of a log, as who follows a table reads it: commits from a version on, again and again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import CorruptTableError, VersionNotFoundError
from bayou.kernel.catalog import Catalog
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.commit_times import monotonic_times
from bayou.kernel.log.segment import commit_files, log_path
from bayou.kernel.scan.scan_file import ADD_TYPE, adds_to_array
from bayou.kernel.table_changes.change_plan import changed_nothing
from bayou.kernel.table_changes.commit_range import CommitActions, CommitBoundary, CommitRange
from bayou.protocol.actions import (
    AddCDCFile,
    AddFile,
    CommitInfo,
    Metadata,
    Protocol,
    RemoveFile,
)
from bayou.protocol.file_names import commit_file_name

__all__ = [
    "CommitFiles",
    "added_files",
    "changed_files",
    "commits_from",
    "contiguous_commits",
    "listed_commits",
    "without_statistics",
]


pc: Any = pyarrow.compute


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFiles:
    """Files of a commit; a file's number is its place in `paths` and `sizes`.

    Attributes:
        commit: the commit.
        paths: as they stand in the log.
        sizes: bytes, int64; 0 where the log doesn't say.
        adds: the same files as `ADD_TYPE` without statistics; None where they are those of changes.
        removed: one path that the commit removes with its rows, None where it removes none.
        recorded: whether the files are change data files.
        whole: whether rows of one file belong to those of another (PROTOCOL.md, Add CDC File): an
            update's before and after, a deletion vector's old and new.
        has_files: whether the commit adds or removes any file, with new rows or without.
        metadata, protocol: those that the commit sets.
        info: the commit's provenance.
    """

    commit: CommitActions
    paths: pa.Array[Any]
    sizes: pa.Array[Any]
    adds: pa.StructArray | None = None
    removed: str | None = None
    recorded: bool = False
    whole: bool = False
    has_files: bool = False
    metadata: Metadata | None
    protocol: Protocol | None
    info: CommitInfo | None

    @property
    def version(self) -> int:
        """The commit's version."""
        return self.commit.version


def added_files(commit: CommitActions) -> CommitFiles:
    """The files that a commit adds with new rows (`dataChange`).

    Raises:
        CorruptTableError: a line isn't an action; names file and line.
    """
    adds: list[AddFile] = []
    removed: str | None = None
    has_files = False
    header: dict[type, Any] = {}
    for action in commit.decoded(AddFile, RemoveFile, Metadata, Protocol, CommitInfo):
        match action:
            case AddFile():
                has_files = True
                if action.data_change:
                    adds.append(action)
            case RemoveFile():
                has_files = True
                if action.data_change and removed is None:
                    removed = action.path
            case _:
                header[type(action)] = action
    array = without_statistics(adds_to_array(adds))
    return CommitFiles(
        commit=commit,
        paths=pc.struct_field(array, "path"),
        sizes=pc.struct_field(array, "size"),
        adds=array,
        removed=removed,
        has_files=has_files,
        metadata=header.get(Metadata),
        protocol=header.get(Protocol),
        info=header.get(CommitInfo),
    )


def changed_files(commit: CommitActions) -> CommitFiles:
    """The files that say what a commit changed: change data files, else those added and removed.

    None where the commit, though it rewrites files, says that it changed no row.

    Raises:
        CorruptTableError: a line isn't an action; names file and line.
    """
    recorded: list[AddCDCFile] = []
    touched: list[AddFile | RemoveFile] = []
    header: dict[type, Any] = {}
    for action in commit.decoded():
        match action:
            case AddCDCFile():
                recorded.append(action)
            case AddFile() | RemoveFile():
                if action.data_change:
                    touched.append(action)
            case Metadata() | Protocol() | CommitInfo():
                header[type(action)] = action
            case _:
                pass
    files: list[Any] = list(recorded) if recorded else list(touched)
    if not recorded and changed_nothing(commit):
        files = []
    return CommitFiles(
        commit=commit,
        paths=pa.array([f.path for f in files], pa.string()),
        sizes=pa.array([f.size or 0 for f in files], pa.int64()),
        recorded=bool(recorded),
        whole=bool(recorded) or any(f.deletion_vector is not None for f in files),
        has_files=bool(recorded or touched),
        metadata=header.get(Metadata),
        protocol=header.get(Protocol),
        info=header.get(CommitInfo),
    )


def without_statistics(adds: pa.StructArray) -> pa.StructArray:
    """The same files, `ADD_TYPE`, with `stats` and `tags` null: readers of rows need neither."""
    columns: list[pa.Array[Any]] = [
        pa.nulls(len(adds), field.type)
        if field.name in ("stats", "tags")
        else pc.struct_field(adds, field.name)
        for field in ADD_TYPE
    ]
    return pa.StructArray.from_arrays(columns, fields=list(ADD_TYPE))


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
