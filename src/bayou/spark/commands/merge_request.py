"""A merge as its author gave it, in Spark's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bayou.errors import PredicateError
from bayou.kernel.commands.merge import ClauseAction, ClauseKind, MergeClause, MergeDefinition
from bayou.kernel.expressions.model import Expression
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.protocol.schema import StructType
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.session_semantics import (
    has_timestamps,
    is_plain_session,
    means_the_same,
)
from bayou.spark.types import same_type

__all__ = ["MergeRequest", "RequestedClause"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedClause:
    """A WHEN clause; see `MergeClause`."""

    kind: ClauseKind
    action: ClauseAction
    condition: RowExpression | None = None
    values: Mapping[str, RowExpression] | None = None

    @property
    def expressions(self) -> list[RowExpression]:
        """Its condition and its values."""
        given = [] if self.condition is None else [self.condition]
        return [*given, *(v for v in (self.values or {}).values() if not v.is_default)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """A merge.

    Attributes:
        on: when a row of the source and one of the target belong together.
        target_alias, source_alias: the sides' names, None for none.
        schema_evolution: the table takes new columns of the source.
    """

    on: RowExpression
    clauses: tuple[RequestedClause, ...] = ()
    target_alias: str | None = None
    source_alias: str | None = None
    schema_evolution: bool = False

    @classmethod
    def of(cls, definition: MergeDefinition) -> MergeRequest:
        """A merge whose conditions and values are texts."""

        def text(expression: Any) -> RowExpression:
            return RowExpression(str(expression))

        return cls(
            on=text(definition.on),
            clauses=tuple(
                RequestedClause(
                    kind=clause.kind,
                    action=clause.action,
                    condition=None if clause.condition is None else text(clause.condition),
                    values=None
                    if clause.assignments is None
                    else {name: text(value) for name, value in clause.assignments.items()},
                )
                for clause in definition.clauses
            ),
            target_alias=definition.target_alias,
            source_alias=definition.source_alias,
            schema_evolution=definition.schema_evolution,
        )

    def with_clause(self, clause: RequestedClause) -> MergeRequest:
        """The same with one clause more."""
        return replace(self, clauses=(*self.clauses, clause))

    @property
    def definition(self) -> MergeDefinition:
        """For the kernel, and for the history."""
        found = MergeDefinition(
            on=self.on.shown,
            clauses=tuple(
                MergeClause(
                    kind=clause.kind,
                    action=clause.action,
                    condition=None if clause.condition is None else clause.condition.shown,
                    assignments=None
                    if clause.values is None
                    else {name: value.shown for name, value in clause.values.items()},
                )
                for clause in self.clauses
            ),
            schema_evolution=self.schema_evolution,
        )
        if self.target_alias is not None:
            found = replace(found, target_alias=self.target_alias)
        if self.source_alias is not None:
            found = replace(found, source_alias=self.source_alias)
        return found

    def is_for_kernel(self, spark: Any, target: StructType, source: StructType) -> bool:
        """Whether the kernel can evaluate all of it as the session would, as far as texts tell."""
        expressions = [self.on, *(e for clause in self.clauses for e in clause.expressions)]
        if any(expression.text is None for expression in expressions):
            return False
        if is_plain_session(spark, (target, source)):
            return True
        if _casts_moments(target, source):
            return False
        for expression in expressions:
            try:
                parsed: Expression = parse_expression(expression.text or "")
            except PredicateError:
                return False
            if not means_the_same(spark, parsed, (target, source)):
                return False
        return True


def _casts_moments(target: StructType, source: StructType) -> bool:
    """Whether a column of the source goes into one of another type that a time zone shows."""
    for field in target:
        other = source.get(field.name)
        if other is None or same_type(field.data_type, other.data_type):
            continue
        if has_timestamps(field.data_type) or has_timestamps(other.data_type):
            return True
    return False
