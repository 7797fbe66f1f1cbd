"""Files of commits for streaming reads: numbered files of a commit, and listing of new commits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from bayou.errors import CorruptTableError, VersionNotFoundError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.catalog import Catalog
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.commit_times import monotonic_times
from bayou.kernel.log.segment import commit_files, log_path
from bayou.kernel.scan.scan_file import ADD_TYPE, adds_to_array
from bayou.kernel.table_changes.change_plan import is_merge_without_changes
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFiles:
    """Files of a commit. The number of a file is its position in `paths` and `sizes`.

    Attributes:
        commit: the commit.
        paths: paths as written in the log.
        sizes: sizes in bytes, int64; 0 if the log doesn't have the size.
        adds: the files as `ADD_TYPE` without statistics; None for `changed_files`.
        removed: the path of one file that the commit removes with `dataChange`, None for none.
        recorded: whether the files are change data files.
        read_together: whether the files must be read together, because an update may have its
            preimage and postimage in different files, or a file has an old and a new deletion
            vector.
        has_files: whether the commit has adds or removes, also without `dataChange`.
        metadata, protocol: metadata and protocol that the commit sets, None for none.
        info: `commitInfo` of the commit, None for none.
    """

    commit: CommitActions
    paths: pa.Array[Any]
    sizes: pa.Array[Any]
    adds: pa.StructArray | None = None
    removed: str | None = None
    recorded: bool = False
    read_together: bool = False
    has_files: bool = False
    metadata: Metadata | None
    protocol: Protocol | None
    info: CommitInfo | None

    @property
    def version(self) -> int:
        """Version of the commit."""
        return self.commit.version


def added_files(commit: CommitActions) -> CommitFiles:
    """The files that a commit adds with `dataChange`.

    Raises:
        CorruptTableError: a line isn't an action; the message has file and line.
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
    """The files with the changes of a commit: change data files, else added and removed files.

    Contains no files if the commit is a MERGE that rewrites files without changing a row.

    Raises:
        CorruptTableError: a line isn't an action; the message has file and line.
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
    if not recorded and is_merge_without_changes(commit):
        files = []
    return CommitFiles(
        commit=commit,
        paths=pa.array([f.path for f in files], pa.string()),
        sizes=pa.array([f.size or 0 for f in files], pa.int64()),
        recorded=bool(recorded),
        read_together=bool(recorded) or any(f.deletion_vector is not None for f in files),
        has_files=bool(recorded or touched),
        metadata=header.get(Metadata),
        protocol=header.get(Protocol),
        info=header.get(CommitInfo),
    )


def without_statistics(adds: pa.StructArray) -> pa.StructArray:
    """Replace `stats` and `tags` by nulls, because reading rows doesn't need them."""
    columns: list[pa.Array[Any]] = [
        pa.nulls(len(adds), field.type)
        if field.name in ("stats", "tags")
        else pc.struct_field(adds, field.name)
        for field in ADD_TYPE
    ]
    return pa.StructArray.from_arrays(columns, fields=list(ADD_TYPE))


_PRECEDING_COMMITS = 100
"""Number of earlier commits that are listed to make file times monotonic."""


def commits_from(
    engine: Engine,
    table: str,
    start: int,
    *,
    allow_gaps: bool = False,
    catalog: Catalog | None = None,
) -> list[CommitRange]:
    """List the commits from a version on.

    Args:
        allow_gaps: whether to skip missing commits.

    Returns:
        One range, or none if the log has no such commit yet. With gaps, one range for each run of
        contiguous commits.

    Raises:
        VersionNotFoundError: the commit of `start` was cleaned up; `earliest` is the first
            available commit.
        CorruptTableError: a commit between two others is missing.
        TableNotFoundError: the path has no log.
    """
    listed = listed_commits(engine, table, start, catalog=catalog)
    return contiguous_commits(table, listed, start, allow_gaps=allow_gaps)


def listed_commits(
    engine: Engine, table: str, start: int, *, catalog: Catalog | None = None
) -> list[tuple[int, FileStatus]]:
    """List the commits from a version on and some earlier commits, with their files.

    Raises:
        TableNotFoundError: the path has no log.
    """
    first = max(0, start - _PRECEDING_COMMITS)
    with commit_files(engine, table, first, catalog=catalog) as listing:
        return list(listing)


def contiguous_commits(
    table: str, listed: list[tuple[int, FileStatus]], start: int, *, allow_gaps: bool = False
) -> list[CommitRange]:
    """Like `commits_from`, for the result of `listed_commits`."""
    times = dict(monotonic_times(listed))
    commits = [(v, f) for v, f in listed if v >= start]
    if not commits:
        return []
    if commits[0][0] != start and not allow_gaps:
        raise VersionNotFoundError(
            f"{table}: commit {start} was cleaned up. Start at the earliest available commit "
            f"{commits[0][0]}.",
            table=table,
            earliest=commits[0][0],
            latest=commits[-1][0],
        )
    runs: list[list[tuple[int, FileStatus]]] = [[commits[0]]]
    for previous, current in pairwise(commits):
        if current[0] == previous[0] + 1:
            runs[-1].append(current)
            continue
        if not allow_gaps:
            missing = previous[0] + 1
            raise CorruptTableError(
                f"{table}: commit {missing} is missing in the log, but versions must be "
                "contiguous. Restore the file.",
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
