"""Which rows of the target a merge may match, told from the source's keys.

It decides which files are read, and which commits of others are in the way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import SchemaError
from bayou.kernel.arrow.types import from_arrow_type
from bayou.kernel.commands.merge.condition import (
    JoinKey,
    MergeCondition,
    conjunction,
    conjuncts,
)
from bayou.kernel.commands.merge.join import Matcher
from bayou.kernel.commands.merge.name_resolution import SOURCE, sides_of
from bayou.kernel.commands.merge.plan import MergePlan
from bayou.kernel.expressions.model import (
    And,
    Comparison,
    In,
    Literal,
    Or,
    Predicate,
    referenced_columns,
)
from bayou.kernel.expressions.substitution import with_paths
from bayou.protocol.schema import BOOLEAN, DataType

__all__ = ["may_change", "may_match"]

pc: Any = pyarrow.compute

_MOST_VALUES = 64
"""Distinct keys that are looked for one by one in statistics."""
_MOST_PARTITION_VALUES = 10_000
"""Distinct keys that are looked for one by one where partition values decide."""


def may_match(
    condition: MergeCondition,
    matcher: Matcher | None,
    partitions: Collection[str],
    *,
    bounds_only: bool = False,
) -> Predicate | None:
    """What is true of each target row that matches; None where that says nothing.

    By the target's own names.

    Args:
        matcher: over the source; None where its keys aren't known.
        bounds_only: of the source's keys only the least and the greatest are there.
    """
    if matcher is not None and matcher.finds_nothing:
        return Literal(False, BOOLEAN)
    parts: list[Predicate] = []
    if condition.target_filter is not None:
        parts.append(condition.target_filter)
    if matcher is not None:
        for key, values in zip(condition.keys, matcher.key_columns, strict=True):
            parts += _key_bounds(key, values, partitions, bounds_only=bounds_only)
    found = conjunction(parts)
    return None if found is None else _own_names(found)


def may_change(plan: MergePlan, matching: Predicate | None) -> Predicate | None:
    """What is true of each target row that changes; None where that says nothing.

    Args:
        matching: what `may_match` gave.
    """
    if plan.only_inserts:
        return matching
    if not plan.not_matched_by_source:
        # Matches alone count, and of those none where no clause's condition can hold.
        if plan.not_matched or any(c.condition is None for c in plan.matched):
            return matching
        held = [_of_target(c.condition) for c in plan.matched if c.condition is not None]
        known = [part for part in held if part is not None]
        if len(known) < len(held):
            return matching
        either = _either(known)
        return either if matching is None else And((matching, either))
    conditions = [c.condition for c in plan.not_matched_by_source if c.condition is not None]
    if matching is None or len(conditions) < len(plan.not_matched_by_source):
        return None
    return _either([matching, *(_own_names(c) for c in conditions)])


def _of_target(condition: Predicate) -> Predicate | None:
    """The conjuncts over the target's columns."""
    parts = [part for part in conjuncts(condition) if SOURCE not in sides_of(part)]
    found = conjunction(parts)
    return None if found is None else _own_names(found)


def _either(parts: Sequence[Predicate]) -> Predicate:
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _own_names(predicate: Predicate) -> Predicate:
    return with_paths(predicate, lambda path: (path[0].partition(".")[2], *path[1:]))


def _key_bounds(
    key: JoinKey, values: pa.Array[Any], partitions: Collection[str], *, bounds_only: bool
) -> Iterator[Predicate]:
    """What a target row's key must be among the source's."""
    if values.null_count:  # with <=> they match NULL, which no bound tells
        return
    try:
        data_type = from_arrow_type(key.arrow_type)
    except SchemaError:  # a decimal of more than 38 digits
        return
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return
    columns = {path[0].partition(".")[2] for path in referenced_columns(key.target)}
    most = _MOST_PARTITION_VALUES if columns <= set(partitions) else _MOST_VALUES
    distinct = values.unique()
    try:
        if len(distinct) <= (1 if bounds_only else most):
            literals = tuple(Literal(v, data_type) for v in distinct.to_pylist())
            yield In(key.target, literals)
        if len(distinct) > (1 if bounds_only else _MOST_VALUES):
            yield from _between(key, values, data_type)
    except (ValueError, OverflowError):  # a time that Python has no value for
        return


def _between(key: JoinKey, values: pa.Array[Any], data_type: DataType) -> Iterator[Predicate]:
    bounds = pc.min_max(values)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    yield Comparison(">=", key.target, Literal(low, data_type))
    yield Comparison("<=", key.target, Literal(high, data_type))
