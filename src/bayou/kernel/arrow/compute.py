"""`pyarrow.compute`, imported on first use, because its import takes 30 ms.

The object `pc` has the type `Any`, because pyarrow's type stubs are incomplete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_scalar
from bayou.lazy_import import LazyModule

Datum: TypeAlias = Any
"""An array or a scalar. pyarrow's functions accept both, but their stubs declare only one."""

_FUNCTIONS_OF_VALUES = frozenset(
    {
        "add",
        "and_",
        "and_kleene",
        "and_not",
        "binary_join_element_wise",
        "bit_wise_and",
        "bit_wise_or",
        "coalesce",
        "divide",
        "equal",
        "greater",
        "greater_equal",
        "if_else",
        "less",
        "less_equal",
        "multiply",
        "not_equal",
        "or_",
        "or_kleene",
        "subtract",
    }
)
"""Functions of `pyarrow.compute` whose positional arguments are all values, not options."""

_INT64 = range(-(1 << 63), 1 << 63)


class _Compute(LazyModule):
    """`pyarrow.compute`, with functions that accept Python values without importing pandas.

    pyarrow's own conversion of a Python value to a scalar imports pandas.
    """

    def __init__(self) -> None:
        super().__init__("pyarrow.compute")

    def __getattr__(self, name: str) -> Any:
        function = super().__getattr__(name)
        if name in _FUNCTIONS_OF_VALUES:
            function = _with_scalars(function)
        elif name == "fill_null":
            function = _fill_null(function)
        setattr(self, name, function)
        return function


def _with_scalars(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any, **options: Any) -> Any:
        return function(*map(_scalar, values), **options)

    return call


def _fill_null(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(values: Any, fill_value: Any) -> Any:
        if isinstance(fill_value, bool | int | float | str):
            fill_value = to_scalar(fill_value, values.type)
        return function(values, fill_value)

    return call


def _scalar(value: Any) -> Any:
    match value:
        case bool():
            return to_scalar(value, pa.bool_())
        case int() if value in _INT64:
            return to_scalar(value, pa.int64())
        case float():
            return to_scalar(value, pa.float64())
        case str():
            return to_scalar(value, pa.string())
    return value


pc: Any = _Compute()
