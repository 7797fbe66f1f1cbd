"""Predicates on target rows, derived from the conditions of a merge and the source's join keys.

A predicate is true for all target rows that the merge may match or change. The predicate limits the
files to read, and the concurrent commits that conflict with the merge. If another engine executes
the join, `TargetRows` derives the predicate from the conditions that the kernel can parse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bayou.errors import PredicateError, SchemaError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import from_arrow_type
from bayou.kernel.commands.merge.clauses import SOURCE, TARGET, JoinedColumns, columns_of, sides_of
from bayou.kernel.commands.merge.condition import JoinKey, MergeCondition
from bayou.kernel.commands.merge.join import Matcher
from bayou.kernel.commands.merge.plan import MergePlan
from bayou.kernel.commands.merge.source import MergeSource
from bayou.kernel.expressions.model import (
    And,
    Column,
    Comparison,
    In,
    Literal,
    Or,
    Predicate,
    conjunction,
    conjuncts,
    referenced_columns,
)
from bayou.kernel.expressions.resolution import map_columns
from bayou.protocol.schema import BOOLEAN, STRING, DataType

_MAX_VALUES = 64
"""Maximum number of distinct keys in an IN predicate on data columns."""
_MAX_PARTITION_VALUES = 10_000
"""Maximum number of distinct keys in an IN predicate on partition columns."""


def may_match(
    condition: MergeCondition,
    matcher: Matcher | None,
    partitions: Collection[str],
    *,
    bounds_only: bool = False,
) -> Predicate | None:
    """Return a predicate that is true for each matching target row; None if every row may match.

    Args:
        matcher: the source rows that can match, with their join keys. If None, the predicate is
            derived from the conditions only.
        partitions: names of the partition columns. The predicate can list more values of partition
            columns than of other columns.
        bounds_only: whether `matcher` contains only the minimum and maximum of each join key.
    """
    if matcher is not None and matcher.is_empty:
        return Literal(False, BOOLEAN)
    parts: list[Predicate] = []
    if condition.target_filter is not None:
        parts.append(condition.target_filter)
    if matcher is not None:
        for key, values in zip(condition.keys, matcher.key_columns, strict=True):
            parts += _key_bounds(key, values, partitions, bounds_only=bounds_only)
    predicate = conjunction(parts)
    return None if predicate is None else _own_names(predicate)


def may_change(plan: MergePlan, matching: Predicate | None) -> Predicate | None:
    """Return a predicate that is true for each changed target row; None if every row may change.

    Args:
        matching: result of `may_match`.
    """
    if plan.only_inserts:
        return matching
    if not plan.not_matched_by_source:
        # Only matched rows change, and only those for which a clause's condition may be true.
        if plan.not_matched or any(c.condition is None for c in plan.matched):
            return matching
        filters = [_target_filter(c.condition) for c in plan.matched if c.condition is not None]
        known = [part for part in filters if part is not None]
        if len(known) < len(filters):
            return matching
        any_clause = _disjunction(known)
        return any_clause if matching is None else And((matching, any_clause))
    conditions = [c.condition for c in plan.not_matched_by_source if c.condition is not None]
    if matching is None or len(conditions) < len(plan.not_matched_by_source):
        return None
    return _disjunction([matching, *(_own_names(c) for c in conditions)])


def _target_filter(condition: Predicate) -> Predicate | None:
    parts = [part for part in conjuncts(condition) if SOURCE not in sides_of(part)]
    predicate = conjunction(parts)
    return None if predicate is None else _own_names(predicate)


def _disjunction(parts: Sequence[Predicate]) -> Predicate:
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _own_names(predicate: Predicate) -> Predicate:
    return map_columns(predicate, lambda path: (path[0].partition(".")[2], *path[1:]))


def _key_bounds(
    key: JoinKey, values: pa.Array[Any], partitions: Collection[str], *, bounds_only: bool
) -> Iterator[Predicate]:
    """Yield predicates that are true for each target row whose `key` matches a source row.

    Args:
        values: the values of `key.source` in the source rows.
        bounds_only: whether `values` contains only the minimum and maximum.
    """
    if values.null_count:  # `<=>` matches NULL, but bounds and IN don't
        return
    try:
        data_type = from_arrow_type(key.arrow_type)
    except SchemaError:  # a decimal of more than 38 digits
        return
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return
    columns = {path[0].partition(".")[2] for path in referenced_columns(key.target)}
    max_values = _MAX_PARTITION_VALUES if columns <= set(partitions) else _MAX_VALUES
    # Hashing all values would be expensive. If a part has too many distinct values, all have.
    distinct = values.slice(0, 2 * max_values).unique()
    if len(distinct) <= max_values and len(values) > 2 * max_values:
        distinct = values.unique()
    try:
        if len(distinct) <= (1 if bounds_only else max_values):
            literals = tuple(Literal(v, data_type) for v in distinct.to_pylist())
            yield In(key.target, literals)
        if len(distinct) > (1 if bounds_only else _MAX_VALUES):
            yield from _between(key, values, data_type)
    except (ValueError, OverflowError):  # a date or timestamp out of Python's range
        return


def _between(key: JoinKey, values: pa.Array[Any], data_type: DataType) -> Iterator[Predicate]:
    bounds = pc.min_max(values)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    yield Comparison(">=", key.target, Literal(low, data_type))
    yield Comparison("<=", key.target, Literal(high, data_type))


class TargetRows:
    """Derives a predicate on the target rows of a merge whose join another engine executes.

    Args:
        names: columns of the target and the source.
        on: conjuncts of the ON condition that the kernel can parse. A conjunct is ignored if it
            can't be resolved against these columns.
    """

    def __init__(self, names: JoinedColumns, on: Sequence[Predicate]) -> None:
        self._names = names
        resolved = [predicate for part in on if (predicate := self._resolve(part)) is not None]
        condition = conjunction(resolved) or Literal(True, BOOLEAN)
        self._condition = MergeCondition.of(condition, names.schema)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Source columns that `predicate` needs, in the source's order."""
        keys = [key.source for key in self._condition.keys]
        if not keys:
            return ()
        if self._condition.source_filter is not None:
            keys.append(self._condition.source_filter)
        referenced = columns_of(keys, SOURCE)
        return tuple(name for name in self._names.source.names if name in referenced)

    @property
    def bounded_columns(self) -> tuple[str, ...]:
        """Source columns that are compared directly, such as `s.id` in `t.id = s.id`.

        Instead of all source rows, `predicate` can use the bounds of these columns (`bounds_only`).
        """
        referenced = columns_of([key.source for key in self._bounded.keys], SOURCE)
        return tuple(name for name in self._names.source.names if name in referenced)

    def predicate(
        self,
        source: MergeSource | None,
        partitions: Collection[str],
        not_matched_by_source: Sequence[Predicate | None] = (),
        *,
        bounds_only: bool = False,
    ) -> Predicate | None:
        """Return a predicate that is true for each row that may match or change.

        Returns None if every row may match or change.

        Args:
            source: all source rows, with the columns `key_columns`. If None, the predicate is
                derived from the conditions only.
            not_matched_by_source: condition of each WHEN NOT MATCHED BY SOURCE clause; None for a
                clause without a condition, or with a condition that the kernel can't parse.
            bounds_only: whether `source` has only three rows, with the columns `bounded_columns`.
                The first row contains the minimums, the second row the maximums. The third row
                contains NULL for columns with nulls, and the minimum for other columns.
        """
        matcher, on = None, self._bounded if bounds_only else self._condition
        if source is not None and on.keys:
            renamed = [f"{SOURCE}.{name}" for name in source.rows.schema.names]
            rows = source.rows.rename_columns(renamed)
            try:
                matcher = Matcher(on, self._names.schema, rows)
            except PredicateError:  # the kernel can't compute a key
                matcher = None
        matching = may_match(on, matcher, partitions, bounds_only=bounds_only)
        if matching is None or not not_matched_by_source:
            return matching
        changed: list[Predicate] = []
        for condition in not_matched_by_source:
            resolved = None if condition is None else self._resolve(condition, of_target=True)
            if resolved is None:
                return None
            changed.append(_own_names(resolved))
        return Or((matching, *changed))

    @property
    def _bounded(self) -> MergeCondition:
        """The ON condition, restricted to the join keys that compare a source column directly.

        Keys for which the bounds of the source column can't be used are omitted, too.
        """
        keys = tuple(key for key in self._condition.keys if self._is_ordered_column(key))
        return replace(self._condition, keys=keys, source_filter=None)

    def _is_ordered_column(self, key: JoinKey) -> bool:
        match key.source:
            case Column(path=(name,)):
                column = self._names.source.get(name.partition(".")[2])
                is_string = column is not None and column.data_type == STRING
                return is_string == pa.types.is_string(key.arrow_type)
            case _:
                return False

    def _resolve(self, part: Predicate, *, of_target: bool = False) -> Predicate | None:
        sides = (TARGET,) if of_target else (TARGET, SOURCE)
        try:
            return self._names.predicate(part, "condition", sides)
        except PredicateError:
            return None
