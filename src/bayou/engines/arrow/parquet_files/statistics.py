"""Statistics of a data file, from its Parquet footer or from its rows.

These statistics can't be taken from the footer and are computed from the rows of each row group:

- Maxima of floats. The footer ignores NaN, which Spark orders above all numbers.
- Bounds of long strings, which pyarrow omits from the footer.
- Null counts of arrays. The footer counts the null elements instead.
- Null counts of geometries and geographies, which the footer lacks.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bayou.engines.arrow.conversion import children, count_leaves, is_variant
from bayou.engines.arrow.parquet_files.geospatial import is_geospatial
from bayou.kernel.arrow.compute import pc
from bayou.protocol.stats import FileStatistics

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_LONG_STRING = 1024
"""Minimum length of a long string, in bytes.

If a row group has a long string in a column, the column's bounds in this row group are computed
from the rows, because pyarrow may omit them from the footer.
"""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_UTC_MICROSECONDS = "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"
_ASCII_MAX = "\x7f"
_UNICODE_MAX = "\U0010ffff"


@dataclass(slots=True)
class _Leaf:
    """A leaf column, with the statistics collected from its rows until now.

    A variant is also a leaf. It has two columns in the file; `footer_column` is the index of the
    first column. The first column is null if and only if the variant is null.

    Attributes:
        counts_nulls: whether nulls are counted in the rows instead of taken from the footer.
        nan_groups: indexes of the row groups whose values are all NaN or null. These row groups
            need no bounds.
        group_nulls: null counts of the row groups without statistics in the footer, by index of the
            row group.
        string_bounds: bounds of the row groups with long strings, by index of the row group.
    """

    path: tuple[str, ...]
    indices: tuple[int, ...]
    data_type: pa.DataType
    footer_column: int
    counts_nulls: bool = False
    has_nan: bool = False
    null_count: int = 0
    nan_groups: set[int] = field(default_factory=set)
    group_nulls: dict[int, int] = field(default_factory=dict)
    string_bounds: dict[int, tuple[str, str]] = field(default_factory=dict)

    def add_nan(self, row_group: int, column: pa.ChunkedArray[Any]) -> None:
        """Record whether the column contains NaN in a row group, and whether all values are NaN.

        Nulls are ignored.
        """
        is_nan = pc.min_max(pc.is_nan(column))
        self.has_nan = self.has_nan or is_nan["max"].as_py() is True
        if is_nan["min"].as_py() is True:
            self.nan_groups.add(row_group)

    def add_string_bounds(self, row_group: int, column: pa.ChunkedArray[Any]) -> None:
        """Store the minimum and maximum of a column in a row group.

        Nothing is stored if the minimum or the maximum isn't valid UTF-8.
        """
        with contextlib.suppress(UnicodeDecodeError):
            self.string_bounds[row_group] = pc.min(column).as_py(), pc.max(column).as_py()


class StatisticsCollector:
    """Collects the statistics of one file while its row groups are written.

    Args:
        columns: dotted paths; a struct includes all its fields. Paths that the schema lacks are
            ignored.
        prefix_length: number of characters to which the bounds of strings are truncated.
        without_bounds: indices of leaf columns whose bounds in the footer are invalid.
        rows_are_seen: whether the caller passes all rows to `add`. If False, only the reliable
            statistics of the footer are returned.
        counts_nan: whether the file's writer includes NaN in the bounds, as the largest value (see
            `orders_nan_last`). If True, the maxima of float columns in the footer are used. This
            argument is ignored if `rows_are_seen` is True.
    """

    def __init__(
        self,
        schema: pa.Schema,
        columns: Sequence[str],
        prefix_length: int,
        *,
        without_bounds: Collection[int] = (),
        rows_are_seen: bool = True,
        counts_nan: bool = False,
    ) -> None:
        self._prefix_length = prefix_length
        self._without_bounds = without_bounds
        self._counts_nan = counts_nan
        self._num_row_groups = 0
        selected: dict[tuple[str, ...], _Leaf] = {}
        for leaf in _leaves(list(schema), (), (), 0):
            if any(_covers(column, leaf.path) for column in columns):
                selected.setdefault(leaf.path, leaf)
        self._leaves = list(selected.values())
        if not rows_are_seen:
            self._leaves = [leaf for leaf in self._leaves if not leaf.counts_nulls]
            for leaf in self._leaves:
                leaf.has_nan = pa.types.is_floating(leaf.data_type) and not counts_nan

    def add(self, group: pa.Table) -> None:
        """Collect statistics from the rows of a row group.

        Statistics that the footer will contain are skipped.
        """
        for leaf in self._leaves:
            kind = leaf.data_type
            if pa.types.is_floating(kind):
                leaf.add_nan(self._num_row_groups, _column(group, leaf))
            elif _is_string(kind):
                column = _column(group, leaf)
                if (pc.max(pc.binary_length(column)).as_py() or 0) >= _LONG_STRING:
                    leaf.add_string_bounds(self._num_row_groups, column)
            elif leaf.counts_nulls:
                leaf.null_count += _column(group, leaf).null_count
        self._num_row_groups += 1

    def groups_without_statistics(self, footer: pq.FileMetaData) -> list[tuple[int, int]]:
        """Return (leaf column, row group) of the column chunks without statistics in the footer."""
        return [
            (leaf.footer_column, i)
            for leaf in self._leaves
            for i in range(footer.num_row_groups)
            if _lacks_statistics(footer.row_group(i), leaf)
        ]

    def add_column(self, footer_column: int, row_group: int, rows: pa.Table) -> None:
        """Collect the statistics of a leaf column in a row group; `rows` has only this column."""
        leaf = next(leaf for leaf in self._leaves if leaf.footer_column == footer_column)
        column: Any = rows.column(0)
        for _ in leaf.indices[1:]:
            column = pc.struct_field(column, [0])
        leaf.group_nulls[row_group] = column.null_count
        if _is_string(leaf.data_type) and column.null_count < len(column):
            leaf.add_string_bounds(row_group, column)

    def finish(self, footer: pq.FileMetaData) -> FileStatistics:
        """Return the file's statistics; `footer` is the footer of the complete file."""
        minima: dict[str, Any] = {}
        maxima: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for leaf in self._leaves:
            if leaf.counts_nulls:
                put(nulls, leaf.path, leaf.null_count)
                continue
            null_count, bounds = self._from_footer(leaf, footer)
            if null_count is not None:
                put(nulls, leaf.path, null_count)
            if bounds is None:
                continue
            low, high = bounds
            if isinstance(low, str):
                low, high = low[: self._prefix_length], self._upper_bound(high)
            put(minima, leaf.path, low)
            if high is not None and not leaf.has_nan:
                put(maxima, leaf.path, high)
        return FileStatistics(
            num_records=footer.num_rows, min_values=minima, max_values=maxima, null_count=nulls
        )

    def _from_footer(
        self, leaf: _Leaf, footer: pq.FileMetaData
    ) -> tuple[int | None, tuple[Any, Any] | None]:
        null_count = 0
        lows: list[Any] = []
        highs: list[Any] = []
        usable = _has_bounds(leaf.data_type) and leaf.footer_column not in self._without_bounds
        for i in range(footer.num_row_groups):
            group = footer.row_group(i)
            statistics = group.column(leaf.footer_column).statistics
            nulls = leaf.group_nulls.get(i)
            if nulls is None and statistics is not None:
                nulls = statistics.null_count
            if nulls is None:
                return None, None
            null_count += nulls
            if not usable or nulls == group.num_rows:
                continue
            bounds = leaf.string_bounds.get(i)
            if bounds is None and statistics is not None:
                bounds = footer_bounds(statistics)
            if bounds is not None:
                bounds = self._without_nan(leaf, i, bounds)
            if bounds is not None:
                lows.append(bounds[0])
                highs.append(bounds[1])
            elif i not in leaf.nan_groups:
                usable = False
        return null_count, (min(lows), max(highs)) if usable and lows else None

    def _without_nan(
        self, leaf: _Leaf, row_group: int, bounds: tuple[Any, Any]
    ) -> tuple[Any, Any] | None:
        """Return the bounds from the footer without NaN; None if the minimum is NaN.

        If the writer orders NaN above all numbers, a minimum of NaN means that all values are NaN.
        For other writers, a minimum of NaN only means that the row group contains NaN.
        """
        low, high = bounds
        if not _is_nan(low) and not _is_nan(high):
            return bounds
        leaf.has_nan = True
        if not _is_nan(low):
            return low, low
        if self._counts_nan:
            leaf.nan_groups.add(row_group)
        return None

    def _upper_bound(self, string: str) -> str | None:
        """Return an upper bound of `string` with at most `prefix_length` + 1 characters.

        Strings are ordered by their UTF-8 bytes. In the bound of a longer string, the character
        after the prefix is replaced by a larger one. Returns None if there is no larger character.
        """
        if len(string) <= self._prefix_length:
            return string
        following = string[self._prefix_length]
        if following >= _UNICODE_MAX:
            return None
        last = _ASCII_MAX if following < _ASCII_MAX else _UNICODE_MAX
        return string[: self._prefix_length] + last


