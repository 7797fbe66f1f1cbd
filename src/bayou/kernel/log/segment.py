"""Which log files make up a version (PROTOCOL.md, Delta Log Entries, Checkpoints).

A segment is the newest complete checkpoint at or below the version and the commits behind it.
`_last_checkpoint` is only a hint where to begin the listing: it may be missing, stale or corrupt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from bayou.errors import (
    CorruptTableError,
    FileMissingError,
    TableNotFoundError,
    VersionNotFoundError,
)
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.catalog import Catalog, RatifiedCommits, ratified_files, ratified_version
from bayou.kernel.engine import ByteRange, Engine, FileStatus
from bayou.kernel.log.listing import (
    Checkpoint,
    CompactedFile,
    ListedChecksum,
    LogListing,
    file_name,
)
from bayou.protocol import last_checkpoint
from bayou.protocol.file_names import (
    LAST_CHECKPOINT,
    LOG_DIRECTORY,
    CommitFile,
    commit_file_name,
    list_prefix,
    parse_log_file,
)

__all__ = [
    "LogSegment",
    "commit_files",
    "complete_checkpoints",
    "load_log_segment",
    "log_path",
    "monotonic_times",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """The files that make up a version of a table.

    Attributes:
        table: path of the table.
        version: the version they give.
        checkpoint: the newest complete checkpoint, None where replay starts at version 0.
        commits: commits behind the checkpoint, ascending and without a gap.
        last_commit: the commit of `version`, None where log cleanup has taken it.
        file_time: when its file was written, ms since the epoch, raised above those of the commits
            before it that were listed; the checkpoint's where there is no such file.
        compacted: ascending and without overlap, all behind the checkpoint; each saves reads.
        checksum: the newest version checksum up to `version` that isn't older than the
            checkpoint, None for none.
    """

    table: str
    version: int
    checkpoint: Checkpoint | None
    commits: tuple[FileStatus, ...]
    last_commit: FileStatus | None
    file_time: int
    compacted: tuple[CompactedFile, ...] = ()
    checksum: ListedChecksum | None = None


def log_path(table: str) -> str:
    """The table's log folder."""
    return f"{table}/{LOG_DIRECTORY}"


def load_log_segment(
    engine: Engine,
    table: str,
    version: int | None = None,
    *,
    without: Collection[str] = (),
    catalog: Catalog | None = None,
) -> LogSegment:
    """List the log and choose the files of a version, the latest where it is None.

    One request for the hint and one listing from the hinted checkpoint on; a second listing from
    the beginning where the hint was wrong or lies above the version, or where a commit seems to be
    missing: a listing that isn't atomic may miss a commit that is made meanwhile and show the next.

    Args:
        without: paths of checkpoint files that can't be read, to do without.
        catalog: the one that manages the table; its ratified commits are the table's.

    Raises:
        TableNotFoundError: no log at the path.
        VersionNotFoundError: the log doesn't reach the version, or begins after it.
        CorruptTableError: a commit is missing in between, or below a checkpoint.
    """
    if version is not None and version < 0:
        raise VersionNotFoundError(
            f"Version {version} of {table} doesn't exist: versions begin at 0.", table=table
        )
    unpublished: dict[int, FileStatus] = {}
    if catalog is not None:
        ratified = catalog.ratified_commits(table, version)
        version = ratified_version(table, ratified, version)
        unpublished = {v: f for v, f in ratified_files(table, ratified) if v <= version}
    hint = None if without else _hinted_version(engine, table)
    start = hint if hint is not None and (version is None or hint <= version) else 0
    try:
        try:
            segment = _segment_from(engine, table, start, LogListing(version, without, unpublished))
            if segment is not None:
                return segment
        except CorruptTableError:
            pass
        segment = _segment_from(engine, table, 0, LogListing(version, without, unpublished))
    except VersionNotFoundError as error:
        raise _with_what_there_is(engine, table, version, LogListing(None, without, {})) from error
    except TableNotFoundError as error:
        known = _file_of_log(engine, table, hint)
        if known is None:
            raise
        try:  # somebody may have made the table since the listing
            segment = _segment_from(engine, table, 0, LogListing(version, without, unpublished))
        except TableNotFoundError:
            raise _log_not_listed(table, known) from error
    if segment is None:
        raise _not_found(table)
    return segment


@closeable
def commit_files(
    engine: Engine, table: str, start: int = 0, *, catalog: Catalog | None = None
) -> Iterator[tuple[int, FileStatus]]:
    """(version, file) of the commits from `start` on, ascending, as the listing gives them.

    Args:
        catalog: the one that manages the table: commits that it ratified come in the place of those
            published, and none above its latest version.

    Raises:
        TableNotFoundError: there is no log folder.
    """
    ratified = RatifiedCommits(latest_version=-1)
    if catalog is not None:
        ratified = catalog.ratified_commits(table)
    unpublished = {v: f for v, f in ratified_files(table, ratified) if v >= start}
    try:
        with engine.files.list_from(f"{log_path(table)}/{list_prefix(start)}") as statuses:
            for status in statuses:
                file = parse_log_file(file_name(status))
                if not isinstance(file, CommitFile):
                    continue
                if catalog is not None and file.version > ratified.latest_version:
                    break
                # The log may have lost, by a cleanup, what the catalog still keeps.
                for earlier in sorted(v for v in unpublished if v < file.version):
                    yield earlier, unpublished.pop(earlier)
                yield file.version, unpublished.pop(file.version, status)
    except FileMissingError as error:
        if not unpublished:
            raise _not_found(table, error) from error
    yield from sorted(unpublished.items(), key=lambda item: item[0])


