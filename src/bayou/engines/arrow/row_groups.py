"""Which row groups of a Parquet file may hold a matching row, told from the file's footer.

A row group is judged as the kernel judges a file of a table: by the same plan, over the same
statistics. The footer passes over NaN, so it has no maximum for floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bayou.engines.arrow.conversion import FieldFinder, children, count_leaves
from bayou.engines.arrow.json_values import parse_texts
from bayou.engines.arrow.statistics import footer_bounds, put
from bayou.engines.legacy_calendar import legacy_time_zone
from bayou.errors import PredicateError, SchemaError
from bayou.kernel.arrow.types import from_arrow_schema
from bayou.kernel.engine import METADATA_COLUMN_KEY
from bayou.kernel.expressions.model import Predicate, referenced_columns
from bayou.kernel.expressions.resolution import resolve
from bayou.kernel.scan.data_skipping.skipping import SkippingPlan
from bayou.protocol.stats import FileStatistics, to_json

__all__ = ["RowGroupFilter"]


class RowGroupFilter:
    """A predicate over the columns of `wanted`, by their names there.

    A predicate that names other columns, or can't be understood, leaves every row group in.
    """

    def __init__(self, wanted: pa.Schema, predicate: Predicate | None) -> None:
        self._plan: SkippingPlan | None = None
        self._fields: dict[tuple[str, ...], list[pa.Field[Any]]] = {}
        if predicate is None:
            return
        columns = [f for f in wanted if METADATA_COLUMN_KEY not in (f.metadata or {})]
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
        """Whether `keep` looks at the footer's columns."""
        return self._plan is not None

    def keep(
        self, footer: pq.FileMetaData, file_schema: pa.Schema, candidates: Sequence[int]
    ) -> Sequence[int]:
        """Those of the candidates that may hold a matching row, in order."""
        if self._plan is None or self._plan.stats_schema is None or not candidates:
            return candidates
        leaves = {path: _leaf(fields, list(file_schema)) for path, fields in self._fields.items()}
        texts = [to_json(_statistics(footer.row_group(i), leaves)) for i in candidates]
        stats = parse_texts(pa.array(texts, pa.string()), self._plan.stats_schema)
        mask = self._plan.keep({}, stats).to_pylist()
        return [i for i, kept in zip(candidates, mask, strict=True) if kept]


def _fields_on(path: tuple[str, ...], fields: Sequence[pa.Field[Any]]) -> list[pa.Field[Any]]:
    """The wanted fields on the way to a column, the column's own last."""
    found: list[pa.Field[Any]] = []
    for name in path:
        field = next(f for f in fields if f.name == name)
        found.append(field)
        fields = children(field.type)
    return found


def _leaf(path: Sequence[pa.Field[Any]], fields: list[pa.Field[Any]]) -> tuple[int, bool] | None:
    """Index of the file's leaf column, and whether its bounds are values of the wanted type.

    None where the file's column isn't a leaf, or isn't there.
    """
    index = 0
    for wanted in path:
        position = FieldFinder(fields).position(wanted)
        if position is None:
            return None
        index += list(accumulate((count_leaves(f.type) for f in fields), initial=0))[position]
        given, old = fields[position].type, legacy_time_zone(fields[position]) is not None
        fields = children(given)
    if fields:
        return None
    if old:  # bounds in another calendar
        return index, False
    integers = pa.types.is_integer(given) and pa.types.is_integer(wanted.type)
    return index, integers or given.equals(wanted.type)


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
