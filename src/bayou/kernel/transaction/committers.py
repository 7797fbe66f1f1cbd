"""Where a commit goes: into the log, or to the catalog that manages the table.

PROTOCOL.md, Creation of New Log Entries and Catalog-managed tables.
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

__all__ = ["CatalogCommitter", "Committer", "LogCommitter", "publish_ratified", "stage_commit"]

_LOG = logging.getLogger(__name__)


class Committer(Protocol):
    """Commits of one table, put-if-absent by version. Safe to be used from several threads."""

    def put(self, engine: Engine, table: str, version: int, lines: Sequence[bytes]) -> bool:
        """Make lines the commit of a version.

        Returns:
            False where the version has another commit already.

        Raises:
            StorageError: it failed; the commit may be there or not, see `find`.
        """
        ...

    def find(self, engine: Engine, table: str, version: int) -> CommitActions | None:
        """The commit of a version, None where there is none.

        Raises:
            StorageError: nobody can say.
        """
        ...


class LogCommitter:
    """Commits by put-if-absent of the log's file; implements `Committer`."""

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
    """Proposes commits to a catalog, and publishes what it ratified; implements `Committer`."""

    __slots__ = ("_catalog",)

    def __init__(self, catalog: CommittingCatalog) -> None:
        self._catalog = catalog

    def put(self, engine: Engine, table: str, version: int, lines: Sequence[bytes]) -> bool:
        if not self._catalog.commit(engine, table, version, lines):
            return False
        try:
            publish_ratified(engine, table, self._catalog, version)
        except Exception as error:  # noqa: BLE001 - the catalog is anyone's code
            # Ratified is committed; whoever commits next publishes this one as well.
            _LOG.warning("Version %d of %s isn't published yet: %s", version, table, error)
        return True

    def find(self, engine: Engine, table: str, version: int) -> CommitActions | None:
        ratified = self._catalog.ratified_commits(table)
        if version > ratified.latest_version:
            return None
        for known, status in ratified_files(table, ratified):
            if known == version:
                return read_commit(table, version, status, _content(engine, status))
        return LogCommitter().find(engine, table, version)


def stage_commit(
    engine: Engine, table: str, version: int, lines: Sequence[bytes]
) -> RatifiedCommit:
    """Write a proposed commit to the folder for staged ones, under a name of its own.

    For catalogs that ratify by the name of a file. What isn't ratified is passed over by readers
    and goes with a log cleanup.

    Raises:
        StorageError: the store refused.
    """
    name = commit_file_name(version).replace(".json", f".{uuid.uuid4()}.json")
    path = f"{log_path(table)}/{STAGED_COMMIT_DIRECTORY}/{name}"
    engine.files.mkdirs(path.rpartition("/")[0])
    engine.json.write_json_file_atomically(path, lines)
    return RatifiedCommit(version=version, path=name)


def publish_ratified(
    engine: Engine, table: str, catalog: CommittingCatalog, end: int | None = None
) -> int:
    """Copy the commits that a catalog still keeps into the log, in order, and tell it so.

    Repeatable, safe beside others that do the same.

    Args:
        end: the last version; None: the latest one that is ratified.

    Returns:
        The version up to which all are published.

    Raises:
        StorageError: the store failed.
        CorruptTableError: the log has another commit of a version; the catalog isn't told.
    """
    ratified = catalog.ratified_commits(table, end)
    for version, status in ratified_files(table, ratified):
        lines = _lines(_content(engine, status))
        path = _published_path(table, version)
        if not engine.json.write_json_file_atomically(path, lines) and (
            _lines(_read(engine, path)) != lines
        ):
            raise CorruptTableError(
                f"{path} isn't the commit that the catalog has ratified as version {version} of "
                f"{table}, so that it can't be published. Find out who wrote it, and move it away.",
                table=table,
                file=path,
            )
    published = ratified.latest_version if end is None else end
    if ratified.commits:
        catalog.published(table, published)
    return published


def _content(engine: Engine, status: FileStatus) -> bytes:
    return status.content if isinstance(status, InlineCommit) else _read(engine, status.path)


def _lines(content: bytes) -> list[bytes]:
    return [line for line in content.split(b"\n") if line]


def _read(engine: Engine, path: str) -> bytes:
    return bytes(next(iter(engine.files.read_files([ByteRange(path=path)]))))


def _published_path(table: str, version: int) -> str:
    return f"{log_path(table)}/{commit_file_name(version)}"
