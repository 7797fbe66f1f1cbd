"""A table with a fixed version, for handles that were opened at a version."""

from __future__ import annotations

from bayou.kernel import Engine, Snapshot, Table


class TableAtVersion(Table):
    """A table whose latest version is always `version`.

    Row operations are based on this version. They fail if a later commit conflicts with them.
    """

    __slots__ = ("_version",)

    def __init__(self, table: Table, version: int) -> None:
        super().__init__(table.path, table.catalog)
        self._version = version

    def latest_snapshot(self, engine: Engine) -> Snapshot:
        """Load the fixed version."""
        return self.snapshot_as_of_version(engine, self._version)

    def latest(self) -> Table:
        """Return the table without the fixed version."""
        return Table(self.path, self.catalog)