def complete_checkpoints(files: Iterable[FileStatus], *, every: bool = False) -> list[Checkpoint]:
    """The checkpoints among the files of a log that have all their parts, ascending.

    Args:
        every: all that a version has, not the best of them only.
    """
    listing = LogListing(None, (), {})
    for status in files:
        listing.take(status)
    found = listing.checkpoints()
    if every:
        return found
    best = {c.version: c for c in reversed(found)}
    return [best[version] for version in sorted(best)]


def monotonic_times(commits: Iterable[tuple[int, FileStatus]]) -> Iterator[tuple[int, int]]:
    """(version, ms) of commits in ascending order, each time above the one before it."""
    last: int | None = None
    for version, file in commits:
        time = file.modification_time
        if last is not None and time <= last:
            time = last + 1
        last = time
        yield version, time


def _hinted_version(engine: Engine, table: str) -> int | None:
    try:
        path = f"{log_path(table)}/{LAST_CHECKPOINT}"
        data = next(iter(engine.files.read_files([ByteRange(path=path)])))
    except FileMissingError:
        return None
    hint = last_checkpoint.parse(bytes(data))
    return None if hint is None else hint.version


def _segment_from(engine: Engine, table: str, start: int, listing: LogListing) -> LogSegment | None:
    """The segment out of a listing from `start`; None where that can't be said from there."""
    try:
        for status in engine.files.list_from(f"{log_path(table)}/{list_prefix(start)}"):
            listing.take(status)
    except FileMissingError as error:
        if not listing.ratified:
            raise _not_found(table, error) from error
    listing.commits.update(listing.ratified)
    checkpoint = listing.checkpoint()
    if start > 0 and (checkpoint is None or not listing.commits):
        return None  # older files may say more: of another checkpoint, or of a log that ends below
    return _assemble(table, listing, checkpoint)


def _file_of_log(engine: Engine, table: str, hint: int | None) -> str | None:
    """A file that is in the log although a listing had none of it; None where there is none."""
    if hint is not None:
        return f"{log_path(table)}/{LAST_CHECKPOINT}"
    first = f"{log_path(table)}/{commit_file_name(0)}"
    try:
        engine.files.status(first)
    except FileMissingError:
        return None
    return first


def _log_not_listed(table: str, known: str) -> CorruptTableError:
    """An empty listing of a log that has files: to a write it would look as if no table were there.

    So answers a proxy that sends its own page with status 200, and so looks a log whose commits
    were deleted and whose hint was left.
    """
    return CorruptTableError(
        f"The log of {table} lists neither a commit nor a checkpoint, but {known} is there. Either "
        "the log's files were deleted: restore them, or delete the folder of the log to begin "
        "anew; or the storage lists wrongly: check what is between here and it, such as a proxy.",
        table=table,
        file=known,
    )


def _with_what_there_is(
    engine: Engine, table: str, version: int | None, everything: LogListing
) -> VersionNotFoundError:
    """The error for a version that isn't there, with those that are."""
    for status in engine.files.list_from(f"{log_path(table)}/{list_prefix(0)}"):
        everything.take(status)
    earliest, latest = everything.ends()
    if version is not None and version > latest:
        message = f"{table} has no version {version}; its latest version is {latest}"
        message += "." if earliest is None else f", the earliest that can be rebuilt is {earliest}."
    else:
        message = (
            f"Version {version} of {table} can't be rebuilt: the commits that it needs have been "
            "cleaned up. "
        )
        message += (
            "No version can be; restore the missing log files."
            if earliest is None
            else f"The earliest version that can be is {earliest}, the latest is {latest}."
        )
    return VersionNotFoundError(message, table=table, earliest=earliest, latest=latest)


def _assemble(table: str, listing: LogListing, checkpoint: Checkpoint | None) -> LogSegment:
    version, commits, later = listing.version, listing.commits, listing.later
    base = -1 if checkpoint is None else checkpoint.version
    if checkpoint is not None and not listing.reaches(base):
        raise _checkpoint_ahead(table, checkpoint, max(commits))
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
        file_time=_file_time(commits, checkpoint, latest),
        compacted=listing.compacted(base, latest),
        checksum=listing.checksum(base),
    )


def _file_time(
    commits: Mapping[int, FileStatus], checkpoint: Checkpoint | None, latest: int
) -> int:
    if latest in commits:
        return dict(monotonic_times(sorted(commits.items(), key=lambda item: item[0])))[latest]
    assert checkpoint is not None  # a version has a commit or a checkpoint
    return max(f.modification_time for f in checkpoint.files)


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


def _checkpoint_ahead(table: str, checkpoint: Checkpoint, last: int) -> CorruptTableError:
    path = checkpoint.files[0].path
    return CorruptTableError(
        f"The log of {table} ends at commit {last}, but its checkpoint {path} is of version "
        f"{checkpoint.version}. Restore the missing commits, or delete the checkpoint to continue "
        f"from version {last}.",
        table=table,
        file=path,
    )


def _not_found(table: str, cause: FileMissingError | None = None) -> TableNotFoundError:
    if cause is not None and cause.obstacle is not None:
        return TableNotFoundError(
            f"There is no Delta table at {table}: {cause.obstacle} is a file. A table is a folder; "
            "check the path.",
            table=table,
        )
    return TableNotFoundError(
        f"There is no Delta table at {table}: it has no {LOG_DIRECTORY} folder with commits. "
        "Check the path, or write to it first.",
        table=table,
    )
