"""A table's schema, properties, constraints and features changed."""

from __future__ import annotations

from bayou.api.bound_table import BoundTable

__all__ = ["Alterations"]


class Alterations(BoundTable):
    """What changes a table's metadata and protocol."""

    __slots__ = ()
