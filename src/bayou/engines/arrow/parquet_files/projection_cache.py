"""Cache of the plans and projections for reading files.

A scan reads its files one by one, and most files of a table have the same schema. Results that
depend only on schemas are therefore cached for the next file.
"""

from __future__ import annotations

import pyarrow as pa

from bayou.engines.arrow.parquet_files.projection import Projection
from bayou.engines.arrow.parquet_files.row_groups import RowGroupFilter
from bayou.kernel.expressions.model import Predicate

__all__ = ["ReadPlan", "ReadPlans"]

_CACHE_SIZE = 8
"""Number of the latest plans, and of the latest file schemas of each plan, that are cached."""


class ReadPlan:
    """How to read a requested schema from files of any schema.

    Attributes:
        wanted: the requested schema.
        predicate: selects rows as a hint; None for all rows.
        row_group_filter: selects the row groups of a file by the predicate.
    """

    __slots__ = ("_projections", "predicate", "requested_schema", "row_group_filter")

    def __init__(self, wanted: pa.Schema, predicate: Predicate | None) -> None:
        self.requested_schema = wanted
        self.predicate = predicate
        self.row_group_filter = RowGroupFilter(wanted, predicate)
        # Immutable, and replaced as a whole, because threads share it.
        self._projections: tuple[tuple[pa.Schema, Projection], ...] = ()

    def projection(self, file_schema: pa.Schema, path: str) -> Projection:
        """The projection from a file's schema to the requested schema.

        Raises:
            SchemaError: see `Projection`; the message names the file `path`.
        """
        known = self._projections
        for schema, projection in known:
            if schema.equals(file_schema, check_metadata=True):
                return projection
        projection = Projection(file_schema, self.requested_schema, path)
        self._projections = ((file_schema, projection), *known[: _CACHE_SIZE - 1])
        return projection


class ReadPlans:
    """The latest plans of a handler. Thread-safe."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: tuple[ReadPlan, ...] = ()

    def plan(self, wanted: pa.Schema, predicate: Predicate | None) -> ReadPlan:
        """The plan for a requested schema and predicate.

        A cached plan is returned for the same objects, which all files of a scan share.
        """
        known = self._known
        for plan in known:
            if plan.requested_schema is wanted and plan.predicate is predicate:
                return plan
        plan = ReadPlan(wanted, predicate)
        self._known = (plan, *known[: _CACHE_SIZE - 1])
        return plan