def _leaves(
    fields: Sequence[pa.Field[Any]],
    path: tuple[str, ...],
    indices: tuple[int, ...],
    first_leaf: int,
) -> Iterator[_Leaf]:
    for i, child in enumerate(fields):
        child_path, child_indices = (*path, child.name), (*indices, i)
        if pa.types.is_struct(child.type) and not is_variant(child):
            yield from _leaves(children(child.type), child_path, child_indices, first_leaf)
        else:
            counts_nulls = _is_repeated(child.type) or is_geospatial(child)
            yield _Leaf(child_path, child_indices, child.type, first_leaf, counts_nulls)
        first_leaf += count_leaves(child.type)


def _covers(column: str, path: tuple[str, ...]) -> bool:
    dotted = ".".join(path)
    return dotted == column or dotted.startswith(f"{column}.")


def _column(group: pa.Table, leaf: _Leaf) -> pa.ChunkedArray[Any]:
    """Return the values of a leaf. Values in null structs are null."""
    column = group.column(leaf.indices[0])
    return pc.struct_field(column, list(leaf.indices[1:])) if len(leaf.indices) > 1 else column


def footer_bounds(statistics: pq.Statistics) -> tuple[Any, Any] | None:
    """Return minimum and maximum, which can be NaN; None if there are no usable bounds."""
    if not statistics.has_min_max:
        return None
    try:
        if str(statistics.logical_type).startswith(_UTC_MICROSECONDS):
            # `statistics.min` would import pandas for a timestamp with a time zone.
            raw: Any = statistics.min_raw, statistics.max_raw
            low, high = (_EPOCH + dt.timedelta(microseconds=micros) for micros in raw)
            return low, high
        return statistics.min, statistics.max
    except (ValueError, OverflowError):  # dates that Python can't hold, bytes that aren't UTF-8
        return None


def _lacks_statistics(group: pq.RowGroupMetaData, leaf: _Leaf) -> bool:
    statistics = group.column(leaf.footer_column).statistics
    if statistics is None or statistics.null_count is None:
        return group.num_rows > 0
    has_values = statistics.null_count < group.num_rows
    return _is_string(leaf.data_type) and has_values and not statistics.has_min_max


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _has_bounds(kind: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or _is_string(kind)
    )


def _is_string(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_repeated(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)


def put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set a value in nested dictionaries; create missing dictionaries."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value
