"""Log cleanup: deleting what is older than the log's retention (PROTOCOL.md, Metadata Cleanup).

The *cutoff commit* is the newest one that isn't newer than midnight UTC of the day at which the
retention began; the *cutoff checkpoint* the newest complete checkpoint at or below that. It and its
commit stay, and everything behind it; what is older goes, in ascending order, so that whoever is
stopped midway leaves the end of a log, which is a log. Without such a checkpoint nothing goes but
temporary files (`.*.tmp`) of writers that were killed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bayou.errors import (
    BayouError,
    CorruptTableError,
    FileMissingError,
    StorageError,
    TablePropertyError,
    UnsupportedFeatureError,
)
from bayou.kernel.catalog import (
    Catalog,
    is_catalog_managed,
    permits_maintenance,
    ratified_files,
)
from bayou.kernel.checkpoint.contents import locate_checkpoint_files, unreadable_checkpoint
from bayou.kernel.checkpoint.v2_compatibility import write_compatibility_checkpoint
from bayou.kernel.engine import Engine, FileStatus
from bayou.kernel.log.commit_times import last_version_at_or_before
from bayou.kernel.log.listing import Checkpoint
from bayou.kernel.log.replay import read_commits
from bayou.kernel.log.segment import complete_checkpoints, log_path
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.protocol import features, properties
from bayou.protocol.actions import Protocol
from bayou.protocol.file_names import (
    SIDECAR_DIRECTORY,
    STAGED_COMMIT_DIRECTORY,
    ChecksumFile,
    ClassicCheckpoint,
    CommitFile,
    CompactedCommits,
    MultiPartCheckpoint,
    StagedCommit,
    UuidCheckpoint,
    list_prefix,
    parse_log_file,
)
from bayou.protocol.property_strings import PropertyValueError

__all__ = ["LogCleanup", "clean_up_log"]

_LOG = logging.getLogger(__name__)

_DAY = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleanup:
    """What a cleanup deleted.

    Attributes:
        earliest_version: the earliest that can be rebuilt now; None where nothing was deleted.
        deleted: paths of files, sidecars included, in the order in which they went.
    """

    earliest_version: int | None = None
    deleted: tuple[str, ...] = ()


def clean_up_log(
    engine: Engine,
    table: str,
    *,
    retention_ms: int | None = None,
    now: int | None = None,
    granularity_ms: int = _DAY,
    catalog: Catalog | None = None,
) -> LogCleanup:
    """Delete what is older than `delta.logRetentionDuration`.

    Repeatable, safe beside readers of what stays, writers and other cleanups. Whether the table
    wants it (`delta.enableExpiredLogCleanup`) is for the caller to ask.

    Args:
        retention_ms: the table's retention where it is known; None: the table is asked.
        now: ms since the epoch; the clock's where it is None.
        granularity_ms: what the cutoff is rounded down to; a day, by PROTOCOL.md.
        catalog: the one that manages the table, if any; it must permit this.

    Returns:
        What was deleted; no file of a version where no checkpoint covers what is too old, or where
        `checkpointProtection` forbids it.

    Raises:
        StorageError: the store failed.
        TableNotFoundError, CorruptTableError: the table can't be read.
        UnsupportedFeatureError: neither can it, or its catalog keeps this to itself.
        TablePropertyError: a retention that can't be read.
    """
    now = time.time_ns() // 1_000_000 if now is None else now
    state: TableState | None = None
    if retention_ms is None:
        state = load_table_state(engine, table, catalog=catalog)
        retention_ms = _retention(state)
    cutoff = (now - retention_ms) // granularity_ms * granularity_ms
    unfinished = _unfinished(engine, table, min(cutoff, _midnight(now - _DAY)))
    engine.files.delete_files(unfinished)
    first = _first_commit(engine, table)
    if first is None or first.modification_time > cutoff:
        return LogCleanup(deleted=unfinished)  # as almost always: nothing is too old yet
    if state is None:
        state = load_table_state(engine, table, catalog=catalog)
    _check_permission(state)
    newest = last_version_at_or_before(engine, state, cutoff)
    found = None if newest is None else _cutoff_checkpoint(engine, state, newest)
    if found is None or not _is_allowed(engine, state, found.version):
        return LogCleanup(deleted=unfinished)
    expired = _expired(engine, table, found.version)
    if not expired:
        return LogCleanup(deleted=unfinished)
    write_compatibility_checkpoint(engine, state)
    # The first one by itself: stores that delete many at once do so in any order.
    engine.files.delete_files(expired[:1])
    engine.files.delete_files(expired[1:])
    staged = _expired_staged_commits(engine, state, found.version)
    engine.files.delete_files(staged)
    spared = min(cutoff, _midnight(now - _DAY))
    sidecars = _unreferenced_sidecars(engine, table, spared)
    engine.files.delete_files(sidecars)
    return LogCleanup(
        earliest_version=found.version, deleted=(*unfinished, *expired, *staged, *sidecars)
    )


def _check_permission(state: TableState) -> None:
    managed = is_catalog_managed(state.protocol.reader_features or ())
    if managed and not permits_maintenance(state.catalog, state.path, "LOG CLEANUP"):
        raise UnsupportedFeatureError(
            f"The log of {state.path} is kept in shape by the catalog that manages the table "
            f"({features.CATALOG_MANAGED}), which doesn't permit its cleanup to others.",
            table=state.path,
            features=[features.CATALOG_MANAGED],
        )


def _retention(state: TableState) -> int:
    try:
        return state.table_properties.log_retention_ms
    except PropertyValueError as error:
        raise TablePropertyError(
            f"{state.path}: {error}.", table=state.path, key=error.key
        ) from error


def _midnight(milliseconds: int) -> int:
    return milliseconds // _DAY * _DAY


def _log_files(engine: Engine, table: str) -> Iterator[FileStatus]:
    with engine.files.list_from(f"{log_path(table)}/{list_prefix(0)}") as statuses:
        yield from statuses


def _unfinished(engine: Engine, table: str, spared: int) -> tuple[str, ...]:
    """What writers that were killed left, older than a time; names with a dot come first."""
    found: list[str] = []
    try:
        with engine.files.list_from(f"{log_path(table)}/.") as statuses:
            for status in statuses:
                name = _name(status)
                if not name.startswith("."):
                    break
                if name.endswith(".tmp") and status.modification_time < spared:
                    found.append(status.path)
    except FileMissingError:
        pass
    return tuple(found)


def _first_commit(engine: Engine, table: str) -> FileStatus | None:
    try:
        return next(
            (
                status
                for status in _log_files(engine, table)
                if isinstance(parse_log_file(_name(status)), CommitFile)
            ),
            None,
        )
    except FileMissingError:
        return None


def _cutoff_checkpoint(engine: Engine, state: TableState, newest: int) -> Checkpoint | None:
    """The newest checkpoint at or below a version that is whole: its files are looked for."""
    known = complete_checkpoints(_log_files(engine, state.path), every=True)
    for checkpoint in sorted(known, key=lambda c: c.version, reverse=True):
        if checkpoint.version <= newest and _is_whole(engine, state.path, checkpoint):
            return checkpoint
    return None


def _is_whole(engine: Engine, table: str, checkpoint: Checkpoint) -> bool:
    """Whether all files are there and have their footers.

    What goes can't be brought back, and a file that was cut off would be the only one to tell it.
    """
    try:
        contents = locate_checkpoint_files(engine, table, checkpoint)
        for file in contents.files:
            status = engine.files.status(file.path)
            try:
                engine.parquet.read_row_groups(status)
            except StorageError as error:
                raise unreadable_checkpoint(table, file.path, error) from error
    except (CorruptTableError, FileMissingError) as error:
        _LOG.warning("Log cleanup of %s doesn't rely on a checkpoint: %s", table, error)
        return False
    return True


def _expired(engine: Engine, table: str, cutoff: int) -> list[str]:
    """Files of the log below the cutoff checkpoint, ascending by version."""
    paths = []
    for status in _log_files(engine, table):
        match parse_log_file(_name(status)):
            case CommitFile(version=version) | ChecksumFile(version=version):
                expired = version < cutoff
            case ClassicCheckpoint(version=version) | UuidCheckpoint(version=version):
                expired = version < cutoff
            case MultiPartCheckpoint(version=version):
                expired = version < cutoff
            case CompactedCommits(version=version):
                expired = version <= cutoff
            case _:
                continue
        if expired:
            paths.append(status.path)
        elif version > cutoff:
            break
    return paths


def _expired_staged_commits(engine: Engine, state: TableState, cutoff: int) -> list[str]:
    """Those that the catalog doesn't name any more: what it names is read, published or not."""
    table = state.path
    named: set[str] = set()
    if state.catalog is not None:
        ratified = state.catalog.ratified_commits(table)
        named = {_name(file) for _, file in ratified_files(table, ratified)}
    folder = f"{log_path(table)}/{STAGED_COMMIT_DIRECTORY}"
    found: list[str] = []
    try:
        with engine.files.list_from(f"{folder}/{list_prefix(0)}") as statuses:
            for status in statuses:
                match parse_log_file(_name(status)):
                    case StagedCommit(version=version) if version <= cutoff:
                        found.append(status.path)
                    case _:
                        pass
    except FileMissingError:
        return []
    return [path for path in found if path.rpartition("/")[2] not in named]


