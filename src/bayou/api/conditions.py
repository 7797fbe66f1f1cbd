"""Conditions on rows: SQL, predicates, and the filter tuples of pandas, pyarrow and deltalake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from bayou.api.argument_checks import check_encodable
from bayou.errors import ArgumentError
from bayou.kernel.expressions.model import (
    Column,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    col,
    conjunction,
    lit,
)

FilterTuple: TypeAlias = tuple[str, str, Any]
"""A column, an operator and a value: `("id", ">", 3)`. The operators are `=`, `!=`, `<`, `<=`, `>`,
`>=`, `in` and `not in`."""

Condition: TypeAlias = Predicate | str | Sequence[FilterTuple] | Sequence[list[FilterTuple]]
"""A condition on rows, in one of these forms:

- An SQL string, such as `"day = '2024-01-05' AND id > 3"`.
- A predicate, such as `col("id") > 3`.
- A list of filter tuples, such as `[("day", "=", "2024-01-05"), ("id", ">", 3)]`. A row must match
  all tuples.
- A list of lists of filter tuples. A row must match all tuples of at least one inner list.
"""


def checked_condition(condition: object, argument: str) -> Predicate | str | None:
    """Check a condition and return it, with filter tuples converted to a predicate.

    None and an empty list stand for no condition. The function returns None for both.
    """
    if isinstance(condition, str):
        check_encodable(condition, argument)
    if condition is None or isinstance(condition, str | Predicate):
        return condition
    if isinstance(condition, list | tuple):
        if not condition:
            return None
        if isinstance(condition[0], list):
            alternatives = tuple(_all_of(part, argument) for part in condition)
            return alternatives[0] if len(alternatives) == 1 else Or(alternatives)
        return _all_of(condition, argument)
    raise ArgumentError(
        f"{argument}: {condition!r} isn't a condition. Give an SQL string, a predicate such as "
        "col('id') > 3, or filter tuples such as [('id', '>', 3)].",
        argument=argument,
    )


def combine_with_and(
    one: Predicate | str | None, other: Predicate | str | None
) -> Predicate | str | None:
    """Combine two checked conditions with AND; None stands for no condition.

    Each SQL condition is parsed separately. A condition with unbalanced parentheses, such as
    `1=1) OR (1=1`, is therefore an error.
    """
    if one is None or other is None:
        return other if one is None else one
    from bayou.kernel.expressions.sql.parser import parse_predicate

    parsed = [parse_predicate(c) if isinstance(c, str) else c for c in (one, other)]
    return conjunction(parsed)


def _all_of(tuples: object, argument: str) -> Predicate:
    parts = tuples if isinstance(tuples, list | tuple) else (tuples,)
    predicate = conjunction([_comparison(part, argument) for part in parts])
    if predicate is None:
        raise ArgumentError(
            f"{argument}: the value has an empty list of filter tuples. Remove the list.",
            argument=argument,
        )
    return predicate


def _comparison(part: object, argument: str) -> Predicate:
    if not isinstance(part, list | tuple) or len(part) != 3 or not isinstance(part[0], str):
        raise ArgumentError(
            f"{argument}: {part!r} isn't a filter tuple. Give (column, operator, value), such as "
            "('id', '>', 3).",
            argument=argument,
        )
    name, operator, value = part
    compare = _OPERATORS.get(str(operator).lower())
    if compare is None:
        raise ArgumentError(
            f"{argument}: {operator!r} isn't an operator. Use one of {', '.join(_OPERATORS)}.",
            argument=argument,
        )
    try:
        return compare(col(name), value)
    except TypeError as error:
        raise ArgumentError(
            f"{argument}: {value!r} can't be compared with column {name!r}. Give a string, a "
            "number, a date or a datetime; for the operators 'in' and 'not in', give a list of "
            "them.",
            argument=argument,
        ) from error


def _equal(column: Column, value: object) -> Predicate:
    return IsNull(column) if value is None else column == value


def _is_in(column: Column, values: object) -> Predicate:
    if not isinstance(values, list | tuple | set | frozenset):
        raise TypeError("it isn't a list")
    literals = [lit(value) for value in values]
    return In(column, tuple(value for value in literals if isinstance(value, Literal)))


_OPERATORS: dict[str, Callable[[Column, Any], Predicate]] = {
    "=": _equal,
    "==": _equal,
    "!=": lambda column, value: Not(_equal(column, value)),
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "in": _is_in,
    "not in": lambda column, values: Not(_is_in(column, values)),
}
