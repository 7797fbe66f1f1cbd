"""A table and the engine that reaches it: what every part of the short API stands on."""

from __future__ import annotations

from bayou.kernel import Engine, Table

__all__ = ["BoundTable"]


class BoundTable:
    """A table bound to an engine."""

    __slots__ = ("_engine", "_table")

    def __init__(self, engine: Engine, table: Table) -> None:
        self._engine = engine
        self._table = table

    def __repr__(self) -> str:
        return f"bayou.table({self.path!r})"

    @property
    def path(self) -> str:
        """Fully qualified path."""
        return self._table.path
