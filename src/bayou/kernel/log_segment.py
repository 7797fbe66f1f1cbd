"""Which log files make up a version (PROTOCOL.md, Delta Log Entries, Checkpoints).

A segment is the newest complete checkpoint at or below the version and the commits behind it.
`_last_checkpoint` is only a hint where to begin the listing: it may be missing, stale or corrupt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bayou.errors import (
    CorruptTableError,
    FileMissingError,
    TableError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from bayou.kernel.closeable import closeable
from bayou.kernel.engine import ByteRange, Engine, FileStatus
from bayou.protocol import last_checkpoint
from bayou.protocol.file_names import (
    LAST_CHECKPOINT,
    LOG_DIRECTORY,
    ClassicCheckpoint,
    CommitFile,
    MultiPartCheckpoint,
    UuidCheckpoint,
    commit_file_name,
    list_prefix,
    parse_log_file,
)

__all__ = ["Checkpoint", "LogSegment", "commit_files", "load_log_segment", "log_path"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint: its version and its files, in the order of their parts."""

    version: int
    files: tuple[FileStatus, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(f.size for f in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """The files that make up a version of a table.

    Attributes:
        table: path of the table.
        version: the version they give.
        checkpoint: the newest complete checkpoint, None where replay starts at version 0.
        commits: commits behind the checkpoint, ascending and without a gap.
        last_commit: the commit of `version`, None where log cleanup has taken it.
    """

    table: str
    version: int
    checkpoint: Checkpoint | None
    commits: tuple[FileStatus, ...]
    last_commit: FileStatus | None


def log_path(table: str) -> str:
    """The table's log folder."""
    return f"{table}/{LOG_DIRECTORY}"


def load_log_segment(engine: Engine, table: str, version: int | None = None) -> LogSegment:
    """List the log and choose the files of a version, the latest where it is None.

    One request for the hint and one listing from the hinted checkpoint on; a second listing from
    the beginning where the hint was wrong or lies above the version, or where a commit seems to be
    missing: a listing that isn't atomic may miss a commit that is made meanwhile and show the next.

    Raises:
        TableNotFoundError: no log at the path.
        VersionNotFoundError: the log doesn't reach the version, or begins after it.
        CorruptTableError: a commit is missing in between.
    """
    hint = _hinted_version(engine, table)
    start = hint if hint is not None and (version is None or hint <= version) else 0
    try:
        segment = _segment_from(engine, table, start, version)
        if segment is not None:
            return segment
    except CorruptTableError:
        pass
    segment = _segment_from(engine, table, 0, version)
    if segment is None:
        raise _not_found(table)
    return segment


@closeable
def commit_files(engine: Engine, table: str, start: int = 0) -> Iterator[tuple[int, FileStatus]]:
    """(version, file) of the commits from `start` on, ascending, as the listing gives them.

    Raises:
        TableNotFoundError: there is no log folder.
    """
    try:
        with engine.files.list_from(f"{log_path(table)}/{list_prefix(start)}") as statuses:
            for status in statuses:
                file = parse_log_file(_name(status))
                if isinstance(file, CommitFile):
                    yield file.version, status
    except FileMissingError as error:
        raise _not_found(table) from error


def _hinted_version(engine: Engine, table: str) -> int | None:
    try:
        path = f"{log_path(table)}/{LAST_CHECKPOINT}"
        data = next(iter(engine.files.read_files([ByteRange(path=path)])))
    except FileMissingError:
        return None
    hint = last_checkpoint.parse(bytes(data))
    return None if hint is None else hint.version


def _segment_from(engine: Engine, table: str, start: int, version: int | None) -> LogSegment | None:
    """The segment out of a listing from `start`; None where that can't be said from there."""
    commits: dict[int, FileStatus] = {}
    parts: dict[tuple[int, int], dict[int, FileStatus]] = {}
    v2_checkpoint: FileStatus | None = None
    later: int | None = None
    try:
        for status in engine.files.list_from(f"{log_path(table)}/{list_prefix(start)}"):
            match parse_log_file(_name(status)):
                case CommitFile(version=found):
                    if version is None or found <= version:
                        commits[found] = status
                    elif later is None:
                        later = found
                case ClassicCheckpoint() | MultiPartCheckpoint() as file:
                    if version is not None and file.version > version:
                        later = file.version if later is None else later
                    elif status.size > 0:  # else a writer died on a store without atomic writes
                        part, count = 1, 1
                        if isinstance(file, MultiPartCheckpoint):
                            part, count = file.part, file.parts
                        parts.setdefault((file.version, count), {})[part] = status
                case UuidCheckpoint() as file if version is None or file.version <= version:
                    v2_checkpoint = status
                case _:
                    pass
    except FileMissingError as error:
        raise _not_found(table) from error
    checkpoint = _newest_complete(parts)
    if checkpoint is None and start > 0:
        return None
    try:
        return _assemble(table, commits, checkpoint, version, later)
    except TableError as error:
        if v2_checkpoint is None or (isinstance(error, VersionNotFoundError) and later is None):
            raise
        raise UnsupportedFeatureError(
            f"{table} can't be rebuilt without its V2 checkpoint {v2_checkpoint.path} (table "
            "feature v2Checkpoint), which this version of Bayou doesn't read.",
            table=table,
            features=["v2Checkpoint"],
        ) from error


def _newest_complete(
    parts: dict[tuple[int, int], dict[int, FileStatus]],
) -> Checkpoint | None:
    """The newest checkpoint with all its parts; a single file is preferred at equal versions."""
    best: Checkpoint | None = None
    for (version, count), files in sorted(
        parts.items(), key=lambda item: (item[0][0], -item[0][1])
    ):
        if len(files) == count:
            best = Checkpoint(version=version, files=tuple(files[i] for i in sorted(files)))
    return best


def _assemble(
    table: str,
    commits: dict[int, FileStatus],
    checkpoint: Checkpoint | None,
    version: int | None,
    later: int | None,
) -> LogSegment:
    """The segment; `later` is the first version in the log above the one asked for, if any."""
    base = -1 if checkpoint is None else checkpoint.version
    tail_versions = [v for v in sorted(commits) if v > base]
    if not tail_versions and checkpoint is None:
        if later is not None:
            raise VersionNotFoundError(
                f"Version {version} of {table} can't be rebuilt: the log begins at version {later}."
                " Older commits have been cleaned up.",
                table=table,
            )
        raise _not_found(table)
    for expected, found in enumerate(tail_versions, base + 1):
        if expected != found:
            raise _gap(table, expected, found, checkpoint, version)
    latest = tail_versions[-1] if tail_versions else base
    if version is not None and latest < version:
        if later is not None:
            raise _gap(table, latest + 1, later, checkpoint, version)
        raise VersionNotFoundError(
            f"{table} has no version {version}; its latest version is {latest}.",
            table=table,
            latest=latest,
        )
    return LogSegment(
        table=table,
        version=latest,
        checkpoint=checkpoint,
        commits=tuple(commits[v] for v in tail_versions),
        last_commit=commits.get(latest),
    )


def _gap(
    table: str, expected: int, found: int, checkpoint: Checkpoint | None, version: int | None
) -> Exception:
    if checkpoint is None and expected == 0:
        if version is not None:
            return VersionNotFoundError(
                f"Version {version} of {table} can't be rebuilt: the log begins at version {found} "
                "and no checkpoint covers what was before. Ask for a later version.",
                table=table,
            )
        return CorruptTableError(
            f"The log of {table} begins at version {found} and has no complete checkpoint, so no "
            "version can be rebuilt. Restore the missing log files.",
            table=table,
        )
    return CorruptTableError(
        f"Commit {expected} is missing in the log of {table} (the next one is {found}); versions "
        "must be contiguous. Restore that file; without it the table can't be read.",
        table=table,
        file=f"{log_path(table)}/{commit_file_name(expected)}",
    )


def _not_found(table: str) -> TableNotFoundError:
    return TableNotFoundError(
        f"There is no Delta table at {table}: it has no {LOG_DIRECTORY} folder with commits. "
        "Check the path, or write to it first.",
        table=table,
    )


def _name(status: FileStatus) -> str:
    return status.path.rsplit("/", 1)[-1]
