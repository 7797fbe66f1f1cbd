"""A table kept in shape."""

from __future__ import annotations

from bayou.api.bound_table import BoundTable
from bayou.errors import ArgumentError

__all__ = ["Maintenance"]


class Maintenance(BoundTable):
    """What keeps a table in shape, its rows as they are."""

    __slots__ = ()

    def checkpoint(self, version: int | None = None) -> int:
        """Write the checkpoint of a version, the latest where it is None; gives the version.

        Repeatable, and safe beside other writers.

        Raises:
            TableNotFoundError, VersionNotFoundError: there is no table, or no such version.
        """
        if version is not None and (type(version) is not int or version < 0):
            raise ArgumentError(
                f"A version is a number from 0 on, not {version!r}.", argument="version"
            )
        return self._table.checkpoint(self._engine, version)
