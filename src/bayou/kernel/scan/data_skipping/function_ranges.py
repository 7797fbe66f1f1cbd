"""What is known of the values of functions and casts in each file, from that of their operands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.errors import EvaluationError
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.evaluation import Evaluation
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

__all__ = ["directions", "function_range", "is_ordered_text", "nulls_of", "tolerant"]

# A pyarrow array of one value a file, or a scalar for all. pyarrow's own types don't take both
# where its functions do.
Datum: TypeAlias = Any
pc: Any = pyarrow.compute


def function_range(
    expression: Function | Cast,
    data_type: DataType,
    operands: Sequence[Range],
    constants: Sequence[Any],
) -> Range:
    """What is known of a function's or cast's values.

    Args:
        data_type: its type.
        operands: what is known of its arguments.
        constants: their values where they are constants, else None.
    """
    if isinstance(expression, Function) and expression.name in ("case", "coalesce"):
        return _one_of(expression.name, data_type, operands)
    moves = directions(expression, constants, [o.data_type for o in operands])
    return _FunctionRange(expression, data_type, operands, moves)


def directions(
    expression: Function | Cast, constants: Sequence[Any], types: Sequence[DataType]
) -> Sequence[int] | None:
    """How values move with each operand; see `Function.directions`."""
    if isinstance(expression, Cast):
        ordered = (kind_of(types[0]), kind_of(expression.data_type)) in _ORDERED_CASTS
        return (1,) if ordered else None
    definition = find(expression.name)
    if isinstance(definition, Macro) or definition.directions is None:
        return None
    return definition.directions(constants, types)


def nulls_of(expression: Function | Cast) -> str:
    """Where values are NULL; see `Function.nulls`."""
    if isinstance(expression, Cast):
        return "more" if expression.safe else "exact"
    definition = find(expression.name)
    return "own" if isinstance(definition, Macro) else definition.nulls


def is_ordered_text(expression: Expression, operand: DataType) -> bool:
    """Whether it writes a time as a text, whose order is that of the times in four-digit years."""
    time = kind_of(operand) in ("date", "timestamp", "timestamp_ntz")
    if isinstance(expression, Cast):
        return time and expression.data_type == STRING
    return isinstance(expression, Function) and expression.name == "date_format"


def tolerant(evaluation: Evaluation, batch: pa.RecordBatch, arrow_type: Any) -> tuple[Any, Any]:
    """Values of an expression, and whether each is known: false where its row fails."""
    try:
        values = evaluation.values(batch)
        return pc.cast(values, arrow_type), pa.repeat(True, batch.num_rows)
    except EvaluationError:
        if batch.num_rows <= 1:
            return pa.nulls(batch.num_rows, arrow_type), pa.repeat(False, batch.num_rows)
    half = batch.num_rows // 2
    one = tolerant(evaluation, batch.slice(0, half), arrow_type)
    other = tolerant(evaluation, batch.slice(half), arrow_type)
    return pa.concat_arrays([one[0], other[0]]), pa.concat_arrays([one[1], other[1]])


class _FunctionRange(Range):
    def __init__(
        self,
        expression: Function | Cast,
        data_type: DataType,
        operands: Sequence[Range],
        moves: Sequence[int] | None,
    ) -> None:
        super().__init__(data_type)
        self._expression = expression
        self._operands = operands
        self._moves = moves
        self._nulls = nulls_of(expression)

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
        unknown = pa.scalar(None, arrow_type)
        if self._moves is None:
            return unknown
        bounds: list[tuple[DataType, Datum]] = []
        for move, operand in zip(self._moves, self._operands, strict=True):
            if move == 0:
                continue
            kind = _bound_type(operand.data_type)
            if kind is None:
                return unknown
            highest = upper if move > 0 else not upper
            ask = operand.upper if highest else operand.lower
            bounds.append((operand.data_type, ask(kind)))
        values = self._applied(bounds)
        if values is None:
            return unknown
        if is_ordered_text(self._expression, bounds[0][0]):
            values = _in_four_digit_years(values, self._operands, self._moves)
        return cast_bounds(values, arrow_type)

    def _applied(self, bounds: Sequence[tuple[DataType, Datum]]) -> Datum | None:
        """The function of bounds; null where it can't be told."""
        lengths = [len(b) for _, b in bounds if not isinstance(b, pa.Scalar)]
        if not lengths and not all(b.is_valid for _, b in bounds):
            return None
        length = lengths[0] if lengths else 1
        arrays = [_repeated(b, length) for _, b in bounds]
        names = [f"bound{i}" for i in range(len(bounds))]
        batch = pa.RecordBatch.from_arrays(arrays, names=names)
        schema = StructType(
            tuple(
                StructField(name=name, data_type=LONG if kind_of(kind) == "integer" else kind)
                for name, (kind, _) in zip(names, bounds, strict=True)
            )
        )
        # A bound that isn't of the column's type is none.
        columns = iter(
            [
                Cast(Column((name,)), kind, True)
                for name, (kind, _) in zip(names, bounds, strict=True)
            ]
        )
        expression = resolve_expression(self._of(columns), schema)
        values, _ = tolerant(Evaluation(schema, expression), batch, to_arrow_type(self.data_type))
        missing = reduce(pc.or_, [pc.is_null(a) for a in arrays])
        values = pc.if_else(missing, pa.scalar(None, values.type), values)
        return values if lengths else values[0]

    def _of(self, columns: Any) -> Expression:
        match self._expression:
            case Cast(_, data_type, safe):
                return Cast(next(columns), data_type, safe)
            case Function(name, arguments):
                assert self._moves is not None  # _bound looked
                replaced = tuple(
                    next(columns) if move else argument
                    for move, argument in zip(self._moves, arguments, strict=True)
                )
                return Function(name, replaced)


