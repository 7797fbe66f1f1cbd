"""Interfaces of catalogs, which ratify the commits of catalog-managed tables.

A commit that the catalog has ratified may not be published in `_delta_log` yet (PROTOCOL.md,
Catalog-managed tables). A connector implements `Catalog` with the client of its catalog, and passes
the implementation to `Table.for_path`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from bayou.errors import CorruptTableError, VersionNotFoundError
from bayou.kernel.engine import Engine, FileStatus
from bayou.protocol import features
from bayou.protocol.file_names import (
    LOG_DIRECTORY,
    STAGED_COMMIT_DIRECTORY,
    CommitFile,
    StagedCommit,
    commit_file_name,
    is_absolute_uri,
    parse_log_file,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatifiedCommit:
    """A commit that the catalog has ratified.

    If both `path` and `content` are None, the commit is published in `_delta_log`.

    Attributes:
        version: version of the commit.
        path: path of the staged commit file, not URL-encoded, absolute or relative to the table;
            None if the commit isn't a staged file.
        content: JSON lines of the commit; None if the catalog doesn't store the content.
        modification_time: time of the commit in ms since the epoch: when the catalog ratified the
            commit, or when the staged commit file was written.

    Examples:
        >>> staged = stage_commit(engine, path, 7, [b'{"commitInfo": {}}'])
        >>> print(staged.version, staged.path)
    """

    version: int
    path: str | None = None
    content: bytes | None = None
    modification_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RatifiedCommits:
    """The commits that a catalog has ratified.

    Attributes:
        latest_version: the latest ratified version, whether its commit is published or not.
            Commit files of later versions in `_delta_log` are ignored.
        commits: ratified commits that the catalog still keeps, by ascending version without a
            gap. If `_delta_log` also has a commit file of the same version, the catalog's commit
            is used.

    Examples:
        >>> commit = RatifiedCommit(version=7, content=b'{"commitInfo": {}}')
        >>> RatifiedCommits(latest_version=7, commits=(commit,))
    """

    latest_version: int
    commits: tuple[RatifiedCommit, ...] = ()


class Catalog(Protocol):
    """A catalog of tables. Implementations are thread-safe.

    Examples:
        >>> from bayou.testing import FileCatalog
        >>> catalog: Catalog = FileCatalog("catalog")
    """

    def ratified_commits(self, table: str, end_version: int | None = None) -> RatifiedCommits:
        """Return the table's ratified commits.

        Args:
            table: the table's fully qualified path.
            end_version: the last version to return; None for the latest.

        Raises:
            TableNotFoundError: the catalog has no such table.
        """
        ...


@runtime_checkable
class CommittingCatalog(Catalog, Protocol):
    """A catalog that ratifies new commits; a plain `Catalog` only lists the ratified commits.

    Examples:
        >>> from bayou.testing import FileCatalog
        >>> catalog: CommittingCatalog = FileCatalog("catalog")
    """

    def commit(self, engine: Engine, table: str, version: int, lines: Sequence[bytes]) -> bool:
        """Ratify a commit if `version` is the table's latest version plus 1.

        Implementations choose where the commit is stored. They can call `stage_commit` and ratify
        the staged file, store the lines in the catalog, or write the commit file to `_delta_log`.

        Args:
            version: version of the new commit.
            lines: the actions of the commit, one JSON object for each line.

        Returns:
            True if the commit was ratified, False if the version already has another commit.

        Raises:
            StorageError: the request failed; a later call of `ratified_commits` shows whether the
                commit was ratified.
        """
        ...

    def published(self, table: str, version: int) -> None:
        """Report that all commits up to and including `version` are published.

        The catalog can then drop these commits.
        """
        ...


@runtime_checkable
class MaintainingCatalog(CommittingCatalog, Protocol):
    """A catalog that can permit clients to run maintenance, such as OPTIMIZE and VACUUM.

    If a catalog isn't a `MaintainingCatalog`, clients must not run maintenance on its tables.

    Examples:
        >>> from bayou.testing import FileCatalog
        >>> catalog: MaintainingCatalog = FileCatalog("catalog", maintenance=True)
    """

    def permits_maintenance(self, table: str, operation: str) -> bool:
        """Whether a client may run a maintenance operation.

        Args:
            operation: `OPTIMIZE`, `REORG`, `VACUUM` or `LOG CLEANUP`. Checkpoints, log compaction
                files and checksums need no permission (PROTOCOL.md, Maintenance Operations on
                Catalog-managed Tables).
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineCommit(FileStatus):
    """A commit whose JSON lines the catalog stores.

    `path` is the path in `_delta_log` at which the commit will be published.
    """

    content: bytes = field(repr=False)


def ratified_version(table: str, ratified: RatifiedCommits, version: int | None) -> int:
    """Return `version`, or the latest ratified version if `version` is None.

    Raises:
        VersionNotFoundError: `version` is later than the latest ratified version.
    """
    if version is not None and version > ratified.latest_version:
        raise VersionNotFoundError(
            f"{table}: version {version} doesn't exist; the latest version that the catalog "
            f"ratified is {ratified.latest_version}. Read that version or an earlier one.",
            table=table,
            latest=ratified.latest_version,
        )
    return ratified.latest_version if version is None else version


def ratified_files(table: str, ratified: RatifiedCommits) -> Iterator[tuple[int, FileStatus]]:
    """Yield the version and the file of each commit in `ratified`, by ascending version."""
    for commit in ratified.commits:
        published = f"{table}/{LOG_DIRECTORY}/{commit_file_name(commit.version)}"
        if commit.content is not None:
            yield (
                commit.version,
                InlineCommit(
                    path=published,
                    size=len(commit.content),
                    modification_time=commit.modification_time,
                    content=commit.content,
                ),
            )
        else:
            path = published
            if commit.path is not None:
                path = _staged_path(table, commit.path)
                _check_version(table, commit.version, path)
            status = FileStatus(path=path, size=0, modification_time=commit.modification_time)
            yield commit.version, status


def is_catalog_managed(reader_features: Collection[str]) -> bool:
    """Whether a table with these reader features is catalog-managed."""
    return any(name in features.CATALOG_FEATURES for name in reader_features)


def permits_maintenance(catalog: Catalog | None, table: str, operation: str) -> bool:
    """Whether a table's catalog is a `MaintainingCatalog` that permits a maintenance operation."""
    return isinstance(catalog, MaintainingCatalog) and catalog.permits_maintenance(table, operation)


def _check_version(table: str, version: int, path: str) -> None:
    """Check that the file name of a staged commit contains `version`."""
    named = parse_log_file(path.rpartition("/")[2])
    if isinstance(named, CommitFile | StagedCommit) and named.version != version:
        raise CorruptTableError(
            f"{table}: the catalog lists {path} as version {version}, but its file name has "
            f"version {named.version}. Correct the catalog's entry.",
            table=table,
            file=path,
        )


def _staged_path(table: str, path: str) -> str:
    """Return the full path of a staged commit.

    A path without a slash is the name of a file in `_delta_log/_staged_commits`. Other relative
    paths are relative to the table's folder.
    """
    if is_absolute_uri(path):
        return path
    folder = table if "/" in path else f"{table}/{LOG_DIRECTORY}/{STAGED_COMMIT_DIRECTORY}"
    return f"{folder}/{path}"
