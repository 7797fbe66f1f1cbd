"""`MergeRequest`: a MERGE with the conditions and values of the user."""

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
    matches_session,
    session_matches_kernel,
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
        conditions = [] if self.condition is None else [self.condition]
        return [*conditions, *(v for v in (self.values or {}).values() if not v.is_default)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """A MERGE statement.

    Attributes:
        on: the join condition.
        target_alias, source_alias: aliases of the two sides, or None.
        schema_evolution: whether new source columns are added to the table.
    """

    on: RowExpression
    clauses: tuple[RequestedClause, ...] = ()
    target_alias: str | None = None
    source_alias: str | None = None
    schema_evolution: bool = False

    @classmethod
    def of(cls, definition: MergeDefinition) -> MergeRequest:
        """Create a request from a definition, whose conditions and values are SQL strings."""

        def sql(expression: Any) -> RowExpression:
            return RowExpression(str(expression))

        return cls(
            on=sql(definition.on),
            clauses=tuple(
                RequestedClause(
                    kind=clause.kind,
                    action=clause.action,
                    condition=None if clause.condition is None else sql(clause.condition),
                    values=None
                    if clause.assignments is None
                    else {name: sql(value) for name, value in clause.assignments.items()},
                )
                for clause in definition.clauses
            ),
            target_alias=definition.target_alias,
            source_alias=definition.source_alias,
            schema_evolution=definition.schema_evolution,
        )

    def with_clause(self, clause: RequestedClause) -> MergeRequest:
        """Return a copy with another clause."""
        return replace(self, clauses=(*self.clauses, clause))

    @property
    def definition(self) -> MergeDefinition:
        """The definition for the kernel and for the table history."""
        definition = MergeDefinition(
            on=self.on.display_string,
            clauses=tuple(
                MergeClause(
                    kind=clause.kind,
                    action=clause.action,
                    condition=None if clause.condition is None else clause.condition.display_string,
                    assignments=None
                    if clause.values is None
                    else {name: value.display_string for name, value in clause.values.items()},
                )
                for clause in self.clauses
            ),
            schema_evolution=self.schema_evolution,
        )
        if self.target_alias is not None:
            definition = replace(definition, target_alias=self.target_alias)
        if self.source_alias is not None:
            definition = replace(definition, source_alias=self.source_alias)
        return definition

    def is_for_kernel(self, spark: Any, target: StructType, source: StructType) -> bool:
        """Whether the kernel evaluates all conditions and values as the session does."""
        expressions = [self.on, *(e for clause in self.clauses for e in clause.expressions)]
        if any(expression.sql is None for expression in expressions):
            return False
        if session_matches_kernel(spark, (target, source)):
            return True
        if _casts_timestamps(target, source):
            return False
        for expression in expressions:
            try:
                parsed: Expression = parse_expression(expression.sql or "")
            except PredicateError:
                return False
            if not matches_session(spark, parsed, (target, source)):
                return False
        return True


def _casts_timestamps(target: StructType, source: StructType) -> bool:
    """Whether a source column is cast to or from a timestamp, which depends on the time zone."""
    for field in target:
        source_field = source.get(field.name)
        if source_field is None or same_type(field.data_type, source_field.data_type):
            continue
        if has_timestamps(field.data_type) or has_timestamps(source_field.data_type):
            return True
    return False