class _EitherRange(Range):
    """One of several values, which isn't known."""

    def __init__(self, name: str, data_type: DataType, values: Sequence[Range]) -> None:
        super().__init__(data_type)
        self._name = name
        self._values = values

    def lower(self, arrow_type: pa.DataType) -> Datum:
        if not _has_extremes(arrow_type):
            return pa.scalar(None, arrow_type)
        return self._extreme(pc.min_element_wise, arrow_type, [v.lower for v in self._values])

    def upper(self, arrow_type: pa.DataType) -> Datum:
        if not _has_extremes(arrow_type):
            return pa.scalar(None, arrow_type)
        return self._extreme(pc.max_element_wise, arrow_type, [v.upper for v in self._values])

    def _extreme(self, kernel: Any, arrow_type: Any, asked: Sequence[Any]) -> Datum:
        bounds = [ask(arrow_type) for ask in asked]
        if pa.types.is_timestamp(arrow_type):  # no such kernel for those with a zone
            bounds = [pc.cast(bound, pa.timestamp("us")) for bound in bounds]
        return pc.cast(kernel(*bounds, skip_nulls=False), arrow_type)

    def may_be_null(self) -> Datum:
        combine = pc.and_ if self._name == "coalesce" else pc.or_
        return reduce(combine, [value.may_be_null() for value in self._values])

    def may_have_value(self) -> Datum:
        return reduce(pc.or_, [value.may_have_value() for value in self._values])


def _has_extremes(arrow_type: pa.DataType) -> bool:
    """Arrow has no least of booleans, and its least of floats passes over NaN."""
    return not pa.types.is_floating(arrow_type) and not pa.types.is_boolean(arrow_type)


class _Null(Range):
    def may_have_value(self) -> Datum:
        return constant(False)


def _one_of(name: str, data_type: DataType, operands: Sequence[Range]) -> Range:
    if name == "coalesce":
        return _EitherRange(name, data_type, operands)
    values = list(operands[1::2])
    values.append(operands[-1] if len(operands) % 2 else _Null(data_type))
    return _EitherRange(name, data_type, values)


def _repeated(value: Any, length: int) -> Any:
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


def _in_four_digit_years(values: Datum, operands: Sequence[Range], moves: Sequence[int]) -> Datum:
    operand = next(o for o, move in zip(operands, moves, strict=True) if move)
    arrow_type: Any = to_arrow_type(operand.data_type)
    first: dt.date = dt.date(1, 1, 1)
    last: dt.date = dt.date(9999, 12, 31)
    if operand.data_type != DATE:
        zone = dt.UTC if operand.data_type == TIMESTAMP else None
        first = dt.datetime(1, 1, 1, tzinfo=zone)
        last = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=zone)
    fits = pc.and_kleene(
        pc.greater_equal(operand.lower(arrow_type), pa.scalar(first, arrow_type)),
        pc.less_equal(operand.upper(arrow_type), pa.scalar(last, arrow_type)),
    )
    return pc.if_else(fits, values, pa.scalar(None, values.type))


def constant_value(expression: Expression) -> Any:
    """The value of a constant; None for anything else."""
    return expression.value if isinstance(expression, Literal) else None


_NUMBERS = ("integer", "decimal", "float")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_ORDERED_CASTS = frozenset(
    [(one, other) for one in _NUMBERS for other in _NUMBERS]
    + [(one, other) for one in _TIMES for other in _TIMES]
    + [(one, "string") for one in _TIMES]
    + [("timestamp", other) for other in _NUMBERS]
    + [(other, "timestamp") for other in _NUMBERS]
    + [("string", "string")]
)
