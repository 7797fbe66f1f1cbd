"""A table whose latest version is an earlier one, for handles that were opened at a version."""

from __future__ import annotations

from bayou.kernel import Engine, Snapshot, Table


class TableAtVersion(Table):
    """A table as it was when `version` was its latest version.

    Row operations start at this version. They fail if a later commit conflicts with them, as if
    the writer had been slow.
    """

    __slots__ = ("_version",)

    def __init__(self, table: Table, version: int) -> None:
        super().__init__(table.path, table.catalog)
        self._version = version

    def latest_snapshot(self, engine: Engine) -> Snapshot:
        """Load the version."""
        return self.snapshot_as_of_version(engine, self._version)

    def latest(self) -> Table:
        """Return the table without the version."""
        return Table(self.path, self.catalog)
