"""All functions that expressions support, by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache

from bayou.errors import PredicateError
from bayou.kernel.expressions.functions.definition import Function, Macro
from bayou.kernel.expressions.model import Expression, operands_of
from bayou.kernel.expressions.model import Function as FunctionCall


@cache
def all_functions() -> Mapping[str, tuple[Function | Macro, ...]]:
    """Return all functions, grouped by the section of the documentation that lists them.

    The first call imports the modules of the functions. They aren't imported earlier, because reads
    without expressions don't need them.
    """
    from bayou.kernel.expressions.functions import (
        arithmetic,
        bitwise,
        collections,
        conditional,
        datetime,
        math,
        string_search,
        strings,
    )
    from bayou.kernel.expressions.functions import hash as hashes

    return {
        "Arithmetic": (*arithmetic.FUNCTIONS, *math.FUNCTIONS),
        "Strings": (*strings.FUNCTIONS, *string_search.FUNCTIONS),
        "Bits, bytes and hashes": (*bitwise.FUNCTIONS, *hashes.FUNCTIONS),
        "Dates and timestamps": datetime.FUNCTIONS,
        "Conditions and casts": conditional.FUNCTIONS,
        "Arrays, maps and structs": collections.FUNCTIONS,
    }


@cache
def _by_name() -> Mapping[str, Function | Macro]:
    return {
        name: function
        for functions in all_functions().values()
        for function in functions
        for name in (function.name, *function.aliases)
    }


def find(name: str) -> Function | Macro:
    """Look up a function by name, ignoring case; raise a `PredicateError` if there is none."""
    function = _by_name().get(name.lower())
    if function is None:
        close = difflib.get_close_matches(name.lower(), _by_name(), n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise PredicateError(
            f"The function {name} isn't supported in expressions.{hint} The page "
            "Expressions of the documentation lists the supported functions.",
            expression=name,
        )
    return function


def inexact_function(expression: Expression) -> str | None:
    """Return the name of a function in `expression` whose results may differ from Spark's.

    These are the functions with `Function.exact` False. None if all functions are exact.
    """
    if isinstance(expression, FunctionCall):
        function = _by_name().get(expression.name.lower())
        if isinstance(function, Function) and not function.exact:
            return expression.name
    names = map(inexact_function, operands_of(expression))
    return next((name for name in names if name is not None), None)


def check_exact(expression: Expression) -> None:
    """Raise a `PredicateError` if a function in `expression` has `exact` set to False.

    Generated columns and constraints can't use these functions.
    """
    name = inexact_function(expression)
    if name is not None:
        raise PredicateError(
            f"The results of {name} may differ from Spark's in the last digit. Generated columns "
            "and constraints can only use functions with exact results. Use another function.",
            expression=name,
        )
