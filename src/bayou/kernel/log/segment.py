"""Log segments: the log files of a version (PROTOCOL.md, Delta Log Entries and Checkpoints).

A segment consists of the newest complete checkpoint at or below the version and the commits after
it. The listing of the log starts at the version in the checkpoint hint `_last_checkpoint`, which
may be missing, outdated or corrupt.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """The log files of a version of a table.

    Attributes:
        commits: commits after the checkpoint, ascending and without a gap.
        last_commit: the commit of `version`; None if log cleanup deleted it.
        file_time: timestamp of `last_commit` in ms since the epoch, from the modification times of
            the commit files; see `monotonic_times`. If `last_commit` is None, this is the
            modification time of the checkpoint.
        compacted: log compaction files of commits after the checkpoint, ascending and without
            overlap.
        checksum: the newest version checksum from the checkpoint's version up to `version`; None if
            there is none.
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
    """Return the path of the table's log directory."""
    return f"{table}/{LOG_DIRECTORY}"


def load_log_segment(
    engine: Engine,
    table: str,
    version: int | None = None,
    *,
    ignored_checkpoints: Collection[str] = (),
    catalog: Catalog | None = None,
) -> LogSegment:
    """List the log and select the log files of a version, by default the latest.

    The listing starts at the version in `_last_checkpoint` if this version isn't above the
    requested version. Otherwise, the listing starts at the beginning of the log.

    The log is listed again from the beginning if the checkpoint isn't in the listing or if a commit
    seems to be missing. Not every store lists atomically: a listing may contain a new commit but
    not the previous commit.

    Args:
        ignored_checkpoints: paths of checkpoint files that can't be read.
        catalog: the catalog that manages the table. The catalog's ratified commits are included.

    Raises:
        TableNotFoundError: the path has no log.
        VersionNotFoundError: the log ends before the version, or begins after it.
        CorruptTableError: the commits have a gap, or end before the checkpoint's version.
    """
    if version is not None and version < 0:
        raise VersionNotFoundError(
            f"{table}: version {version} doesn't exist; versions begin at 0. Use a version in the "
            "table's history.",
            table=table,
        )
    unpublished: dict[int, FileStatus] = {}
    if catalog is not None:
        ratified = catalog.ratified_commits(table, version)
        version = ratified_version(table, ratified, version)
        unpublished = {v: f for v, f in ratified_files(table, ratified) if v <= version}
    hint = None if ignored_checkpoints else _hinted_version(engine, table)
    start = hint if hint is not None and (version is None or hint <= version) else 0
    try:
        try:
            segment = _segment_from(
                engine, table, start, LogListing(version, ignored_checkpoints, unpublished)
            )
            if segment is not None:
                return segment
        except CorruptTableError:
            pass
        segment = _segment_from(
            engine, table, 0, LogListing(version, ignored_checkpoints, unpublished)
        )
    except VersionNotFoundError as error:
        raise _version_not_found(
            engine, table, version, LogListing(None, ignored_checkpoints, {})
        ) from error
    except TableNotFoundError as error:
        existing = _existing_log_file(engine, table, hint)
        if existing is None:
            raise
        try:  # the table may have been created since the listing
            segment = _segment_from(
                engine, table, 0, LogListing(version, ignored_checkpoints, unpublished)
            )
        except TableNotFoundError:
            raise _log_not_listed(table, existing) from error
    if segment is None:
        raise _not_found(table)
    return segment