def _unreferenced_sidecars(engine: Engine, table: str, spared: int) -> list[str]:
    """Sidecars older than a time that no checkpoint names; none where a checkpoint can't be read.

    A checkpoint that is being written has sidecars that nothing names yet; they are young.
    """
    folder = f"{log_path(table)}/{SIDECAR_DIRECTORY}"
    try:
        with engine.files.list_from(f"{folder}/") as statuses:
            old = [s.path for s in statuses if s.modification_time < spared]
    except FileMissingError:
        return []
    if not old:
        return []
    named: set[str] = set()
    for checkpoint in complete_checkpoints(_log_files(engine, table), every=True):
        try:
            contents = locate_checkpoint_files(engine, table, checkpoint)
        except CorruptTableError:
            return []
        named.update(file.path for file in contents.files)
    return [path for path in old if path not in named]


def _is_allowed(engine: Engine, state: TableState, cutoff: int) -> bool:
    """What `checkpointProtection` says: all that it protects in one go, or what we know to read."""
    if features.CHECKPOINT_PROTECTION not in features.writer_features(state.protocol):
        return True
    before = properties.CHECKPOINT_PROTECTION_BEFORE.read(state.properties)
    return cutoff >= before or _knows_protocols(engine, state, cutoff)


def _knows_protocols(engine: Engine, state: TableState, cutoff: int) -> bool:
    """Whether every version that would go, and the first to stay, has a protocol known here."""
    versions: list[tuple[int, FileStatus]] = []
    for status in _log_files(engine, state.path):
        match parse_log_file(_name(status)):
            case CommitFile(version=version) if version <= cutoff:
                versions.append((version, status))
            case _:
                pass
    protocols: list[Protocol] = []
    try:
        for commit in read_commits(engine, state.path, versions):
            protocols += [a for a in commit.actions if isinstance(a, Protocol)]
        if not versions or versions[0][0] > 0:
            known = complete_checkpoints(_log_files(engine, state.path))
            earliest = min(c.version for c in known)
            protocols.append(
                load_table_state(engine, state.path, earliest, catalog=state.catalog).protocol
            )
    except BayouError:
        return False
    return all(_is_known(protocol) for protocol in protocols)


def _is_known(protocol: Protocol) -> bool:
    return (
        protocol.min_reader_version <= features.TABLE_FEATURES_READER_VERSION
        and protocol.min_writer_version <= features.TABLE_FEATURES_WRITER_VERSION
        and all(name in features.FEATURES for name in features.all_features(protocol))
    )


def _name(status: FileStatus) -> str:
    return status.path.rsplit("/", 1)[-1]
