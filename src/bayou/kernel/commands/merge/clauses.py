"""The WHEN clauses of a merge, as its author gave them.

Which column a name of a merge means: one of the target, or one of the source.

Joined rows are one batch: a column of the target is called `target.<name>` there, one of the source
`source.<name>`, whatever the aliases are that the merge's author has given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, TypeVar

from bayou.errors import ArgumentError, PredicateError
from bayou.kernel.expressions.model import Expression, Predicate, referenced_columns
from bayou.kernel.expressions.resolution import resolve, resolve_expression, with_paths
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.protocol.schema import StructField, StructType

__all__ = [
    "BOTH",
    "SOURCE",
    "TARGET",
    "ClauseAction",
    "ClauseKind",
    "JoinedNames",
    "MergeClause",
    "Side",
    "check_clauses",
    "columns_of",
    "sides_of",
]


ClauseKind: TypeAlias = Literal["MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"]
ClauseAction: TypeAlias = Literal["update", "delete", "insert"]

_ACTIONS: dict[ClauseKind, tuple[ClauseAction, ...]] = {
    "MATCHED": ("update", "delete"),
    "NOT MATCHED": ("insert",),
    "NOT MATCHED BY SOURCE": ("update", "delete"),
}
_CONDITIONS: dict[ClauseKind, str] = {
    "MATCHED": "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
    "NOT MATCHED": "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION",
    "NOT MATCHED BY SOURCE": "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """What happens to some rows. Of the clauses of one kind the first counts whose condition holds.

    Attributes:
        kind: which rows: those of both sides, of the source alone, of the target alone.
        condition: which of those; None for all.
        assignments: values by column of the target, `s.a` for a field of a struct; SQL text or
            expressions. None for all columns, by the source's columns of the same names. Nothing
            for a delete.
    """

    kind: ClauseKind
    action: ClauseAction
    condition: Predicate | str | None = None
    assignments: Mapping[str, Expression | str] | None = None

    @property
    def takes_all_columns(self) -> bool:
        """`UPDATE SET *` or `INSERT *`."""
        return self.action != "delete" and self.assignments is None


def check_clauses(clauses: Sequence[MergeClause]) -> None:
    """Check that clauses can stand together.

    Raises:
        ArgumentError: there is none, an action that a kind doesn't have, all columns of a source
            that isn't there, no column that is set, or a clause behind one that takes all rows;
            names Delta's condition.
    """
    if not clauses:
        raise ArgumentError(
            "A merge without a WHEN clause does nothing (DELTA_MERGE_MISSING_WHEN).",
            argument="clauses",
        )
    for clause in clauses:
        if clause.action not in _ACTIONS[clause.kind]:
            raise ArgumentError(
                f"WHEN {clause.kind} THEN {clause.action.upper()} isn't a clause of MERGE.",
                argument="clauses",
            )
        if clause.action != "delete" and clause.assignments is not None and not clause.assignments:
            raise ArgumentError(
                f"WHEN {clause.kind} THEN {clause.action.upper()} sets no column.",
                argument="clauses",
            )
        if clause.kind == "NOT MATCHED BY SOURCE" and clause.takes_all_columns:
            raise ArgumentError(
                "WHEN NOT MATCHED BY SOURCE has no source row to take all columns from: say which "
                "columns are set.",
                argument="clauses",
            )
    for kind, condition in _CONDITIONS.items():
        of_kind = [clause for clause in clauses if clause.kind == kind]
        if any(clause.condition is None for clause in of_kind[:-1]):
            raise ArgumentError(
                f"Only the last WHEN {kind} clause may have no condition: no row gets to those "
                f"behind it ({condition}).",
                argument="clauses",
            )


Side: TypeAlias = Literal["target", "source"]
_ExpressionT = TypeVar("_ExpressionT", bound=Expression)

TARGET: Side = "target"
SOURCE: Side = "source"
BOTH: tuple[Side, ...] = (TARGET, SOURCE)


@dataclass(frozen=True, kw_only=True)
class JoinedNames:
    """The columns of both sides of a merge.

    Attributes:
        target, source: the columns, under their own names.
        target_alias, source_alias: what the merge's texts call the sides.

    Raises:
        ArgumentError: both sides have one alias.
    """

    target: StructType
    source: StructType
    target_alias: str = TARGET
    source_alias: str = SOURCE

    def __post_init__(self) -> None:
        if self.target_alias.lower() == self.source_alias.lower():
            raise ArgumentError(
                f"Target and source of a merge can't both be called {self.source_alias!r}.",
                argument="source_alias",
            )

    @cached_property
    def schema(self) -> StructType:
        """The columns of joined rows, all nullable where one side may be missing."""
        return StructType(tuple(self._joined()))

    def predicate(
        self, condition: Predicate | str, what: str, sides: tuple[Side, ...] = BOTH
    ) -> Predicate:
        """A condition over joined rows, resolved.

        Args:
            what: names the condition in errors, such as `ON condition`.
            sides: those whose columns it may name.

        Raises:
            PredicateError: it can't be understood, or names what isn't there or what both have.
        """
        parsed = parse_predicate(condition) if isinstance(condition, str) else condition
        return resolve(self._bound(parsed, what, sides), self.schema)

    def expression(
        self, expression: Expression | str, what: str, sides: tuple[Side, ...] = BOTH
    ) -> Expression:
        """`predicate` for any expression."""
        parsed = parse_expression(expression) if isinstance(expression, str) else expression
        return resolve_expression(self._bound(parsed, what, sides), self.schema)

    def _bound(self, expression: _ExpressionT, what: str, sides: tuple[Side, ...]) -> _ExpressionT:
        return with_paths(expression, lambda path: self._path(path, what, sides))

    def _path(self, path: tuple[str, ...], what: str, sides: tuple[Side, ...]) -> tuple[str, ...]:
        found = [
            (side, field, path[2:])
            for side in sides
            if len(path) > 1
            and path[0].lower() == self._alias(side).lower()
            and (field := self._columns(side).get(path[1])) is not None
        ]
        if not found:
            found = [
                (side, field, path[1:])
                for side in sides
                if (field := self._columns(side).get(path[0])) is not None
            ]
        text = ".".join(path)
        if not found:
            raise PredicateError(
                f"{text!r} in the {what} isn't a column of {self._shown(sides)} "
                "(DELTA_MERGE_UNRESOLVED_EXPRESSION).",
                expression=text,
            )
        if len(found) > 1:
            raise PredicateError(
                f"{text!r} in the {what} may be {self.target_alias}.{text} or "
                f"{self.source_alias}.{text}: say which (AMBIGUOUS_REFERENCE).",
                expression=text,
            )
        side, field, rest = found[0]
        return (f"{side}.{field.name}", *rest)

    def _columns(self, side: Side) -> StructType:
        return self.target if side == TARGET else self.source

    def _alias(self, side: Side) -> str:
        return self.target_alias if side == TARGET else self.source_alias

    def _joined(self) -> Iterator[StructField]:
        for side in BOTH:
            for field in self._columns(side):
                yield StructField(name=f"{side}.{field.name}", data_type=field.data_type)

    def _shown(self, sides: tuple[Side, ...]) -> str:
        shown = []
        for side in sides:
            names = self._columns(side).names
            listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
            shown.append(f"the {side} {self._alias(side)!r} ({listed})")
        return " or ".join(shown)


def sides_of(expression: Expression) -> frozenset[str]:
    """The sides whose columns a bound expression names."""
    return frozenset(path[0].partition(".")[0] for path in referenced_columns(expression))


def columns_of(expressions: Iterable[Expression], side: Side) -> frozenset[str]:
    """The top-level columns of one side, by their own names, that bound expressions name."""
    return frozenset(
        path[0].partition(".")[2]
        for expression in expressions
        for path in referenced_columns(expression)
        if path[0].startswith(f"{side}.")
    )
