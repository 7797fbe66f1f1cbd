"""A table with a fixed version, for handles that were opened at a version."""

from __future__ import annotations

from bayou.kernel import Engine, Snapshot, Table


class TableAtVersion(Table):
    """A table whose latest version is always `version`.

    Row operations are based on this version. They fail if a later commit conflicts with them.
    """

    __slots__ = ("_snapshot",)

    def __init__(self, table: Table, snapshot: Snapshot) -> None:
        super().__init__(table.path, table.catalog)
        self._snapshot = snapshot

    def latest_snapshot(self, engine: Engine) -> Snapshot:
        """Return the loaded snapshot of the fixed version."""
        return self._snapshot

    def latest(self) -> Table:
        """Return the table without the fixed version."""
        return Table(self.path, self.catalog)
