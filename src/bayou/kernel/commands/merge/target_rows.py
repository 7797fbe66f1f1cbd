"""Which rows of the target matter to a merge whose sides another engine joins.

That engine may understand conditions that can't be understood here. What of them can be told which
files it needs, and which commits of others are in the way.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pyarrow as pa

from bayou.errors import PredicateError
from bayou.kernel.commands.merge.candidate_files import may_match
from bayou.kernel.commands.merge.condition import JoinKey, MergeCondition, conjunction
from bayou.kernel.commands.merge.join import Matcher
from bayou.kernel.commands.merge.name_resolution import SOURCE, TARGET, JoinedNames, columns_of
from bayou.kernel.commands.merge.source import MergeSource
from bayou.kernel.expressions.model import Column, Literal, Or, Predicate
from bayou.kernel.expressions.substitution import with_paths
from bayou.protocol.schema import BOOLEAN, STRING

__all__ = ["TargetRows"]


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
