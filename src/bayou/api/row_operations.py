"""Rows of a table deleted, updated and merged, in this process."""

from __future__ import annotations

from bayou.api.bound_table import BoundTable

__all__ = ["RowOperations"]


class RowOperations(BoundTable):
    """What changes rows."""

    __slots__ = ()
