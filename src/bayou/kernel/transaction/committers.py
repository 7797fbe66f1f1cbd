"""Committers, which write commits to the log or to the catalog that manages the table.

See PROTOCOL.md, Creation of New Log Entries and Catalog-managed tables.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from typing import Protocol

from bayou.errors import CorruptTableError, FileMissingError
from bayou.kernel.catalog import CommittingCatalog, InlineCommit, RatifiedCommit, ratified_files
from bayou.kernel.engine import ByteRange, Engine, FileStatus
from bayou.kernel.log.replay import CommitActions, read_commit
from bayou.kernel.log.segment import log_path
from bayou.protocol.file_names import STAGED_COMMIT_DIRECTORY, commit_file_name

_LOG = logging.getLogger(__name__)


class Committer(Protocol):
    """Writes and reads commits of a table by version. Thread-safe."""

    def put(self, engine: Engine, table: str, version: int, lines: Sequence[bytes]) -> bool:
        """Write the commit of a version; return False if the version has another commit.

        After a StorageError, `find` shows whether the commit was written.
        """
        ...

    def find(self, engine: Engine, table: str, version: int) -> CommitActions | None:
        """Read the commit of a version; return None if the version has no commit."""
        ...


class LogCommitter:
    """Commits by put-if-absent of a commit file; implements `Committer`."""

    __slots__ = ()

    def put(self, engine: Engine, table: str, version: int, lines: Sequence[bytes]) -> bool:
        return engine.json.write_json_file_atomically(_published_path(table, version), lines)

    def find(self, engine: Engine, table: str, version: int) -> CommitActions | None:
        path = _published_path(table, version)
        try:
            data = _read(engine, path)
        except FileMissingError:
            return None
        status = FileStatus(path=path, size=len(data), modification_time=0)
        return read_commit(table, version, status, data)


class CatalogCommitter:
    """Commits through a catalog, and publishes ratified commits; implements `Committer`."""

    __slots__ = ("_catalog",)

    def __init__(self, catalog: CommittingCatalog) -> None:
        self._catalog = catalog

    def put(self, engine: Engine, table: str, version: int, lines: Sequence[bytes]) -> bool:
        if not self._catalog.commit(engine, table, version, lines):
            return False
        try:
            publish_ratified(engine, table, self._catalog, version)
        except Exception as error:  # noqa: BLE001 - the catalog is foreign code
            # The ratified commit is valid; the next commit also publishes this one.
            _LOG.warning(
                "%s: the commit of version %d is valid, but couldn't be published: %s. The next "
                "commit publishes it.",
                table,
                version,
                error,
            )
        return True

    def find(self, engine: Engine, table: str, version: int) -> CommitActions | None:
        ratified = self._catalog.ratified_commits(table)
        if version > ratified.latest_version:
            return None
        for ratified_version, status in ratified_files(table, ratified):
            if ratified_version == version:
                return read_commit(table, version, status, _content(engine, status))
        return LogCommitter().find(engine, table, version)


def stage_commit(
    engine: Engine, table: str, version: int, lines: Sequence[bytes]
) -> RatifiedCommit:
    """Write a staged commit with a unique name to the directory of staged commits.

    Catalogs that ratify a commit by the name of its staged file need this function. Readers ignore
    a staged commit that isn't ratified, and log cleanup deletes it.

    Raises:
        StorageError: the storage failed.

    Examples:
        >>> lines = [b'{"commitInfo": {"operation": "WRITE"}}']
        >>> staged = stage_commit(engine, path, snapshot.version + 1, lines)
    """
    name = commit_file_name(version).replace(".json", f".{uuid.uuid4()}.json")
    path = f"{log_path(table)}/{STAGED_COMMIT_DIRECTORY}/{name}"
    engine.files.mkdirs(path.rpartition("/")[0])
    engine.json.write_json_file_atomically(path, lines)
    return RatifiedCommit(version=version, path=name)


def publish_ratified(
    engine: Engine, table: str, catalog: CommittingCatalog, end: int | None = None
) -> int:
    """Copy the catalog's unpublished commits to the log in order; return the last copied version.

    If all commits are already published, the last published version is returned. After the copy,
    `catalog.published` is called, so that the catalog can drop the commits. Copying stops at the
    first missing version, because a catalog that answers from a replica may list its commits with a
    gap. Idempotent and safe if other processes publish at the same time.

    Args:
        end: last version to publish. If None, this is the catalog's latest version.

    Raises:
        CorruptTableError: the log has a commit file of one of these versions that differs from the
            ratified commit.
    """
    ratified = catalog.ratified_commits(table, end)
    last: int | None = None
    for version, status in ratified_files(table, ratified):
        if last is not None and version > last + 1:
            break
        lines = _lines(_content(engine, status))
        path = _published_path(table, version)
        if not engine.json.write_json_file_atomically(path, lines) and (
            _lines(_read(engine, path)) != lines
        ):
            raise CorruptTableError(
                f"{table}: version {version} can't be published, because {path} exists and isn't "
                "the commit that the catalog ratified. Find out who wrote this file, and move it "
                "out of the log.",
                table=table,
                file=path,
            )
        last = version if last is None else max(last, version)
    if last is None:
        return ratified.latest_version if end is None else min(end, ratified.latest_version)
    catalog.published(table, last)
    return last


def _content(engine: Engine, status: FileStatus) -> bytes:
    return status.content if isinstance(status, InlineCommit) else _read(engine, status.path)


def _lines(content: bytes) -> list[bytes]:
    return [line for line in content.split(b"\n") if line]


def _read(engine: Engine, path: str) -> bytes:
    return bytes(next(iter(engine.files.read_files([ByteRange(path=path)]))))


def _published_path(table: str, version: int) -> str:
    return f"{log_path(table)}/{commit_file_name(version)}"
