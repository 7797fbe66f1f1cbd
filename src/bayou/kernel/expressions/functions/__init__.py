"""The closed list of functions that expressions may use."""

from bayou.kernel.expressions.functions.definition import Binding, Call, Function, Macro
from bayou.kernel.expressions.functions.registry import ALL, find

__all__ = ["ALL", "Binding", "Call", "Function", "Macro", "find"]
