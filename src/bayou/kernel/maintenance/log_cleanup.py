"""Log cleanup: deletes log files older than the log retention (PROTOCOL.md, Metadata Cleanup).

- The *cutoff* is the current time minus the log retention, rounded down to midnight UTC.
- The *cutoff commit* is the newest commit at or before the cutoff.
- The *cutoff checkpoint* is the newest readable checkpoint whose version isn't above the version of
  the cutoff commit.

Files of versions before the cutoff checkpoint are deleted in ascending order, so the log stays
valid if the cleanup is interrupted. If there is no cutoff checkpoint, only temporary files
(`.*.tmp`) of killed writers are deleted.
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
from bayou.kernel.checkpoint.read import locate_checkpoint_files, unreadable_checkpoint
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

_LOG = logging.getLogger(__name__)

_DAY = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleanup:
    """The result of a log cleanup.

    Attributes:
        earliest_version: the earliest retained version; None if no version was deleted.
        deleted: paths of the deleted files.
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
    """Delete log files older than `delta.logRetentionDuration`.

    Idempotent, and safe to run concurrently with readers of retained versions, writers and other
    cleanups. The caller must check `delta.enableExpiredLogCleanup`.

    No version is deleted if the log has no cutoff checkpoint (see the module's docstring), or if
    the table feature `checkpointProtection` forbids the deletion.

    Args:
        retention_ms: log retention in ms. If None, `delta.logRetentionDuration` is used.
        now: current time in ms since the epoch. If None, the system clock is used.
        granularity_ms: the cutoff is rounded down to a multiple of this number of ms. The default
            is one day, as in PROTOCOL.md.
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
        return LogCleanup(deleted=unfinished)  # the usual case: no commit is expired
    if state is None:
        state = load_table_state(engine, table, catalog=catalog)
    _check_permission(state)
    newest = last_version_at_or_before(engine, state, cutoff)
    checkpoint = None if newest is None else _cutoff_checkpoint(engine, state, newest)
    if checkpoint is None or not _is_allowed(engine, state, checkpoint.version):
        return LogCleanup(deleted=unfinished)
    expired = _expired(engine, table, checkpoint.version)
    if not expired:
        return LogCleanup(deleted=unfinished)
    write_compatibility_checkpoint(engine, state)
    # A bulk delete has no defined order. If it deleted a later file first, readers of old versions
    # would report a corrupt log with a gap. Without the oldest file, they report a cleaned up log.
    engine.files.delete_files(expired[:1])
    engine.files.delete_files(expired[1:])
    staged = _expired_staged_commits(engine, state, checkpoint.version)
    engine.files.delete_files(staged)
    sidecars = _unreferenced_sidecars(engine, table, min(cutoff, _midnight(now - _DAY)))
    engine.files.delete_files(sidecars)
    return LogCleanup(
        earliest_version=checkpoint.version, deleted=(*unfinished, *expired, *staged, *sidecars)
    )


def _check_permission(state: TableState) -> None:
    managed = is_catalog_managed(state.protocol.reader_features or ())
    if managed and not permits_maintenance(state.catalog, state.path, "LOG CLEANUP"):
        raise UnsupportedFeatureError(
            f"{state.path}: the catalog that manages the table ({features.CATALOG_MANAGED}) "
            "doesn't permit log cleanup. Run the cleanup through the catalog.",
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


def _unfinished(engine: Engine, table: str, modified_before: int) -> tuple[str, ...]:
    """List temporary files that killed writers left and that were modified before a timestamp."""
    paths: list[str] = []
    try:
        with engine.files.list_from(f"{log_path(table)}/.") as statuses:
            for status in statuses:
                name = _name(status)
                if not name.startswith("."):
                    break
                if name.endswith(".tmp") and status.modification_time < modified_before:
                    paths.append(status.path)
    except FileMissingError:
        pass
    return tuple(paths)


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
    """Find the newest readable checkpoint of version `newest` or earlier; None if there is none."""
    checkpoints = complete_checkpoints(_log_files(engine, state.path), include_duplicates=True)
    for checkpoint in sorted(checkpoints, key=lambda c: c.version, reverse=True):
        if checkpoint.version <= newest and _is_readable(engine, state.path, checkpoint):
            return checkpoint
    return None


def _is_readable(engine: Engine, table: str, checkpoint: Checkpoint) -> bool:
    """Whether all files of a checkpoint exist and have valid footers.

    Commits before a damaged checkpoint must not be deleted.
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
        _LOG.warning("%s: log cleanup ignores an unreadable checkpoint: %s", table, error)
        return False
    return True


def _expired(engine: Engine, table: str, cutoff: int) -> list[str]:
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
    """List the staged commits up to version `cutoff` that the catalog no longer returns.

    Staged commits that the catalog still returns are retained, even if they are published. Readers
    read these staged commits instead of the published commits.
    """
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


def _unreferenced_sidecars(engine: Engine, table: str, modified_before: int) -> list[str]:
    """List the sidecars that no checkpoint references.

    If a checkpoint can't be read, no sidecar is listed. Sidecars modified at or after
    `modified_before` aren't listed either, because their checkpoint may not be written yet.
    """
    folder = f"{log_path(table)}/{SIDECAR_DIRECTORY}"
    try:
        with engine.files.list_from(f"{folder}/") as statuses:
            old = [s.path for s in statuses if s.modification_time < modified_before]
    except FileMissingError:
        return []
    if not old:
        return []
    referenced: set[str] = set()
    for checkpoint in complete_checkpoints(_log_files(engine, table), include_duplicates=True):
        try:
            contents = locate_checkpoint_files(engine, table, checkpoint)
        except CorruptTableError:
            return []
        referenced.update(file.path for file in contents.files)
    return [path for path in old if path not in referenced]


def _is_allowed(engine: Engine, state: TableState, cutoff: int) -> bool:
    """Whether the table feature `checkpointProtection` permits the cleanup.

    The cleanup is permitted in two cases: all protected versions are deleted, or Bayou supports the
    protocol of every version that is deleted.
    """
    if features.CHECKPOINT_PROTECTION not in features.writer_features(state.protocol):
        return True
    before = properties.CHECKPOINT_PROTECTION_BEFORE.read(state.properties)
    return cutoff >= before or _supports_protocols(engine, state, cutoff)


def _supports_protocols(engine: Engine, state: TableState, cutoff: int) -> bool:
    """Whether Bayou supports the protocols of all versions up to `cutoff`."""
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
            checkpoints = complete_checkpoints(_log_files(engine, state.path))
            earliest = min(c.version for c in checkpoints)
            protocols.append(
                load_table_state(engine, state.path, earliest, catalog=state.catalog).protocol
            )
    except BayouError:
        return False
    return all(_is_supported(protocol) for protocol in protocols)


def _is_supported(protocol: Protocol) -> bool:
    return (
        protocol.min_reader_version <= features.TABLE_FEATURES_READER_VERSION
        and protocol.min_writer_version <= features.TABLE_FEATURES_WRITER_VERSION
        and all(name in features.FEATURES for name in features.all_features(protocol))
    )


def _name(status: FileStatus) -> str:
    return status.path.rsplit("/", 1)[-1]
