"""The ON condition of a merge, split into join keys, filters of one side, and other conjuncts."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from bayou.kernel.commands.merge.clauses import SOURCE, TARGET, sides_of
from bayou.kernel.expressions.model import (
    Comparison,
    Expression,
    Literal,
    Predicate,
    conjunction,
    conjuncts,
)
from bayou.kernel.expressions.resolution import type_of
from bayou.kernel.expressions.types import comparison_type
from bayou.protocol.schema import BOOLEAN, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinKey:
    """An equality between an expression of the target and an expression of the source.

    Attributes:
        arrow_type: common type for the comparison.
        null_safe: whether NULL matches NULL (`<=>`). If False, NULL matches no value (`=`).
    """

    target: Expression
    source: Expression
    arrow_type: pa.DataType
    null_safe: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCondition:
    """A condition over joined rows, split into parts that must all be true.

    Attributes:
        keys: conjuncts that compare a target expression with a source expression for equality.
        target_filter: conjuncts with only target columns; None if there are none.
        source_filter: conjuncts with only source columns or constants; None if there are none.
        residual: all other conjuncts, evaluated for each pair of rows; None if there are none.
    """

    keys: tuple[JoinKey, ...]
    target_filter: Predicate | None
    source_filter: Predicate | None
    residual: Predicate | None

    @classmethod
    def of(cls, predicate: Predicate, schema: StructType) -> MergeCondition:
        """Split a predicate that `JoinedColumns.predicate` has resolved."""
        keys: list[JoinKey] = []
        parts: dict[str, list[Predicate]] = {"target": [], "source": [], "both": []}
        for part in conjuncts(predicate):
            key = _key(part, schema)
            sides = sides_of(part)
            if key is not None:
                keys.append(key)
            elif TARGET not in sides:
                parts["source"].append(part)
            else:
                parts["both" if SOURCE in sides else "target"].append(part)
        return cls(
            keys=tuple(keys),
            target_filter=conjunction(parts["target"]),
            source_filter=conjunction(parts["source"]),
            residual=conjunction(parts["both"]),
        )

    @property
    def predicate(self) -> Predicate:
        """The conjunction of all parts."""
        parts: list[Predicate] = [
            Comparison("<=>" if key.null_safe else "=", key.target, key.source) for key in self.keys
        ]
        parts += [p for p in (self.target_filter, self.source_filter, self.residual) if p]
        return conjunction(parts) or Literal(True, BOOLEAN)

    @property
    def target_expressions(self) -> tuple[Expression, ...]:
        """The expressions over target columns that the join evaluates for each target row."""
        parts: list[Expression] = [key.target for key in self.keys]
        parts += [p for p in (self.target_filter, self.residual) if p is not None]
        return tuple(parts)


def _key(part: Predicate, schema: StructType) -> JoinKey | None:
    if not isinstance(part, Comparison) or part.op not in ("=", "<=>"):
        return None
    left, right = part.left, part.right
    match sorted(sides_of(left)), sorted(sides_of(right)):
        case ["target"], ["source"]:
            pass
        case ["source"], ["target"]:
            left, right = right, left
        case _:
            return None
    common = comparison_type(type_of(left, schema), type_of(right, schema))
    if common is None or pa.types.is_null(common):
        return None
    return JoinKey(target=left, source=right, arrow_type=common, null_safe=part.op == "<=>")
