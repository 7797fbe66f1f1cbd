"""New commits for streaming reads, with their files in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from bayou.errors import CorruptTableError, VersionNotFoundError
from bayou.kernel.arrow.arrays import to_array
from bayou.kernel.arrow.compute import pc
from bayou.kernel.catalog import Catalog
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.segment import log_path, monotonic_times
from bayou.kernel.scan.scan_file import ADD_TYPE, adds_to_array
from bayou.kernel.table_changes.change_plan import is_merge_without_changes
from bayou.kernel.table_changes.commit_range import (
    CommitActions,
    CommitBoundary,
    CommitRange,
    list_commits,
)
from bayou.protocol.actions import (
    AddCDCFile,
    AddFile,
    CommitInfo,
    Metadata,
    Protocol,
    RemoveFile,
)
from bayou.protocol.file_names import commit_file_name


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFiles:
    """Files of a commit that a stream reads: the result of `added_files` or `changed_files`.

    Stream offsets refer to a file by its index in `paths`.

    Attributes:
        sizes: sizes of the files in bytes, int64; 0 if unknown.
        adds: `add` actions of the files, as `ADD_TYPE` without statistics; None in the result of
            `changed_files`.
        removed: path of the first file that the commit removes with `dataChange` true; None if the
            commit removes no such file. Always None in the result of `changed_files`.
        recorded: whether the files are change data files.
        read_together: whether all files must be read in one micro-batch. This is the case if the
            commit has change data files, because the preimage and the postimage of an update may be
            in different files. It is also the case if a file has a deletion vector. Always False in
            the result of `added_files`.
        has_files: whether the commit has file actions. In the result of `added_files`, these are
            `add` and `remove` actions. In the result of `changed_files`, these are `cdc` actions,
            and `add` and `remove` actions with `dataChange` true.
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
    """Return the files that a commit adds with `dataChange` true."""
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
    """Return the files with the changed rows of a commit.

    If the commit has change data files, the result has only these files. Otherwise, the result has
    the files that the commit adds or removes with `dataChange` true. For a MERGE that rewrites
    files without changing a row, the result has no files.
    """
    recorded: list[AddCDCFile] = []
    data_changes: list[AddFile | RemoveFile] = []
    header: dict[type, Any] = {}
    for action in commit.decoded():
        match action:
            case AddCDCFile():
                recorded.append(action)
            case AddFile() | RemoveFile():
                if action.data_change:
                    data_changes.append(action)
            case Metadata() | Protocol() | CommitInfo():
                header[type(action)] = action
            case _:
                pass
    files: list[Any] = list(recorded) if recorded else list(data_changes)
    if not recorded and is_merge_without_changes(commit):
        files = []
    return CommitFiles(
        commit=commit,
        paths=to_array([f.path for f in files], pa.string()),
        sizes=to_array([f.size or 0 for f in files], pa.int64()),
        recorded=bool(recorded),
        read_together=bool(recorded) or any(f.deletion_vector is not None for f in files),
        has_files=bool(recorded or data_changes),
        metadata=header.get(Metadata),
        protocol=header.get(Protocol),
        info=header.get(CommitInfo),
    )


def without_statistics(adds: pa.StructArray) -> pa.StructArray:
    """Return `adds` with null as `stats` and `tags`, because reading rows doesn't need them."""
    columns: list[pa.Array[Any]] = [
        pa.nulls(len(adds), field.type)
        if field.name in ("stats", "tags")
        else pc.struct_field(adds, field.name)
        for field in ADD_TYPE
    ]
    return pa.StructArray.from_arrays(columns, fields=list(ADD_TYPE))


def commits_from(
    engine: Engine,
    table: str,
    start: int,
    *,
    allow_gaps: bool = False,
    catalog: Catalog | None = None,
) -> list[CommitRange]:
    """List the commits from version `start` on, as ranges of consecutive versions.

    The result is a list of one range, or an empty list if there are no commits yet. If `allow_gaps`
    is True, commits can be missing, and a new range starts after each gap.

    Raises:
        VersionNotFoundError: log cleanup deleted the commit of `start`, and `allow_gaps` is False.
            The error's attribute `earliest` is the first available version.
        CorruptTableError: a later commit is missing, and `allow_gaps` is False.
    """
    listed = listed_commits(engine, table, start, catalog=catalog)
    return contiguous_commits(table, listed, start, allow_gaps=allow_gaps)


def listed_commits(
    engine: Engine, table: str, start: int, *, catalog: Catalog | None = None
) -> list[tuple[int, FileStatus]]:
    """Return the result of `list_commits`; list the commits again if one seems to be missing.

    A listing that isn't atomic may contain a new commit but not the previous commit.
    """
    listed = list_commits(engine, table, start, catalog=catalog)
    versions = [version for version, _ in listed]
    if listed and (versions[0] > start or versions[-1] - versions[0] + 1 > len(versions)):
        return list_commits(engine, table, start, catalog=catalog)
    return listed


def contiguous_commits(
    table: str, listed: list[tuple[int, FileStatus]], start: int, *, allow_gaps: bool = False
) -> list[CommitRange]:
    """Group listed commits into ranges of consecutive versions; see `commits_from` for errors."""
    times = dict(monotonic_times(listed))
    commits = [(v, f) for v, f in listed if v >= start]
    if not commits:
        return []
    if commits[0][0] != start and not allow_gaps:
        raise VersionNotFoundError(
            f"{table}: log cleanup has deleted commit {start}. Start at the earliest available "
            f"commit, {commits[0][0]}.",
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
