"""`MergeRequest`: a MERGE whose conditions and values are the user's SQL strings and Columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bayou.errors import PredicateError
from bayou.kernel.commands.merge import ClauseAction, ClauseKind, MergeClause, MergeDefinition
from bayou.kernel.expressions.functions import inexact_function
from bayou.kernel.expressions.model import Column, Expression
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.protocol.schema import TIMESTAMP, DataType, StructType
from bayou.protocol.sql import quote_identifier
from bayou.protocol.type_widening import AutomaticWidening
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.session_semantics import (
    assigned_type,
    check_client_evaluates,
    has_timestamps,
    matches_session,
    session_matches_kernel,
)
from bayou.spark.expressions.store_assignment import row_operation_policy, structs_by_name
from bayou.spark.expressions.struct_by_name import has_structs
from bayou.spark.types import same_type, unused_name


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedClause:
    """A WHEN clause.

    Attributes:
        condition: the clause's condition. If None, the clause applies to all rows of its `kind`.
        values: the value for each assigned target column. If None, each column is set to the
            source column of the same name (`UPDATE SET *`, `INSERT *`).
    """

    kind: ClauseKind
    action: ClauseAction
    condition: RowExpression | None = None
    values: Mapping[str, RowExpression] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """A MERGE whose conditions and values are SQL strings or Columns.

    Attributes:
        on: the join condition.
        schema_evolution: whether new source columns are added to the table.
        automatic_widening: the type changes that schema evolution may make.
        write_parameters: if set, the table's history shows the operation WRITE with these
            parameters. REPLACE USING and REPLACE ON set them.
        default_aliases: aliases of target and source that `definition` uses if the user has set
            none.
    """

    on: RowExpression
    clauses: tuple[RequestedClause, ...] = ()
    target_alias: str | None = None
    source_alias: str | None = None
    schema_evolution: bool = False
    automatic_widening: AutomaticWidening = AutomaticWidening.SAME_FAMILY_TYPE
    write_parameters: Mapping[str, object] | None = None
    default_aliases: tuple[str, str] = ("target", "source")

    @classmethod
    def of(cls, definition: MergeDefinition) -> MergeRequest:
        """Create a request from the kernel's `MergeDefinition`, whose expressions are SQL."""

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
            automatic_widening=definition.automatic_widening,
        )

    def with_clause(self, clause: RequestedClause) -> MergeRequest:
        return replace(self, clauses=(*self.clauses, clause))

    def with_expressions(self, convert: Callable[[RowExpression], RowExpression]) -> MergeRequest:
        """Return a copy in which `convert` has replaced each condition and each value."""
        clauses = (
            replace(
                clause,
                condition=None if clause.condition is None else convert(clause.condition),
                values=None
                if clause.values is None
                else {name: convert(value) for name, value in clause.values.items()},
            )
            for clause in self.clauses
        )
        return replace(self, on=convert(self.on), clauses=tuple(clauses))

    def with_default_aliases(self, target: StructType, source: StructType) -> MergeRequest:
        """Return a copy whose default aliases differ from all column names.

        With these aliases, `source.a` means the field `a` of a column `source`, as in Spark. An
        alias that the user has set takes precedence.
        """
        used = [*target.names, *source.names, self.target_alias or "", self.source_alias or ""]
        of_target, of_source = self.default_aliases
        aliases = (unused_name(of_target, used), unused_name(of_source, used))
        return replace(self, default_aliases=aliases)

    @property
    def definition(self) -> MergeDefinition:
        """The same MERGE for the kernel, with all conditions and values as strings."""
        of_target, of_source = self.default_aliases
        return MergeDefinition(
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
            source_alias=self.source_alias or of_source,
            target_alias=self.target_alias or of_target,
            schema_evolution=self.schema_evolution,
            automatic_widening=self.automatic_widening,
            write_parameters=self.write_parameters,
        )

    def is_for_kernel(self, spark: Any, target: StructType, source: StructType) -> bool:
        """Whether the kernel evaluates all conditions and values as Spark does in this session."""
        if row_operation_policy(spark) != "ANSI":
            return False
        if any(has_structs(field.data_type) for field in target) and not structs_by_name(spark):
            return False
        expressions = self._assigned_expressions(target, source)
        if any(expression.sql is None for expression, _ in expressions):
            return False
        is_plain = session_matches_kernel(spark, (target, source))
        if not is_plain and _casts_timestamps(target, source):
            return False
        for expression, assigned in expressions:
            try:
                parsed: Expression = parse_expression(expression.sql or "")
            except PredicateError:
                if is_plain:
                    continue  # the kernel raises the error
                return False
            if inexact_function(parsed) is not None:
                return False
            if not is_plain and not matches_session(
                spark, parsed, (target, source), assigned=assigned
            ):
                return False
        return True

    def check_client_evaluates(self, spark: Any, target: StructType, source: StructType) -> None:
        """Check that the kernel gives the same results as Spark for all conditions and values.

        Under Spark Connect, the kernel evaluates these expressions in the client's process.

        Raises:
            PredicateError: with the session's settings, the kernel's result for an expression may
                differ from Spark's result.
        """
        schemas = (target, source)
        checked = self._assigned_expressions(target, source)
        for expression, assigned in checked:
            sql = expression.sql or ""
            try:
                parsed: Expression = parse_expression(sql)
            except PredicateError:
                continue  # the kernel raises the error
            check_client_evaluates(spark, sql, parsed, schemas, assigned=assigned)
        copies = any(clause.values is None and clause.action != "delete" for clause in self.clauses)
        if copies and _casts_timestamps(target, source):
            for field in source:
                column, of_target = quote_identifier(field.name), target.get(field.name)
                if of_target is not None:
                    check_client_evaluates(
                        spark, column, Column((field.name,)), [source], assigned=of_target.data_type
                    )

    def _assigned_expressions(
        self, target: StructType, source: StructType
    ) -> list[tuple[RowExpression, DataType | None]]:
        """Return all conditions and values, each with the type of the assigned column.

        The type is None for a condition. For a value whose column is unknown, the type is
        TIMESTAMP, because the checks for this type are the strictest.
        """
        alias, schemas = self.definition.target_alias, (target, source)
        pairs: list[tuple[RowExpression, DataType | None]] = [(self.on, None)]
        for clause in self.clauses:
            if clause.condition is not None:
                pairs.append((clause.condition, None))
            for name, value in (clause.values or {}).items():
                if not value.is_default:
                    pairs.append((value, assigned_type(name, alias, schemas) or TIMESTAMP))
        return pairs


def _casts_timestamps(target: StructType, source: StructType) -> bool:
    """Whether UPDATE SET * or INSERT * casts a source column to or from a timestamp."""
    for field in target:
        source_field = source.get(field.name)
        if source_field is None or same_type(field.data_type, source_field.data_type):
            continue
        if has_timestamps(field.data_type) or has_timestamps(source_field.data_type):
            return True
    return False
