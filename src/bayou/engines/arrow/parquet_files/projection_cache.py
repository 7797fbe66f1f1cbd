"""Cache of the plans and projections for reading files.

Most files of a scan have the same schema and share one projection.
"""

from __future__ import annotations

import pyarrow as pa

from bayou.engines.arrow.parquet_files.projection import Projection
from bayou.engines.arrow.parquet_files.row_groups import RowGroupFilter
from bayou.kernel.expressions.model import Predicate

_CACHE_SIZE = 8
"""Maximum number of cached plans, and of cached projections of each plan."""


class ReadPlan:
    """Projections and row group filter for all reads of one requested schema and predicate."""

    __slots__ = ("_projections", "predicate", "requested_schema", "row_group_filter")

    def __init__(self, requested_schema: pa.Schema, predicate: Predicate | None) -> None:
        self.requested_schema = requested_schema
        self.predicate = predicate
        self.row_group_filter = RowGroupFilter(requested_schema, predicate)
        # Immutable, and replaced as a whole, because threads share it.
        self._projections: tuple[tuple[pa.Schema, Projection], ...] = ()

    def projection(self, file_schema: pa.Schema, path: str) -> Projection:
        """Return the projection from a file's schema to the requested schema."""
        known = self._projections
        for schema, projection in known:
            if schema.equals(file_schema, check_metadata=True):
                return projection
        projection = Projection(file_schema, self.requested_schema, path)
        self._projections = ((file_schema, projection), *known[: _CACHE_SIZE - 1])
        return projection


class ReadPlans:
    """Cache of the most recently created plans of a Parquet handler. Thread-safe."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: tuple[ReadPlan, ...] = ()

    def plan(self, requested_schema: pa.Schema, predicate: Predicate | None) -> ReadPlan:
        """Return the plan for a requested schema and predicate.

        The cache compares both arguments by identity: an equal but different object gets a new
        plan. All files of a scan pass the same objects.
        """
        known = self._known
        for plan in known:
            if plan.requested_schema is requested_schema and plan.predicate is predicate:
                return plan
        plan = ReadPlan(requested_schema, predicate)
        self._known = (plan, *known[: _CACHE_SIZE - 1])
        return plan
