"""Row group skipping: selects the row groups of a Parquet file by its footer statistics.

The kernel's plan for data skipping is applied to the statistics of row groups instead of files.
The maxima of float columns aren't used: they ignore NaN, which Spark orders above all numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from bayou.engines.arrow.conversion import FieldFinder, children, count_leaves
from bayou.engines.arrow.json_values import parse_strings
from bayou.engines.arrow.parquet_files.statistics import footer_bounds, put
from bayou.engines.legacy_calendar import legacy_time_zone
from bayou.errors import PredicateError, SchemaError
from bayou.kernel.arrow.arrays import to_array
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.engine import METADATA_COLUMN_KEY
from bayou.kernel.expressions.model import Predicate, referenced_columns
from bayou.protocol.stats import FileStatistics, to_json

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from bayou.kernel.scan.data_skipping.skipping import SkippingPlan


_AnyType: TypeAlias = Any
"""A `pa.DataType`, typed as Any because mypy doesn't narrow types by `pa.types.is_dictionary`."""


class RowGroupFilter:
    """Selects row groups by a predicate on the columns of a requested schema.

    Without a predicate, every row group is selected. Every row group is also selected if the
    predicate isn't valid for the requested schema.
    """

    def __init__(self, requested: pa.Schema, predicate: Predicate | None) -> None:
        self._plan: SkippingPlan | None = None
        self._fields: dict[tuple[str, ...], list[pa.Field[Any]]] = {}
        if predicate is None:
            return
        from bayou.kernel.expressions.resolution import resolve
        from bayou.kernel.scan.data_skipping.skipping import SkippingPlan

        columns = [
            _without_dictionary(f)
            for f in requested
            if METADATA_COLUMN_KEY not in (f.metadata or {})
        ]
        try:
            schema = from_arrow_schema(pa.schema(columns))
            resolved = resolve(predicate, schema)
            plan = SkippingPlan.build(resolved, schema, ())
        except (PredicateError, SchemaError):
            return
        if plan.stats_schema is not None:
            self._plan = plan
            for path in referenced_columns(resolved):
                self._fields[path] = _fields_on(path, columns)

    @property
    def needs_bounds(self) -> bool:
        """Whether `select` reads the column statistics of the footer.

        If true, the caller must validate the footer before it calls `select`.
        """
        return self._plan is not None

    def select(
        self, footer: pq.FileMetaData, file_schema: pa.Schema, candidates: Sequence[int]
    ) -> Sequence[int]:
        """Return the row groups among `candidates` that may contain a matching row, in order."""
        if self._plan is None or self._plan.stats_schema is None or not candidates:
            return candidates
        leaves = {path: _leaf(fields, list(file_schema)) for path, fields in self._fields.items()}
        json = [to_json(_statistics(footer.row_group(i), leaves)) for i in candidates]
        stats = parse_strings(to_array(json, pa.string()), self._plan.stats_schema)
        mask = self._plan.select({}, stats).to_pylist()
        return [i for i, selected in zip(candidates, mask, strict=True) if selected]


def _without_dictionary(field: pa.Field[Any]) -> pa.Field[Any]:
    kind: _AnyType = field.type
    return field.with_type(kind.value_type) if pa.types.is_dictionary(kind) else field


def _fields_on(path: tuple[str, ...], fields: Sequence[pa.Field[Any]]) -> list[pa.Field[Any]]:
    """Return the fields that the names in `path` refer to: the top-level column, then its children.

    Args:
        path: name of a top-level column, followed by the names of nested fields.
        fields: the top-level columns.
    """
    steps: list[pa.Field[Any]] = []
    for name in path:
        field = next(f for f in fields if f.name == name)
        steps.append(field)
        fields = children(field.type)
    return steps


def _leaf(path: Sequence[pa.Field[Any]], fields: list[pa.Field[Any]]) -> tuple[int, bool] | None:
    """Return the index of a leaf column in the file, and whether its bounds can be used.

    The bounds can be used if the column has the requested type. Returns None if the file lacks the
    column, or if the column isn't a leaf.
    """
    index = 0
    for requested in path:
        position = FieldFinder(fields).position(requested)
        if position is None:
            return None
        index += list(accumulate((count_leaves(f.type) for f in fields), initial=0))[position]
        file_type, legacy = fields[position].type, legacy_time_zone(fields[position]) is not None
        fields = children(file_type)
    if fields:
        return None
    if legacy:  # bounds in the legacy calendar
        return index, False
    integers = pa.types.is_integer(file_type) and pa.types.is_integer(requested.type)
    return index, integers or file_type.equals(requested.type)


def _statistics(
    group: pq.RowGroupMetaData, leaves: dict[tuple[str, ...], tuple[int, bool] | None]
) -> FileStatistics:
    minima: dict[str, Any] = {}
    maxima: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for path, leaf in leaves.items():
        if leaf is None:
            continue
        index, usable = leaf
        statistics = group.column(index).statistics
        if statistics is None:
            continue
        if statistics.null_count is not None:
            put(nulls, path, statistics.null_count)
        bounds = footer_bounds(statistics) if usable else None
        if bounds is not None:
            low, high = bounds
            put(minima, path, low)
            if not isinstance(high, float):
                put(maxima, path, high)
    return FileStatistics(
        num_records=group.num_rows, min_values=minima, max_values=maxima, null_count=nulls
    )
