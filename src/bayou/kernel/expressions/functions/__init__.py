"""The functions that expressions support.

Start reading at `registry`, which lists all of them. `definition` has the classes that define a
function.
"""

from bayou.kernel.expressions.functions.definition import Binding, Call, Function, Macro
from bayou.kernel.expressions.functions.registry import (
    all_functions,
    check_exact,
    find,
    inexact_function,
)

__all__ = [
    "Binding",
    "Call",
    "Function",
    "Macro",
    "all_functions",
    "check_exact",
    "find",
    "inexact_function",
]
