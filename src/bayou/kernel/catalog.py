"""Catalogs: who says which commits of a catalog-managed table count.

Commits of such a table may be ratified and not yet published in `_delta_log` (PROTOCOL.md,
Catalog-managed tables). A connector that reads them implements `Catalog` over its catalog's client
and gives it to `Table.for_path`.
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

__all__ = [
    "Catalog",
    "CommittingCatalog",
    "InlineCommit",
    "MaintainingCatalog",
    "RatifiedCommit",
    "RatifiedCommits",
    "is_catalog_managed",
    "permits_maintenance",
    "ratified_files",
    "ratified_version",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatifiedCommit:
    """A commit that the catalog has ratified.

    Attributes:
        version: its version.
        path: where it is staged: decoded, absolute or relative to the table; None for one that is
            stored in the catalog.
        content: its JSON lines, of a commit that is stored in the catalog; None for a staged one.
        modification_time: when it was ratified or written, ms since the epoch.
    """

    version: int
    path: str | None = None
    content: bytes | None = None
    modification_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RatifiedCommits:
    """A catalog's answer.

    Attributes:
        latest_version: the latest ratified version, published or not; nothing above it counts.
        commits: ratified commits that the catalog still keeps, ascending and without a gap; empty
            where all are published. They count instead of published files of the same version.
    """

    latest_version: int
    commits: tuple[RatifiedCommit, ...] = ()


class Catalog(Protocol):
    """A catalog of tables. Safe to be used from several threads."""

    def ratified_commits(self, table: str, end_version: int | None = None) -> RatifiedCommits:
        """The table's ratified commits, up to a version where one is given.

        Args:
            table: the table's fully qualified path.

        Raises:
            TableNotFoundError: the catalog knows no such table.
        """
        ...


@runtime_checkable
class CommittingCatalog(Catalog, Protocol):
    """A catalog through which tables are written to as well."""

    def commit(self, engine: Engine, table: str, version: int, lines: Sequence[bytes]) -> bool:
        """Ratify a commit, if the version before is the latest one.

        How is the catalog's business: `stage_commit` writes the lines to a file that it may ratify
        by its name; it may keep the lines, or publish them itself.

        Returns:
            False where the version has another commit already.

        Raises:
            StorageError: it failed; `ratified_commits` says later whether the commit is there.
        """
        ...

    def published(self, table: str, version: int) -> None:
        """Commits up to a version are in the log: they needn't be kept any longer."""
        ...


@runtime_checkable
class MaintainingCatalog(CommittingCatalog, Protocol):
    """A catalog that leaves maintenance to its clients; without this method they may do none."""

    def permits_maintenance(self, table: str, operation: str) -> bool:
        """Whether a client may do what only the catalog may do otherwise.

        Args:
            operation: `OPTIMIZE`, `REORG`, `VACUUM` or `LOG CLEANUP`. Checkpoints, log compaction
                and checksums are allowed to everyone (PROTOCOL.md, Maintenance Operations on
                Catalog-managed Tables).
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineCommit(FileStatus):
    """A commit whose bytes are at hand; `path` is where it will be published."""

    content: bytes = field(repr=False)


def ratified_version(table: str, ratified: RatifiedCommits, version: int | None) -> int:
    """The version to load: nothing above the latest ratified one counts.

    Raises:
        VersionNotFoundError: the one asked for is above it.
    """
    if version is not None and version > ratified.latest_version:
        raise VersionNotFoundError(
            f"{table} has no version {version}; the latest that its catalog ratified is "
            f"{ratified.latest_version}.",
            table=table,
            latest=ratified.latest_version,
        )
    return ratified.latest_version if version is None else version


def ratified_files(table: str, ratified: RatifiedCommits) -> Iterator[tuple[int, FileStatus]]:
    """(version, file) of the commits that the catalog keeps, in its order.

    Raises:
        CorruptTableError: one is staged under the name of another version.
    """
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
    """Whether these features make a catalog the judge of commits."""
    return any(name in _NAMES for name in reader_features)


def permits_maintenance(catalog: Catalog | None, table: str, operation: str) -> bool:
    """Whether the catalog of a managed table permits an operation of maintenance."""
    return isinstance(catalog, MaintainingCatalog) and catalog.permits_maintenance(table, operation)


_NAMES = frozenset(
    {
        features.CATALOG_MANAGED,
        features.CATALOG_MANAGED_PREVIEW,
        features.CATALOG_OWNED_PREVIEW,
    }
)


def _check_version(table: str, version: int, path: str) -> None:
    """A commit that counts as another version would make rows come, go or come twice."""
    named = parse_log_file(path.rpartition("/")[2])
    if isinstance(named, CommitFile | StagedCommit) and named.version != version:
        raise CorruptTableError(
            f"The catalog names {path} as version {version} of {table}, but its name says that it "
            f"is version {named.version}. Correct the catalog's entry.",
            table=table,
            file=path,
        )


def _staged_path(table: str, path: str) -> str:
    """Bare names are those of the folder for staged commits."""
    if is_absolute_uri(path):
        return path
    folder = table if "/" in path else f"{table}/{LOG_DIRECTORY}/{STAGED_COMMIT_DIRECTORY}"
    return f"{folder}/{path}"
