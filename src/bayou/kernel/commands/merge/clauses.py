"""WHEN clauses of a merge, and resolution of column names against its target and source.

A batch of joined rows has columns `target.<name>` and `source.<name>`, independent of the aliases
of the merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, TypeVar

from bayou.errors import ArgumentError, PredicateError
from bayou.kernel.expressions.model import Expression, Predicate, referenced_columns
from bayou.kernel.expressions.resolution import map_columns, resolve, resolve_expression
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.protocol.schema import StructField, StructType

ClauseKind: TypeAlias = Literal["MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"]
ClauseAction: TypeAlias = Literal["update", "delete", "insert"]

_ALLOWED_ACTIONS: dict[ClauseKind, tuple[ClauseAction, ...]] = {
    "MATCHED": ("update", "delete"),
    "NOT MATCHED": ("insert",),
    "NOT MATCHED BY SOURCE": ("update", "delete"),
}
_CONDITION_ERRORS: dict[ClauseKind, str] = {
    "MATCHED": "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
    "NOT MATCHED": "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION",
    "NOT MATCHED BY SOURCE": "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """A WHEN clause of a MERGE.

    A joined row is of one of three kinds: `MATCHED`, `NOT MATCHED` or `NOT MATCHED BY SOURCE`. The
    first clause of the row's kind whose condition is true applies.

    Attributes:
        assignments: values as SQL or `Expression`, by target column. A nested field is a dotted
            path such as `s.a`. If None, each column is set to the source column of the same name.
            Ignored for a delete.
    """

    kind: ClauseKind
    action: ClauseAction
    condition: Predicate | str | None = None
    assignments: Mapping[str, Expression | str] | None = None

    @property
    def sets_all_columns(self) -> bool:
        """Whether this is `UPDATE SET *` or `INSERT *`."""
        return self.action != "delete" and self.assignments is None


def check_clauses(clauses: Sequence[MergeClause]) -> None:
    """Check that MERGE allows each clause, and that no clause is unreachable."""
    if not clauses:
        raise ArgumentError(
            "MERGE has no WHEN clause (DELTA_MERGE_MISSING_WHEN). Add at least one.",
            argument="clauses",
        )
    for clause in clauses:
        if clause.action not in _ALLOWED_ACTIONS[clause.kind]:
            raise ArgumentError(
                f"WHEN {clause.kind} THEN {clause.action.upper()} isn't a clause of MERGE. Allowed "
                f"actions: {', '.join(_ALLOWED_ACTIONS[clause.kind]).upper()}.",
                argument="clauses",
            )
        if clause.action != "delete" and clause.assignments is not None and not clause.assignments:
            raise ArgumentError(
                f"WHEN {clause.kind} THEN {clause.action.upper()} sets no column. Set at least "
                "one.",
                argument="clauses",
            )
        if clause.kind == "NOT MATCHED BY SOURCE" and clause.sets_all_columns:
            raise ArgumentError(
                "WHEN NOT MATCHED BY SOURCE can't use UPDATE SET *, because its rows have no "
                "matching source row. Set columns by name.",
                argument="clauses",
            )
    for kind, condition in _CONDITION_ERRORS.items():
        same_kind = [clause for clause in clauses if clause.kind == kind]
        if any(clause.condition is None for clause in same_kind[:-1]):
            raise ArgumentError(
                f"A WHEN {kind} clause without a condition makes the next {kind} clause "
                f"unreachable ({condition}). Omit the condition only in the last WHEN {kind} "
                "clause.",
                argument="clauses",
            )


Side: TypeAlias = Literal["target", "source"]
_ExpressionT = TypeVar("_ExpressionT", bound=Expression)

TARGET: Side = "target"
SOURCE: Side = "source"
BOTH: tuple[Side, ...] = (TARGET, SOURCE)


@dataclass(frozen=True, kw_only=True)
class JoinedColumns:
    """Columns of a merge's target and source; resolves names to columns of joined rows.

    Attributes:
        target, source: columns of each side; their names have no prefix.
        target_alias, source_alias: aliases in the merge's SQL.
    """

    target: StructType
    source: StructType
    target_alias: str = TARGET
    source_alias: str = SOURCE

    def __post_init__(self) -> None:
        if self.target_alias.lower() == self.source_alias.lower():
            raise ArgumentError(
                f"MERGE: target and source have the same alias {self.source_alias!r}. Use "
                "different aliases.",
                argument="source_alias",
            )

    @cached_property
    def schema(self) -> StructType:
        """Schema of joined rows; all columns are nullable."""
        return StructType(tuple(self._joined_fields()))

    def predicate(
        self, condition: Predicate | str, label: str, sides: tuple[Side, ...] = BOTH
    ) -> Predicate:
        """Resolve a condition over joined rows.

        Args:
            label: name of the condition in error messages, such as `ON condition`.
            sides: the sides (target, source) whose columns the condition may reference.
        """
        parsed = parse_predicate(condition) if isinstance(condition, str) else condition
        return resolve(self._resolve_names(parsed, label, sides), self.schema)

    def expression(
        self, expression: Expression | str, label: str, sides: tuple[Side, ...] = BOTH
    ) -> Expression:
        parsed = parse_expression(expression) if isinstance(expression, str) else expression
        return resolve_expression(self._resolve_names(parsed, label, sides), self.schema)

    def _resolve_names(
        self, expression: _ExpressionT, what: str, sides: tuple[Side, ...]
    ) -> _ExpressionT:
        return map_columns(expression, lambda path: self._path(path, what, sides))

    def _path(self, path: tuple[str, ...], what: str, sides: tuple[Side, ...]) -> tuple[str, ...]:
        matches = [
            (side, field, path[2:])
            for side in sides
            if len(path) > 1
            and path[0].lower() == self._alias(side).lower()
            and (field := self._columns(side).get(path[1])) is not None
        ]
        if not matches:
            matches = [
                (side, field, path[1:])
                for side in sides
                if (field := self._columns(side).get(path[0])) is not None
            ]
        name = ".".join(path)
        if not matches:
            raise PredicateError(
                f"Cannot resolve {name} in the {what}: it isn't a column of {self._format(sides)} "
                "(DELTA_MERGE_UNRESOLVED_EXPRESSION). Use one of these columns.",
                expression=name,
            )
        if len(matches) > 1:
            raise PredicateError(
                f"{name!r} in the {what} is ambiguous (AMBIGUOUS_REFERENCE). Use "
                f"{self.target_alias}.{name} or {self.source_alias}.{name}.",
                expression=name,
            )
        side, field, rest = matches[0]
        return (f"{side}.{field.name}", *rest)

    def _columns(self, side: Side) -> StructType:
        return self.target if side == TARGET else self.source

    def _alias(self, side: Side) -> str:
        return self.target_alias if side == TARGET else self.source_alias

    def _joined_fields(self) -> Iterator[StructField]:
        for side in BOTH:
            for field in self._columns(side):
                yield StructField(name=f"{side}.{field.name}", data_type=field.data_type)

    def _format(self, sides: tuple[Side, ...]) -> str:
        parts = []
        for side in sides:
            names = self._columns(side).names
            columns = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
            parts.append(f"the {side} {self._alias(side)!r} ({columns})")
        return " or ".join(parts)


def sides_of(expression: Expression) -> frozenset[str]:
    """Return the sides (target, source) whose columns a resolved expression references."""
    return frozenset(path[0].partition(".")[0] for path in referenced_columns(expression))


def columns_of(expressions: Iterable[Expression], side: Side) -> frozenset[str]:
    """Return the top-level columns of `side` that `expressions` reference; names have no prefix."""
    return frozenset(
        path[0].partition(".")[2]
        for expression in expressions
        for path in referenced_columns(expression)
        if path[0].startswith(f"{side}.")
    )
