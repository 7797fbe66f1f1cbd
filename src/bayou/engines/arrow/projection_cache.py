"""How files of one schema are read: worked out once for all of them.

A scan reads its data files one by one, and those of a table mostly have one schema. What follows
from schemas alone is therefore kept for the next file.
"""

from __future__ import annotations

import pyarrow as pa

from bayou.engines.arrow.projection import Projection
from bayou.engines.arrow.row_groups import RowGroupFilter
from bayou.kernel.expressions.model import Predicate

__all__ = ["ReadPlan", "ReadPlans"]

_MOST = 8
"""Reads, and schemas of files for each of them, that are remembered: the latest ones."""


class ReadPlan:
    """How to read some columns of files, of whatever schema.

    Attributes:
        wanted: schema of the batches.
        predicate: a hint; None for all rows.
        matching: which row groups of a file it needs.
    """

    __slots__ = ("_projections", "matching", "predicate", "wanted")

    def __init__(self, wanted: pa.Schema, predicate: Predicate | None) -> None:
        self.wanted = wanted
        self.predicate = predicate
        self.matching = RowGroupFilter(wanted, predicate)
        # Replaced as a whole, never changed: threads share it.
        self._projections: tuple[tuple[pa.Schema, Projection], ...] = ()

    def projection(self, file_schema: pa.Schema, path: str) -> Projection:
        """From a file's schema to `wanted`.

        Raises:
            SchemaError: see `Projection`; names the file at `path`.
        """
        known = self._projections
        for schema, projection in known:
            if schema.equals(file_schema, check_metadata=True):
                return projection
        projection = Projection(file_schema, self.wanted, path)
        self._projections = ((file_schema, projection), *known[: _MOST - 1])
        return projection


class ReadPlans:
    """The latest plans of a handler; several threads may ask."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: tuple[ReadPlan, ...] = ()

    def plan(self, wanted: pa.Schema, predicate: Predicate | None) -> ReadPlan:
        """The plan for this schema and predicate.

        It is an earlier one where they are the same objects, as they are for all files of a scan.
        """
        known = self._known
        for plan in known:
            if plan.wanted is wanted and plan.predicate is predicate:
                return plan
        plan = ReadPlan(wanted, predicate)
        self._known = (plan, *known[: _MOST - 1])
        return plan
