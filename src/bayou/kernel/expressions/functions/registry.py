"""The registry of functions by name."""

from __future__ import annotations

import difflib

from bayou.errors import PredicateError
from bayou.kernel.expressions.functions.arithmetic import FUNCTIONS as ARITHMETIC
from bayou.kernel.expressions.functions.bitwise import FUNCTIONS as BITS
from bayou.kernel.expressions.functions.collections import FUNCTIONS as COLLECTIONS
from bayou.kernel.expressions.functions.conditional import FUNCTIONS as CONDITIONS
from bayou.kernel.expressions.functions.datetime import FUNCTIONS as TIMES
from bayou.kernel.expressions.functions.definition import Function, Macro
from bayou.kernel.expressions.functions.hash import FUNCTIONS as HASHES
from bayou.kernel.expressions.functions.math import FUNCTIONS as EXPONENTIALS
from bayou.kernel.expressions.functions.string_building import FUNCTIONS as STRING_BUILDING
from bayou.kernel.expressions.functions.string_search import FUNCTIONS as STRING_SEARCH
from bayou.kernel.expressions.functions.strings import FUNCTIONS as STRINGS
from bayou.kernel.expressions.model import Expression, operands_of
from bayou.kernel.expressions.model import Function as FunctionCall

ALL: dict[str, tuple[Function | Macro, ...]] = {
    "Arithmetic": (*ARITHMETIC, *EXPONENTIALS),
    "Strings": (*STRINGS, *STRING_SEARCH, *STRING_BUILDING),
    "Bits, bytes and hashes": (*BITS, *HASHES),
    "Dates and timestamps": TIMES,
    "Conditions and casts": CONDITIONS,
    "Arrays, maps and structs": COLLECTIONS,
}
"""The functions by their section in the documentation."""

_BY_NAME: dict[str, Function | Macro] = {
    name: function
    for functions in ALL.values()
    for function in functions
    for name in (function.name, *function.aliases)
}


def find(name: str) -> Function | Macro:
    """Return the function with a name, ignoring case; raise a `PredicateError` if none has it."""
    function = _BY_NAME.get(name.lower())
    if function is None:
        close = difflib.get_close_matches(name.lower(), _BY_NAME, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise PredicateError(
            f"The function {name} isn't supported in expressions.{hint} The page "
            "Expressions of the documentation lists the supported functions.",
            expression=name,
        )
    return function


def inexact_function(expression: Expression) -> str | None:
    """Return the name of a function in the expression whose `Function.exact` is False, or None."""
    if isinstance(expression, FunctionCall):
        function = _BY_NAME.get(expression.name.lower())
        if isinstance(function, Function) and not function.exact:
            return expression.name
    names = map(inexact_function, operands_of(expression))
    return next((name for name in names if name is not None), None)


def check_exact(expression: Expression) -> None:
    """Reject inexact functions, which generated columns and constraints can't use."""
    name = inexact_function(expression)
    if name is not None:
        raise PredicateError(
            f"The results of {name} may differ from Spark's in the last place. Generated columns "
            "and constraints can only use functions with exact results.",
            expression=name,
        )
