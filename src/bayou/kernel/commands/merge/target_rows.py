"""Which rows of the target matter to a merge whose sides another engine joins.

That engine may understand conditions that can't be understood here. What of them can be told which
files it needs, and which commits of others are in the way.

Which rows of the target a merge may match, told from the source's keys.

It decides which files are read, and which commits of others are in the way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import PredicateError, SchemaError
from bayou.kernel.arrow.types import from_arrow_type
from bayou.kernel.commands.merge.clauses import SOURCE, TARGET, JoinedNames, columns_of, sides_of
from bayou.kernel.commands.merge.condition import (
    JoinKey,
    MergeCondition,
    conjunction,
    conjuncts,
)
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
    referenced_columns,
)
from bayou.kernel.expressions.resolution import with_paths
from bayou.protocol.schema import BOOLEAN, STRING, DataType

__all__ = ["TargetRows", "may_change", "may_match"]


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


class TargetRows:
    """What is known of the target's rows that matter.

    Args:
        names: of both sides.
        on: operands of the ON condition's ANDs, as far as they can be parsed; those that name what
            isn't there are passed over.
    """

    def __init__(self, names: JoinedNames, on: Sequence[Predicate]) -> None:
        self._names = names
        known = [bound for part in on if (bound := self._bound(part)) is not None]
        found = conjunction(known)
        self._condition = MergeCondition.of(found or Literal(True, BOOLEAN), names.schema)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns of the source that `predicate` needs, in the source's order."""
        keys = [key.source for key in self._condition.keys]
        if not keys:
            return ()
        if self._condition.source_filter is not None:
            keys.append(self._condition.source_filter)
        named = columns_of(keys, SOURCE)
        return tuple(name for name in self._names.source.names if name in named)

    @property
    def bounded_columns(self) -> tuple[str, ...]:
        """Columns of the source that are keys as they are, so that their bounds are the keys'."""
        named = columns_of([key.source for key in self._bounded.keys], SOURCE)
        return tuple(name for name in self._names.source.names if name in named)

    def predicate(
        self,
        source: MergeSource | None,
        partitions: Collection[str],
        not_matched_by_source: Sequence[Predicate | None] = (),
        *,
        bounds_only: bool = False,
    ) -> Predicate | None:
        """What is true of each row that may match, or that a clause may change; None for all rows.

        Args:
            source: all rows of the source with `key_columns`; None where nobody has looked.
            partitions: the target's partition columns.
            not_matched_by_source: conditions of such clauses; None where one isn't known.
            bounds_only: the source's rows are the least and the greatest value of each of
                `bounded_columns`, and NULL, where it has that.
        """
        matcher, on = None, self._bounded if bounds_only else self._condition
        if source is not None and on.keys:
            renamed = [f"{SOURCE}.{name}" for name in source.rows.schema.names]
            rows = source.rows.rename_columns(renamed)
            try:
                matcher = Matcher(on, self._names.schema, rows)
            except PredicateError:  # a key that can't be computed, or only elsewhere
                matcher = None
        matching = may_match(on, matcher, partitions, bounds_only=bounds_only)
        if matching is None or not not_matched_by_source:
            return matching
        changed: list[Predicate] = []
        for condition in not_matched_by_source:
            bound = None if condition is None else self._bound(condition, of_target=True)
            if bound is None:
                return None
            changed.append(with_paths(bound, lambda path: (path[0].partition(".")[2], *path[1:])))
        return Or((matching, *changed))

    @property
    def _bounded(self) -> MergeCondition:
        """The condition with those keys alone that are columns of the source, in their order."""
        keys = tuple(key for key in self._condition.keys if self._is_ordered_column(key))
        return replace(self._condition, keys=keys, source_filter=None)

    def _is_ordered_column(self, key: JoinKey) -> bool:
        match key.source:
            case Column(path=(name,)):
                column = self._names.source.get(name.partition(".")[2])
                is_text = column is not None and column.data_type == STRING
                return is_text == pa.types.is_string(key.arrow_type)
            case _:
                return False

    def _bound(self, part: Predicate, *, of_target: bool = False) -> Predicate | None:
        sides = (TARGET,) if of_target else (TARGET, SOURCE)
        try:
            return self._names.predicate(part, "condition", sides)
        except PredicateError:
            return None
