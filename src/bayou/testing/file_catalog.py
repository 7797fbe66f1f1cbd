"""A catalog in a folder: for tests of catalog-managed tables, and as an example of one."""

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

__all__ = ["FileCatalog"]


class FileCatalog:
    """Keeps a file for each ratified version of a table; safe for several processes on one disk.

    A file's content is the name of the staged commit; it is emptied once the commit is published,
    and stays, so that the version is known.

    Args:
        maintenance: whether clients may vacuum, optimize and clean up its tables.
    """

    def __init__(self, folder: str | os.PathLike[str], *, maintenance: bool = True) -> None:
        self._folder = Path(folder)
        self._maintenance = maintenance

    def ratified_commits(self, table: str, end_version: int | None = None) -> RatifiedCommits:
        """Implements `Catalog.ratified_commits`."""
        versions = sorted(int(p.name) for p in self._of(table).glob("[0-9]*"))
        if not versions:
            raise TableNotFoundError(f"There is no table {table} in the catalog.", table=table)
        kept = []
        for version in versions:
            name = (self._of(table) / str(version)).read_text(encoding="utf-8")
            if name and (end_version is None or version <= end_version):
                kept.append(RatifiedCommit(version=version, path=name))
        return RatifiedCommits(latest_version=versions[-1], commits=tuple(kept))

    def commit(self, engine: Engine, table: str, version: int, lines: Sequence[bytes]) -> bool:
        """Implements `CommittingCatalog.commit`: stages, then ratifies."""
        folder = self._of(table)
        if version and not (folder / str(version - 1)).exists():
            raise StorageError(
                f"Version {version - 1} of {table} isn't ratified, so that {version} can't be.",
                path=str(folder),
            )
        staged = stage_commit(engine, table, version, lines)
        return self.ratify(table, staged)

    def ratify(self, table: str, commit: RatifiedCommit) -> bool:
        """Make a staged commit its version; False where the version has one."""
        folder = self._of(table)
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
        """Implements `CommittingCatalog.published`."""
        for path in self._of(table).glob("[0-9]*"):
            if int(path.name) <= version:
                emptied = path.with_name(f".{uuid.uuid4()}")
                emptied.write_text("", encoding="utf-8")
                emptied.replace(path)

    def permits_maintenance(self, table: str, operation: str) -> bool:
        """Implements `MaintainingCatalog.permits_maintenance`."""
        return self._maintenance

    def _of(self, table: str) -> Path:
        return self._folder / hashlib.sha256(table.encode()).hexdigest()[:16]
