"""Classes that define a function: its name, types, null handling and evaluation over Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.errors import PredicateError
from bayou.kernel.expressions.model import Expression, Literal
from bayou.kernel.expressions.types import is_integral, is_numeric, kind_of
from bayou.protocol.schema import (
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructType,
)

# A pyarrow array or scalar. pyarrow's functions accept both, but their type hints don't.
Datum: TypeAlias = Any

NUMBER = "number"
"""The type of a parameter that accepts any numeric type."""

ANY = "value"
"""The type of a parameter that accepts any type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function call with resolved arguments and their types."""

    name: str
    arguments: tuple[Expression, ...]
    types: tuple[DataType, ...]

    def error(self, reason: str) -> PredicateError:
        """Return the error for invalid arguments."""
        types = ", ".join(map(_type_name, self.types))
        return PredicateError(f"{self.name}({types}): {reason}.", expression=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The types to which the arguments of a call are cast, and the type of its result."""

    arguments: tuple[DataType, ...]
    result: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A supported function.

    Attributes:
        signature, summary: text for the documentation.
        bind: function that returns the `Binding` of a call, or raises an error if the arguments
            are invalid.
        evaluate: function that computes the result. Its first parameter is the list of arguments,
            cast to the types of the binding. Constants are scalars, and at least one argument is an
            array. Its second parameter is the Arrow type of the result. If `evaluate` is None,
            `Evaluator` implements the function. An example is CASE, which doesn't evaluate all
            arguments for all rows.
        null_handling: one of three rules. `exact`: the result is NULL if and only if an argument is
            NULL. `more`: the result is NULL if an argument is NULL, and can also be NULL if no
            argument is NULL. `own`: the function has other rules.
        monotonicity: function that data skipping uses to compute bounds of the result from bounds
            of the arguments. It has two parameters: the values of the arguments (None for an
            argument that isn't a constant) and the types of the arguments. It returns a number for
            each argument: 1 if the result never decreases as the argument grows, -1 if the result
            never increases, 0 if the argument is a constant. It returns None if the result isn't
            monotonic.
        constants: indexes of the arguments that must be constants.
        exact: whether every result equals Spark's result, including the last digit.
    """

    name: str
    signature: str
    summary: str
    bind: Callable[[Call], Binding]
    evaluate: Callable[[Sequence[Datum], Any], Datum] | None
    null_handling: str = "exact"
    monotonicity: Callable[[Sequence[Any], Sequence[DataType]], Sequence[int] | None] | None = None
    constants: tuple[int, ...] = ()
    aliases: tuple[str, ...] = ()
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro:
    """A function that is expanded to another expression.

    Attributes:
        count: minimum and maximum number of arguments.
        expand: function that returns the other expression, from the arguments of the call.
    """

    name: str
    signature: str
    summary: str
    count: tuple[int, int]
    expand: Callable[..., Expression]
    aliases: tuple[str, ...] = ()


def fixed_parameters(
    *types: DataType | str, result: DataType, optional: int = 0
) -> Callable[[Call], Binding]:
    """Return a function that determines the types of a call with fixed parameter types.

    Args:
        types: types of the parameters. Spark implicitly casts the arguments to these types.
        optional: number of parameters at the end that may be omitted.
    """

    def bind(call: Call) -> Binding:
        minimum = len(types) - optional
        if not minimum <= len(call.types) <= len(types):
            count = str(minimum) if not optional else f"{minimum} to {len(types)}"
            raise call.error(f"the function takes {count} argument{'' if count == '1' else 's'}")
        pairs = zip(call.types, types, strict=False)
        return Binding(
            arguments=tuple(argument_type(call, actual, expected) for actual, expected in pairs),
            result=result,
        )

    return bind


def argument_type(call: Call, actual: DataType, expected: DataType | str) -> DataType:
    """Return the type to which Spark implicitly casts an argument.

    Args:
        actual: type of the argument.
        expected: type of the parameter.
    """
    if expected in (ANY, actual):
        return actual
    if expected == NUMBER:
        if actual in (VOID, STRING):
            return DOUBLE
        if is_numeric(actual):
            return actual
    elif actual == VOID:
        assert not isinstance(expected, str)
        return expected
    elif not isinstance(expected, str) and _is_implicit_cast(actual, expected):
        return expected
    raise call.error(f"type {_type_name(actual)} can't be used as {_type_name(expected)}")


def constant_of(call: Call, index: int) -> Any:
    """Return the value of an argument, which must be a constant."""
    literal = call.arguments[index]
    if not isinstance(literal, Literal):
        raise call.error(f"argument {index + 1} must be a constant")
    return literal.value


def rowwise(function: Callable[..., Any], arrow_type: Any, *values: Datum) -> Datum:
    """Apply a Python function to each row; if one of the values is null, the result is null."""
    length = next(len(v) for v in values if not isinstance(v, pa.Scalar))
    columns = [[v.as_py()] * length if isinstance(v, pa.Scalar) else v.to_pylist() for v in values]
    return pa.array(
        [
            None if any(v is None for v in row) else function(*row)
            for row in zip(*columns, strict=True)
        ],
        arrow_type,
    )


_TIMES: tuple[DataType, ...] = (DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING)


def _is_implicit_cast(source: DataType, target: DataType) -> bool:
    if target == STRING:
        return kind_of(source) is not None
    if target in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return source in _TIMES
    if target in (INTEGER, LONG):
        widening = is_integral(source) and not (source == LONG and target == INTEGER)
        return widening or source == STRING
    return target == DOUBLE and (is_numeric(source) or source == STRING)


def _type_name(data_type: DataType | str) -> str:
    match data_type:
        case StructType():
            return "struct"
        case ArrayType():
            return "array"
        case MapType():
            return "map"
        case _:
            return str(data_type)