@closeable
def commit_files(
    engine: Engine, table: str, start: int = 0, *, catalog: Catalog | None = None
) -> Iterator[tuple[int, FileStatus]]:
    """Yield (version, file) of the commits from version `start` on, ascending.

    Args:
        catalog: the catalog that manages the table; None if no catalog manages the table. The
            catalog's ratified commits replace published commits of the same version. Published
            commits above the catalog's latest version are ignored.
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
                # The catalog may still have commits that log cleanup has deleted from the log.
                for earlier in sorted(v for v in unpublished if v < file.version):
                    yield earlier, unpublished.pop(earlier)
                yield file.version, unpublished.pop(file.version, status)
    except FileMissingError as error:
        if not unpublished:
            raise _not_found(table, error) from error
    yield from sorted(unpublished.items(), key=lambda item: item[0])


def complete_checkpoints(
    files: Iterable[FileStatus], *, include_duplicates: bool = False
) -> list[Checkpoint]:
    """Return the complete checkpoints among the files of a log, in the order of versions.

    Args:
        include_duplicates: whether to return all checkpoints of a version. If False, only the
            preferred one is returned.
    """
    listing = LogListing(None, (), {})
    for status in files:
        listing.add(status)
    checkpoints = listing.checkpoints()
    if include_duplicates:
        return checkpoints
    best = {c.version: c for c in reversed(checkpoints)}
    return [best[version] for version in sorted(best)]


def monotonic_times(commits: Iterable[tuple[int, FileStatus]]) -> Iterator[tuple[int, int]]:
    """Yield (version, timestamp in ms) of commits, which must be in ascending order.

    The timestamp is the modification time of the commit file. If this time isn't later than the
    previous timestamp, the result is the previous timestamp plus 1 ms.
    """
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
    """List the log from version `start` on, and create the segment.

    Args:
        listing: an empty listing. The files are added to it.

    Returns:
        The segment. None if the log must be listed from its beginning, because `start` is above 0
        and the listing has no checkpoint or no commits.
    """
    try:
        for status in engine.files.list_from(f"{log_path(table)}/{list_prefix(start)}"):
            listing.add(status)
    except FileMissingError as error:
        if not listing.ratified:
            raise _not_found(table, error) from error
    listing.commits.update(listing.ratified)
    checkpoint = listing.checkpoint()
    if start > 0 and (checkpoint is None or not listing.commits):
        return None  # an older checkpoint may exist, or the log may end below `start`
    return _assemble(table, listing, checkpoint)


def _existing_log_file(engine: Engine, table: str, hint: int | None) -> str | None:
    """Return the path of a log file that exists although the listing is empty; None if none exists.

    Args:
        hint: version in the checkpoint hint; None if the log has no hint.
    """
    if hint is not None:
        return f"{log_path(table)}/{LAST_CHECKPOINT}"
    first = f"{log_path(table)}/{commit_file_name(0)}"
    try:
        engine.files.status(first)
    except FileMissingError:
        return None
    return first


def _log_not_listed(table: str, existing: str) -> CorruptTableError:
    """Return the error for an empty listing of a log that has at least one file.

    The listing can be empty because a proxy answers the requests with its own page, or because the
    commits were deleted but `_last_checkpoint` wasn't. Without this error, a write would create the
    table again.
    """
    return CorruptTableError(
        f"{table}: the listing of the log has no commit and no checkpoint, but {existing} exists. "
        "If the log's files were deleted, restore them, or delete the log directory to start over. "
        "Otherwise, the listing is wrong: check the storage, and any proxy in front of it.",
        table=table,
        file=existing,
    )


def _version_not_found(
    engine: Engine, table: str, version: int | None, listing: LogListing
) -> VersionNotFoundError:
    for status in engine.files.list_from(f"{log_path(table)}/{list_prefix(0)}"):
        listing.add(status)
    earliest, latest = listing.version_bounds()
    if version is not None and version > latest:
        message = f"{table}: version {version} doesn't exist; the latest version is {latest}"
        message += "." if earliest is None else f", the earliest that can be rebuilt is {earliest}."
    else:
        message = (
            f"{table}: version {version} can't be rebuilt, because the commits that it needs were "
            "cleaned up. "
        )
        message += (
            "No version can be rebuilt; restore the missing log files."
            if earliest is None
            else f"The earliest version that can be rebuilt is {earliest}, the latest is {latest}."
        )
    return VersionNotFoundError(message, table=table, earliest=earliest, latest=latest)


def _assemble(table: str, listing: LogListing, checkpoint: Checkpoint | None) -> LogSegment:
    version, commits, later = listing.version, listing.commits, listing.first_later_version
    base = -1 if checkpoint is None else checkpoint.version
    if checkpoint is not None and not listing.reaches(base):
        raise _checkpoint_ahead(table, checkpoint, max(commits))
    tail_versions = [v for v in sorted(commits) if v > base]
    if not tail_versions and checkpoint is None:
        if later is not None:
            raise VersionNotFoundError(
                f"{table}: version {version} can't be rebuilt, because the log begins at version "
                f"{later}; older commits were cleaned up. Use a later version.",
                table=table,
            )
        raise _not_found(table)
    for expected, actual in enumerate(tail_versions, base + 1):
        if expected != actual:
            raise _gap(table, expected, actual, checkpoint, version)
    latest = tail_versions[-1] if tail_versions else base
    if version is not None and latest < version:
        if later is not None:
            raise _gap(table, latest + 1, later, checkpoint, version)
        raise VersionNotFoundError(
            f"{table}: version {version} doesn't exist; the latest version is {latest}. Use that "
            "version or an earlier one.",
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
    assert checkpoint is not None  # every version has a commit or a checkpoint
    return max(f.modification_time for f in checkpoint.files)


def _gap(
    table: str, expected: int, actual: int, checkpoint: Checkpoint | None, version: int | None
) -> Exception:
    if checkpoint is None and expected == 0:
        if version is not None:
            return VersionNotFoundError(
                f"{table}: version {version} can't be rebuilt, because the log begins at version "
                f"{actual} and no checkpoint covers earlier versions. Use a later version.",
                table=table,
            )
        return CorruptTableError(
            f"{table}: no version can be rebuilt, because the log begins at version {actual} and "
            "has no complete checkpoint. Restore the missing log files.",
            table=table,
        )
    return CorruptTableError(
        f"{table}: commit {expected} is missing in the log; the next commit is {actual}, but "
        "versions must be contiguous. Restore the file; the table can't be read without it.",
        table=table,
        file=f"{log_path(table)}/{commit_file_name(expected)}",
    )


def _checkpoint_ahead(table: str, checkpoint: Checkpoint, last: int) -> CorruptTableError:
    path = checkpoint.files[0].path
    return CorruptTableError(
        f"{table}: the log ends at commit {last}, but the checkpoint {path} is of version "
        f"{checkpoint.version}. Restore the missing commits, or delete the checkpoint to continue "
        f"from version {last}.",
        table=table,
        file=path,
    )


def _not_found(table: str, cause: FileMissingError | None = None) -> TableNotFoundError:
    if cause is not None and cause.obstacle is not None:
        return TableNotFoundError(
            f"{table}: the path has no Delta table, because {cause.obstacle} is a file. A table is "
            "a directory; check the path.",
            table=table,
        )
    return TableNotFoundError(
        f"{table}: the path has no Delta table, because it has no {LOG_DIRECTORY} directory with "
        "commits. Check the path, or create the table first.",
        table=table,
    )
