"""A catalog that stores its state in a folder, for tests of catalog-managed tables."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from bayou.errors import StorageError, TableNotFoundError
from bayou.kernel.catalog import RatifiedCommit, RatifiedCommits
from bayou.kernel.engine import Engine
from bayou.kernel.transaction.committers import stage_commit


class FileCatalog:
    """A catalog that stores a small file for each ratified commit.

    The name of the file is the version. The file contains the name of the staged commit. When the
    commit is published in the table's log, the file becomes empty. Several processes can use the
    catalog at the same time.

    Args:
        folder: the folder for the catalog's files.
        maintenance: whether clients are allowed to run VACUUM, OPTIMIZE and log cleanup on the
            catalog's tables.

    Examples:
        >>> catalog = FileCatalog("catalog")
        >>> table = bayou.table("lake/orders", catalog=catalog)
    """

    def __init__(self, folder: str | os.PathLike[str], *, maintenance: bool = True) -> None:
        self._folder = Path(folder)
        self._maintenance = maintenance

    def ratified_commits(self, table: str, end_version: int | None = None) -> RatifiedCommits:
        """Return the ratified commits of a table that aren't published yet."""
        versions = sorted(int(p.name) for p in self._table_folder(table).glob("[0-9]*"))
        if not versions:
            raise TableNotFoundError(f"{table}: the catalog has no such table", table=table)
        commits = []
        for version in versions:
            name = (self._table_folder(table) / str(version)).read_text(encoding="utf-8")
            if name and (end_version is None or version <= end_version):
                commits.append(RatifiedCommit(version=version, path=name))
        return RatifiedCommits(latest_version=versions[-1], commits=tuple(commits))

    def commit(self, engine: Engine, table: str, version: int, lines: Sequence[bytes]) -> bool:
        """Stage and ratify a commit.

        Returns False, and ratifies nothing, if the version already has a ratified commit.
        """
        folder = self._table_folder(table)
        if version and not (folder / str(version - 1)).exists():
            raise StorageError(
                f"{table}: version {version} can't be ratified before version {version - 1}",
                path=str(folder),
            )
        staged = stage_commit(engine, table, version, lines)
        return self.ratify(table, staged)

    def ratify(self, table: str, commit: RatifiedCommit) -> bool:
        """Ratify a staged commit.

        Returns False, and ratifies nothing, if the version already has a ratified commit.
        """
        folder = self._table_folder(table)
        folder.mkdir(parents=True, exist_ok=True)
        proposal = folder / f".{uuid.uuid4()}"
        proposal.write_text(commit.path or "", encoding="utf-8")
        try:
            os.link(proposal, folder / str(commit.version))
        except FileExistsError:
            return False
        finally:
            proposal.unlink()
        return True

    def published(self, table: str, version: int) -> None:
        """Record that the commits up to `version` are in the table's log."""
        for path in self._table_folder(table).glob("[0-9]*"):
            if int(path.name) <= version:
                emptied = path.with_name(f".{uuid.uuid4()}")
                emptied.write_text("", encoding="utf-8")
                emptied.replace(path)

    def permits_maintenance(self, table: str, operation: str) -> bool:
        """Return the value of `maintenance` for all tables and operations."""
        return self._maintenance

    def _table_folder(self, table: str) -> Path:
        return self._folder / hashlib.sha256(table.encode()).hexdigest()[:16]
