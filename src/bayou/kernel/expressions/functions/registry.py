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

__all__ = ["ALL", "find"]

ALL: dict[str, tuple[Function | Macro, ...]] = {
    "Arithmetic": (*ARITHMETIC, *EXPONENTIALS),
    "Strings": (*STRINGS, *STRING_SEARCH, *STRING_BUILDING),
    "Bits, bytes and hashes": (*BITS, *HASHES),
    "Dates and timestamps": TIMES,
    "Conditions and casts": CONDITIONS,
    "Arrays, maps and structs": COLLECTIONS,
}
"""The functions, by the headings of the documentation."""

_BY_NAME: dict[str, Function | Macro] = {
    name: function
    for functions in ALL.values()
    for function in functions
    for name in (function.name, *function.aliases)
}


def find(name: str) -> Function | Macro:
    """The function with a name; names are case-insensitive.

    Raises:
        PredicateError: the function isn't supported.
    """
    function = _BY_NAME.get(name.lower())
    if function is None:
        close = difflib.get_close_matches(name.lower(), _BY_NAME, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise PredicateError(
            f"The function {name} isn't supported in expressions.{hint} See "
            "docs/reference/expressions.md for the supported functions.",
            expression=name,
        )
    return function
