"""The WHEN clauses of a merge, as its author gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from bayou.errors import ArgumentError
from bayou.kernel.expressions.model import Expression, Predicate

__all__ = ["ClauseAction", "ClauseKind", "MergeClause", "check_clauses"]

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
