"""Ranges of functions and casts, computed from the ranges of their operands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa

from bayou.errors import EvaluationError
from bayou.kernel.arrow.arrays import to_scalar
from bayou.kernel.arrow.compute import Datum, pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.evaluation import Evaluator
from bayou.kernel.expressions.functions import Macro, find
from bayou.kernel.expressions.model import Cast, Column, Expression, Function, Literal
from bayou.kernel.expressions.resolution import resolve_expression
from bayou.kernel.expressions.types import kind_of
from bayou.kernel.scan.data_skipping.column_ranges import Range, constant
from bayou.kernel.scan.data_skipping.stored_bounds import cast_bounds
from bayou.protocol.schema import (
    DATE,
    LONG,
    STRING,
    TIMESTAMP,
    DataType,
    StructField,
    StructType,
)


def function_range(
    expression: Function | Cast,
    data_type: DataType,
    operands: Sequence[Range],
    constants: Sequence[Any],
) -> Range:
    """Return the range of a function or cast.

    Args:
        data_type: type of the function's results.
        operands: ranges of the operands.
        constants: value of each operand; None for an operand that isn't a constant.
    """
    if isinstance(expression, Function) and expression.name in ("case", "coalesce"):
        return _either_range(expression.name, data_type, operands)
    signs = directions(expression, constants, [o.data_type for o in operands])
    return _FunctionRange(expression, data_type, operands, signs)


def directions(
    expression: Function | Cast, constants: Sequence[Any], types: Sequence[DataType]
) -> Sequence[int] | None:
    """Return how the result of a function or cast changes when one of its operands increases.

    The returned sequence has a number for each operand:

    - 1: the result of the function never decreases.
    - -1: the result of the function never increases.
    - 0: the operand is a constant.

    If an operand belongs to none of these cases, None is returned instead of a sequence.

    Args:
        constants: value of each operand; None for an operand that isn't a constant.
        types: types of the operands.
    """
    if isinstance(expression, Cast):
        ordered = (kind_of(types[0]), kind_of(expression.data_type)) in _ORDERED_CASTS
        return (1,) if ordered else None
    definition = find(expression.name)
    if isinstance(definition, Macro) or definition.monotonicity is None:
        return None
    return definition.monotonicity(constants, types)


def null_behavior(expression: Function | Cast) -> str:
    """Return how the NULLs of the operands determine the NULLs of the expression.

    - `exact`: the expression is NULL if and only if an operand is NULL.
    - `more`: the expression is NULL if an operand is NULL. It can also be NULL without a NULL
      operand.
    - `own`: neither of these rules applies.
    """
    if isinstance(expression, Cast):
        return "more" if expression.safe else "exact"
    definition = find(expression.name)
    return "own" if isinstance(definition, Macro) else definition.null_handling


def is_formatted_time(expression: Expression, operand: DataType) -> bool:
    """Whether the expression formats a date or timestamp as a string.

    These strings have the order of the dates or timestamps only if all years have four digits.
    """
    time = kind_of(operand) in ("date", "timestamp", "timestamp_ntz")
    if isinstance(expression, Cast):
        return time and expression.data_type == STRING
    return isinstance(expression, Function) and expression.name == "date_format"


def evaluate_leniently(
    evaluation: Evaluator, batch: pa.RecordBatch, arrow_type: Any
) -> tuple[Any, Any]:
    """Evaluate an expression for each row; the result is null for rows with an error.

    Returns:
        The values, and a mask of the rows without an error.
    """
    try:
        values = evaluation.values(batch)
        return pc.cast(values, arrow_type), pa.repeat(to_scalar(True, pa.bool_()), batch.num_rows)
    except EvaluationError:
        if batch.num_rows <= 1:
            return pa.nulls(batch.num_rows, arrow_type), pa.repeat(
                to_scalar(False, pa.bool_()), batch.num_rows
            )
    half = batch.num_rows // 2
    first = evaluate_leniently(evaluation, batch.slice(0, half), arrow_type)
    second = evaluate_leniently(evaluation, batch.slice(half), arrow_type)
    return pa.concat_arrays([first[0], second[0]]), pa.concat_arrays([first[1], second[1]])


class _FunctionRange(Range):
    def __init__(
        self,
        expression: Function | Cast,
        data_type: DataType,
        operands: Sequence[Range],
        signs: Sequence[int] | None,
    ) -> None:
        super().__init__(data_type)
        self._expression = expression
        self._operands = operands
        self._signs = signs
        self._nulls = null_behavior(expression)

    def lower(self, arrow_type: pa.DataType) -> Datum:
        return self._bound(arrow_type, upper=False)

    def upper(self, arrow_type: pa.DataType) -> Datum:
        return self._bound(arrow_type, upper=True)

    def may_be_null(self) -> Datum:
        if self._nulls != "exact":
            return constant(True)
        return reduce(pc.or_, [o.may_be_null() for o in self._operands], constant(False))

    def may_have_value(self) -> Datum:
        if self._nulls == "own":
            return constant(True)
        return reduce(pc.and_, [o.may_have_value() for o in self._operands], constant(True))

    def _bound(self, arrow_type: pa.DataType, *, upper: bool) -> Datum:
        unknown = to_scalar(None, arrow_type)
        if self._signs is None:
            return unknown
        bounds: list[tuple[DataType, Datum]] = []
        for sign, operand in zip(self._signs, self._operands, strict=True):
            if sign == 0:
                continue
            kind = _bound_type(operand.data_type)
            if kind is None:
                return unknown
            highest = upper if sign > 0 else not upper
            bound = operand.upper if highest else operand.lower
            bounds.append((operand.data_type, bound(kind)))
        values = self._apply(bounds)
        if values is None:
            return unknown
        if is_formatted_time(self._expression, bounds[0][0]):
            values = _in_four_digit_years(values, self._operands, self._signs)
        return cast_bounds(values, arrow_type)

    def _apply(self, bounds: Sequence[tuple[DataType, Datum]]) -> Datum | None:
        """Evaluate the function on bounds of its operands.

        Args:
            bounds: type and bound (lower or upper) of each operand that isn't a constant.

        Returns:
            The results, one per file. None if all bounds are scalars and one of them is null.
        """
        lengths = [len(b) for _, b in bounds if not isinstance(b, pa.Scalar)]
        if not lengths and not all(b.is_valid for _, b in bounds):
            return None
        length = lengths[0] if lengths else 1
        arrays = [_as_array(b, length) for _, b in bounds]
        names = [f"bound{i}" for i in range(len(bounds))]
        batch = pa.RecordBatch.from_arrays(arrays, names=names)
        schema = StructType(
            tuple(
                StructField(name=name, data_type=LONG if kind_of(kind) == "integer" else kind)
                for name, (kind, _) in zip(names, bounds, strict=True)
            )
        )
        # A bound that can't be cast to the operand's type becomes NULL.
        columns = iter(
            [
                Cast(Column((name,)), kind, True)
                for name, (kind, _) in zip(names, bounds, strict=True)
            ]
        )
        expression = resolve_expression(self._with_operands(columns), schema)
        values, _ = evaluate_leniently(
            Evaluator(schema, expression), batch, to_arrow_type(self.data_type)
        )
        missing = reduce(pc.or_, [pc.is_null(a) for a in arrays])
        values = pc.if_else(missing, to_scalar(None, values.type), values)
        return values if lengths else values[0]

    def _with_operands(self, columns: Any) -> Expression:
        match self._expression:
            case Cast(_, data_type, safe):
                return Cast(next(columns), data_type, safe)
            case Function(name, arguments):
                assert self._signs is not None  # checked by _bound
                replaced = tuple(
                    next(columns) if sign else argument
                    for sign, argument in zip(self._signs, arguments, strict=True)
                )
                return Function(name, replaced)


class _EitherRange(Range):
    """The range of CASE or COALESCE, which return the value of one of their operands."""

    def __init__(self, name: str, data_type: DataType, values: Sequence[Range]) -> None:
        super().__init__(data_type)
        self._name = name
        self._values = values

    def lower(self, arrow_type: pa.DataType) -> Datum:
        if not _has_extremes(arrow_type):
            return to_scalar(None, arrow_type)
        return self._extreme(pc.min_element_wise, arrow_type, [v.lower for v in self._values])

    def upper(self, arrow_type: pa.DataType) -> Datum:
        if not _has_extremes(arrow_type):
            return to_scalar(None, arrow_type)
        return self._extreme(pc.max_element_wise, arrow_type, [v.upper for v in self._values])

    def _extreme(self, kernel: Any, arrow_type: Any, getters: Sequence[Any]) -> Datum:
        bounds = [bound(arrow_type) for bound in getters]
        if pa.types.is_timestamp(arrow_type):  # Arrow has no kernel for timestamps with a zone
            bounds = [pc.cast(bound, pa.timestamp("us")) for bound in bounds]
        return pc.cast(kernel(*bounds, skip_nulls=False), arrow_type)

    def may_be_null(self) -> Datum:
        combine = pc.and_ if self._name == "coalesce" else pc.or_
        return reduce(combine, [value.may_be_null() for value in self._values])

    def may_have_value(self) -> Datum:
        return reduce(pc.or_, [value.may_have_value() for value in self._values])


def _has_extremes(arrow_type: pa.DataType) -> bool:
    """Whether Arrow's functions for minimum and maximum can be used for a type.

    They don't support booleans, and they ignore NaN in floats.
    """
    return not pa.types.is_floating(arrow_type) and not pa.types.is_boolean(arrow_type)


class _NullRange(Range):
    def may_have_value(self) -> Datum:
        return constant(False)


def _either_range(name: str, data_type: DataType, operands: Sequence[Range]) -> Range:
    if name == "coalesce":
        return _EitherRange(name, data_type, operands)
    values = list(operands[1::2])
    values.append(operands[-1] if len(operands) % 2 else _NullRange(data_type))
    return _EitherRange(name, data_type, values)


def _as_array(value: Any, length: int) -> Any:
    if not isinstance(value, pa.Scalar):
        return value
    scalar: Any = value
    return pa.repeat(scalar, length)


def _bound_type(data_type: DataType) -> pa.DataType | None:
    match kind_of(data_type):
        case "integer":
            return pa.int64()
        case None | "boolean" | "binary" | "void":
            return None
        case _:
            return to_arrow_type(data_type)


def _in_four_digit_years(values: Datum, operands: Sequence[Range], signs: Sequence[int]) -> Datum:
    operand = next(o for o, sign in zip(operands, signs, strict=True) if sign)
    arrow_type: Any = to_arrow_type(operand.data_type)
    first: dt.date = dt.date(1, 1, 1)
    last: dt.date = dt.date(9999, 12, 31)
    if operand.data_type != DATE:
        zone = dt.UTC if operand.data_type == TIMESTAMP else None
        first = dt.datetime(1, 1, 1, tzinfo=zone)
        last = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=zone)
    fits = pc.and_kleene(
        pc.greater_equal(operand.lower(arrow_type), to_scalar(first, arrow_type)),
        pc.less_equal(operand.upper(arrow_type), to_scalar(last, arrow_type)),
    )
    return pc.if_else(fits, values, to_scalar(None, values.type))


def constant_value(expression: Expression) -> Any:
    """Return the value of a literal; None for any other expression."""
    return expression.value if isinstance(expression, Literal) else None


_NUMBERS = ("integer", "decimal", "float")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_ORDERED_CASTS = frozenset(
    [(source, target) for source in _NUMBERS for target in _NUMBERS]
    + [(source, target) for source in _TIMES for target in _TIMES]
    + [(source, "string") for source in _TIMES]
    + [("timestamp", target) for target in _NUMBERS]
    + [(source, "timestamp") for source in _NUMBERS]
    + [("string", "string")]
)
