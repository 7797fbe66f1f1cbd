"""What a function is: its name, its types, its nulls, its values over Arrow."""

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

__all__ = [
    "ANY",
    "NUMBER",
    "Binding",
    "Call",
    "Datum",
    "Function",
    "Macro",
    "constant_of",
    "parameters",
    "rowwise",
]

# A pyarrow array or scalar. pyarrow's own types don't take both where its functions do.
Datum: TypeAlias = Any

NUMBER = "number"
"""A parameter of any numeric type."""

ANY = "value"
"""A parameter of any type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function with its arguments, which are resolved, and their types."""

    name: str
    arguments: tuple[Expression, ...]
    types: tuple[DataType, ...]

    def refuse(self, reason: str) -> PredicateError:
        """The error for arguments that don't fit."""
        given = ", ".join(map(_type_name, self.types))
        return PredicateError(f"{self.name}({given}): {reason}.", expression=self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The types that arguments are cast to, and the type of the result."""

    arguments: tuple[DataType, ...]
    result: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of the closed list.

    Attributes:
        name: in lower case; for operators their sign.
        signature: as it stands in the documentation.
        summary: one sentence; where values come from Spark's rules it says which.
        bind: types for a call.
        evaluate: values out of the arguments' (of the types bound; constants are Arrow scalars,
            but at least one is an array) and the result's Arrow type. None where the evaluator
            itself does it, because not every argument is evaluated for every row.
        nulls: `exact`: NULL where an argument is NULL, nowhere else; `more`: elsewhere too; `own`:
            otherwise.
        directions: how the value moves with each argument, given the constants' values and None
            for the others: 1 never down as it goes up, -1 never up, 0 for a constant; None where
            it goes either way.
        constants: positions of arguments that must be constants.
    """

    name: str
    signature: str
    summary: str
    bind: Callable[[Call], Binding]
    evaluate: Callable[[Sequence[Datum], Any], Datum] | None
    nulls: str = "exact"
    directions: Callable[[Sequence[Any], Sequence[DataType]], Sequence[int] | None] | None = None
    constants: tuple[int, ...] = ()
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro:
    """A function that stands for another expression."""

    name: str
    signature: str
    summary: str
    count: tuple[int, int]
    expand: Callable[..., Expression]
    aliases: tuple[str, ...] = ()


def parameters(
    *wanted: DataType | str, result: DataType, optional: int = 0
) -> Callable[[Call], Binding]:
    """Types for a function with fixed parameters, the last `optional` of which may be left out."""

    def bind(call: Call) -> Binding:
        least = len(wanted) - optional
        if not least <= len(call.types) <= len(wanted):
            count = str(least) if not optional else f"{least} to {len(wanted)}"
            raise call.refuse(f"it takes {count} argument{'' if count == '1' else 's'}")
        pairs = zip(call.types, wanted, strict=False)
        return Binding(
            arguments=tuple(argument(call, given, want) for given, want in pairs), result=result
        )

    return bind


def argument(call: Call, given: DataType, wanted: DataType | str) -> DataType:
    """The type that an argument is cast to by itself, as Spark does for functions."""
    if wanted in (ANY, given):
        return given
    if wanted == NUMBER:
        if given in (VOID, STRING):
            return DOUBLE
        if is_numeric(given):
            return given
    elif given == VOID:
        assert not isinstance(wanted, str)
        return wanted
    elif not isinstance(wanted, str) and _goes(given, wanted):
        return wanted
    raise call.refuse(f"a {_type_name(given)} isn't a {_type_name(wanted)}")


def constant_of(call: Call, index: int) -> Any:
    """The value of an argument that must be a constant.

    Raises:
        PredicateError: it isn't one.
    """
    found = call.arguments[index]
    if not isinstance(found, Literal):
        raise call.refuse(f"argument {index + 1} must be a constant")
    return found.value


def rowwise(function: Callable[..., Any], arrow_type: Any, *values: Datum) -> Datum:
    """A Python function row by row, for what no Arrow kernel does; null where a value is null."""
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


def _goes(given: DataType, wanted: DataType) -> bool:
    if wanted == STRING:
        return kind_of(given) is not None
    if wanted in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return given in _TIMES
    if wanted in (INTEGER, LONG):
        widening = is_integral(given) and not (given == LONG and wanted == INTEGER)
        return widening or given == STRING
    return wanted == DOUBLE and (is_numeric(given) or given == STRING)


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
