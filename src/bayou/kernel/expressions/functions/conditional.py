"""CASE and related functions, and functions that cast a value or test it for NULL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.compute import pc
from bayou.kernel.expressions.functions.definition import (
    Binding,
    Call,
    Datum,
    Function,
    Macro,
)
from bayou.kernel.expressions.model import (
    Cast,
    Comparison,
    Expression,
    IsNull,
    Literal,
    Not,
    call,
)
from bayou.kernel.expressions.types import common_type
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    DataType,
    DecimalType,
)


def _common_type_of(call: Call, types: Sequence[DataType]) -> DataType:
    result = common_type(types)
    if result is None:
        raise call.error("the values have no common type; cast them")
    return result


def _case_types(call: Call) -> Binding:
    if len(call.types) < 2:
        raise call.error("the function takes a condition and a value")
    for index in range(0, len(call.types) - 1, 2):
        if call.types[index] not in (BOOLEAN, VOID):
            raise call.error(f"argument {index + 1} must be a boolean condition")
    values = [*call.types[1::2], *(call.types[-1:] if len(call.types) % 2 else ())]
    result = _common_type_of(call, values)
    arguments = [BOOLEAN if i % 2 == 0 else result for i in range(len(call.types))]
    if len(call.types) % 2:
        arguments[-1] = result
    return Binding(arguments=tuple(arguments), result=result)


def _same_types(min_count: int) -> Callable[[Call], Binding]:
    def bind(call: Call) -> Binding:
        if len(call.types) < min_count:
            plural = "s" if min_count > 1 else ""
            raise call.error(f"the function takes {min_count} argument{plural} or more")
        result = _common_type_of(call, call.types)
        return Binding(arguments=(result,) * len(call.types), result=result)

    return bind


def _extreme(kernel: Any, *, greatest: bool) -> Any:
    def evaluate(values: Sequence[Datum], result: Any) -> Datum:
        if pa.types.is_timestamp(result) and result.tz is not None:
            # Arrow has no kernel for timestamps with a time zone.
            local = [pc.cast(value, pa.timestamp("us")) for value in values]
            return pc.cast(kernel(*local), result)
        if pa.types.is_boolean(result):
            return pc.cast(kernel(*(pc.cast(value, pa.int8()) for value in values)), result)
        if not pa.types.is_floating(result):
            return kernel(*values)
        # NaN is the maximum.
        best = values[0]
        for value in values[1:]:
            nan = pc.is_nan(value), pc.is_nan(best)
            is_better = (
                pc.or_kleene(nan[0], pc.greater(value, best))
                if greatest
                else pc.or_kleene(nan[1], pc.less(value, best))
            )
            better = pc.if_else(pc.fill_null(is_better, False), value, best)
            best = pc.coalesce(pc.if_else(pc.is_null(best), value, better), best, value)
        return best

    return evaluate


def _if(condition: Expression, then: Expression, otherwise: Expression) -> Expression:
    return call("case", condition, then, otherwise)


def _null_if(value: Expression, other: Expression) -> Expression:
    return call("case", Comparison("=", value, other), Literal(None), value)


def _value_unless_null(tested: Expression, value: Expression, other: Expression) -> Expression:
    return call("case", Not(IsNull(tested)), value, other)


def _cast_function(name: str, data_type: DataType, *aliases: str) -> Macro:
    return Macro(
        name=name,
        signature=f"{name}(a)",
        summary=f"Equivalent to CAST(a AS {name.upper()}).",
        count=(1, 1),
        expand=lambda value: Cast(value, data_type),
        aliases=aliases,
    )


FUNCTIONS: tuple[Function | Macro, ...] = (
    Function(
        name="case",
        signature="CASE WHEN c THEN a ... [ELSE b] END, CASE x WHEN v THEN a ... END",
        summary="The value of the first condition that is TRUE; other values aren't evaluated.",
        bind=_case_types,
        evaluate=None,
        null_handling="own",
    ),
    Function(
        name="coalesce",
        signature="coalesce(a, ...), ifnull(a, b), nvl(a, b)",
        summary="The first value that isn't NULL.",
        bind=_same_types(1),
        evaluate=None,
        null_handling="own",
        aliases=("ifnull", "nvl"),
    ),
    Macro(
        name="if",
        signature="if(c, a, b), iff",
        summary="`a` if the condition is TRUE, else `b`.",
        count=(3, 3),
        expand=_if,
        aliases=("iff",),
    ),
    Macro(
        name="nullif",
        signature="nullif(a, b)",
        summary="NULL if `a = b`, else `a`.",
        count=(2, 2),
        expand=_null_if,
    ),
    Macro(
        name="nvl2",
        signature="nvl2(a, b, c)",
        summary="`b` if `a` isn't NULL, else `c`.",
        count=(3, 3),
        expand=_value_unless_null,
    ),
    Function(
        name="greatest",
        signature="greatest(a, b, ...)",
        summary="The maximum of the values that aren't NULL.",
        bind=_same_types(2),
        evaluate=_extreme(pc.max_element_wise, greatest=True),
        null_handling="own",
    ),
    Function(
        name="least",
        signature="least(a, b, ...)",
        summary="The minimum of the values that aren't NULL.",
        bind=_same_types(2),
        evaluate=_extreme(pc.min_element_wise, greatest=False),
        null_handling="own",
    ),
    Macro(
        name="isnull",
        signature="isnull(a)",
        summary="Equivalent to a IS NULL.",
        count=(1, 1),
        expand=IsNull,
    ),
    Macro(
        name="isnotnull",
        signature="isnotnull(a)",
        summary="Equivalent to a IS NOT NULL.",
        count=(1, 1),
        expand=lambda value: Not(IsNull(value)),
    ),
    _cast_function("boolean", BOOLEAN),
    _cast_function("tinyint", BYTE),
    _cast_function("smallint", SHORT),
    _cast_function("int", INTEGER),
    _cast_function("bigint", LONG),
    _cast_function("float", FLOAT),
    _cast_function("double", DOUBLE),
    _cast_function("decimal", DecimalType(10, 0)),
    _cast_function("string", STRING),
    _cast_function("binary", BINARY),
    _cast_function("date", DATE),
    _cast_function("timestamp", TIMESTAMP),
    _cast_function("timestamp_ntz", TIMESTAMP_NTZ),
)
