"""Partition columns that are computed from a data column: what a condition on it says of them.

A file has one value of such a partition column, `P = g(source)`. Where `g` never goes down as its
argument goes up, `source <= 5` implies `P <= g(5)`. Year, month, day and hour of one source are
compared together, as one number is by its digits.

Writers compute `g` in their own time zone, which no one knows afterwards. So where the source is a
timestamp, bounds are wider by more than any zone is away from UTC; where a zone matters in another
way, nothing follows from a condition. And they compute it with or without Spark's ANSI mode: a step
counts as rising only where it neither fails nor wraps around for any value.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.errors import PredicateError, PrerequisiteError
from bayou.kernel.expressions.evaluation import Evaluation, compare
from bayou.kernel.expressions.model import (
    Cast,
    Column,
    Expression,
    Function,
    Literal,
    operands_of,
    referenced_columns,
)
from bayou.kernel.expressions.resolution import field_at, resolve_expression, type_of
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.kernel.expressions.types import INTEGRAL, decimal_for, is_integral, kind_of
from bayou.kernel.scan.data_skipping.function_ranges import (
    constant_value,
    directions,
    is_ordered_text,
    nulls_of,
)
from bayou.protocol.schema import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    StructType,
)

__all__ = ["GeneratedPartitions"]

# A pyarrow array of one value a file, or a scalar for all. pyarrow's own types don't take both
# where its functions do.
Datum: TypeAlias = Any
pc: Any = pyarrow.compute

GENERATION_EXPRESSION = "delta.generationExpression"
_ZONE = dt.timedelta(hours=16)  # further from UTC than any zone ever was
_GAP = dt.timedelta(days=1)  # the longest time that a zone's clocks ever skipped
_PARTS = ("year", "month", "day", "hour")
_TIME_KINDS = ("date", "timestamp", "timestamp_ntz")
_TOTAL = frozenset(
    (
        "year",
        "date_trunc",
        "trunc",
        "last_day",
        "date_format",
        "substring",
        "sign",
        "unix_seconds",
        "unix_millis",
        "unix_micros",
        "unix_date",
    )
)
_TOTAL_UNLESS_FLOAT = frozenset(("floor", "ceil"))  # in floats there is no order with NaN
_TOTAL_OF_FLOATS = frozenset(("+", "-", "*", "/", "round"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Generated:
    """A partition column.

    Attributes:
        expression: resolved.
        rises: it never goes down as the source goes up, whoever computes it.
        repeatable: values of the source that are equal give equal values, whoever computes it.
        exact_nulls: it is NULL exactly where the source is.
        texts: it is a text whose order is that of the times in four-digit years only.
        room: how far off the source's value it may have been computed.
    """

    name: str
    data_type: DataType
    expression: Expression
    source: tuple[str, ...]
    rises: bool
    repeatable: bool
    exact_nulls: bool
    texts: bool
    room: dt.timedelta

    @property
    def part(self) -> str:
        """Which part of a time it is; empty for none."""
        match self.expression:
            case Function(name, (argument,)) if name in _PARTS:
                inner = argument.operand if isinstance(argument, Cast) else argument
                return name if isinstance(inner, Column) else ""
            case _:
                return ""


class GeneratedPartitions:
    """The generated partition columns of a table."""

    def __init__(self, schema: StructType, partition_columns: Sequence[str]) -> None:
        self._schema = schema
        self._by_source: dict[tuple[str, ...], list[_Generated]] = {}
        for name in partition_columns:
            found = _generated(name, schema, partition_columns)
            if found is not None:
                self._by_source.setdefault(found.source, []).append(found)

    def columns_for(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the partition columns that are computed from a column."""
        return tuple(found.name for found in self._by_source.get(path, ()))

    def may_hold(
        self, op: str, path: tuple[str, ...], value: Any, partitions: dict[str, Datum]
    ) -> Datum:
        """Whether a column may compare so with a constant, by the partition columns alone.

        Args:
            op: `=`, `<`, `<=`, `>` or `>=`.
            value: of the column's type, as Python has it; not None.
            partitions: values of the partition columns, one a file.
        """
        columns = [c for c in self._by_source.get(path, ()) if c.name in partitions]
        if not columns:
            return pa.scalar(True)
        source = field_at(path, self._schema).data_type
        checks = [
            self._compared(op, [column], value, source, partitions)
            for column in columns
            if column.rises or (op == "=" and column.repeatable)
        ]
        digits = _digits(columns, source)
        if len(digits) > 1:
            checks.append(self._compared(op, digits, value, source, partitions))
        return reduce(pc.and_, checks, pa.scalar(True))

    def may_be_null(self, path: tuple[str, ...], partitions: dict[str, Datum]) -> Datum:
        """Whether a column may be NULL, by the partition columns alone."""
        checks = [
            pc.is_null(partitions[column.name])
            for column in self._by_source.get(path, ())
            if column.name in partitions and _null_from_null(column.expression)
        ]
        return reduce(pc.and_, checks, pa.scalar(True))

    def _compared(
        self,
        op: str,
        columns: Sequence[_Generated],
        value: Any,
        source: DataType,
        partitions: dict[str, Datum],
    ) -> Datum:
        values = [partitions[column.name] for column in columns]
        possible: Datum = pa.scalar(True)
        if op in ("=", ">", ">="):
            bounds = _bounds(columns, value, source, -1)
            if bounds is not None:
                possible = pc.and_kleene(possible, _at_least(values, bounds))
        if op in ("=", "<", "<="):
            bounds = _bounds(columns, value, source, 1)
            if bounds is not None:
                possible = pc.and_kleene(possible, _at_most(values, bounds))
        if any(column.texts for column in columns):
            # Years beyond 9999 begin with a plus sign, those before 1 with a minus.
            odd = pc.less(values[0], pa.scalar("0", pa.string()))
            possible = pc.or_kleene(possible, odd)
        return pc.fill_null(possible, not all(column.exact_nulls for column in columns))


def _generated(
    name: str, schema: StructType, partition_columns: Sequence[str]
) -> _Generated | None:
    field = schema.get(name)
    text = None if field is None else field.metadata.get(GENERATION_EXPRESSION)
    if field is None or not isinstance(text, str):
        return None
    try:
        expression = resolve_expression(parse_expression(text), schema)
        sources = set(referenced_columns(expression))
        if len(sources) != 1 or type_of(expression, schema) != field.data_type:
            return None
    except (PredicateError, PrerequisiteError):
        return None  # an expression that isn't understood says nothing
    source = sources.pop()
    if source[0] in partition_columns:
        return None
    origin = field_at(source, schema).data_type
    zoned = _depends_on_zone(expression, schema, origin)
    # In a zone whose clocks skip that hour, Spark moves a local time before it writes it.
    moved = origin == TIMESTAMP_NTZ and _writes_times(expression, schema)
    return _Generated(
        name=name,
        data_type=field.data_type,
        expression=expression,
        source=source,
        rises=not zoned and _move(expression, schema) == 1 and _is_total(expression, schema),
        # 0.0 equals -0.0, but a function may tell them apart; so does the text of a float.
        repeatable=not zoned and not moved and origin not in (TIMESTAMP, FLOAT, DOUBLE),
        # Empty texts and bytes are NULL as partition values.
        exact_nulls=field.data_type not in (STRING, BINARY) and _exact_nulls(expression),
        texts=_writes_times(expression, schema),
        room=_ZONE if origin == TIMESTAMP else _GAP if moved else dt.timedelta(),
    )


def _depends_on_zone(expression: Expression, schema: StructType, source: DataType) -> bool:
    """Whether a writer's time zone shows in the values in another way than as an hour's shift.

    A timestamp that is computed of a local time is an instant in the writer's zone, and one that is
    computed of a number is a local time there. Of a timestamp both may be the result, not a step.
    """

    def makes_instants(step: Expression) -> bool:
        made = not isinstance(step, Column) and type_of(step, schema) == TIMESTAMP
        return made or any(map(makes_instants, operands_of(step)))

    if source == TIMESTAMP:
        return any(map(makes_instants, operands_of(expression)))
    return makes_instants(expression)


def _is_total(expression: Expression, schema: StructType) -> bool:
    """Whether every step has a value for every value of its column, in ANSI mode and outside it."""
    operands = operands_of(expression)
    types = [type_of(o, schema) for o in operands]
    match expression:
        case Column() | Literal():
            return True
        case Cast(_, data_type, _):
            total = _is_total_cast(types[0], data_type)
        case Function(name, _):
            floats = [kind_of(t) == "float" for t in types]
            result = kind_of(type_of(expression, schema))
            total = (
                name in _TOTAL
                or (name in _TOTAL_UNLESS_FLOAT and not any(floats))
                or (name in _TOTAL_OF_FLOATS and result == "float")
                or (name == "div" and all(kind_of(t) == "integer" for t in types))
            )
        case _:
            return False
    return total and all(_is_total(o, schema) for o in operands)


def _is_total_cast(source: DataType, target: DataType) -> bool:
    one, other = kind_of(source), kind_of(target)
    if one == "string" or other == "string":
        return other == "string" and one in ("string", *_TIME_KINDS)
    if one in _TIME_KINDS:
        return other in _TIME_KINDS or target in (LONG, DOUBLE)
    if other == "float":
        return one != "float" or target in (source, DOUBLE)
    if one == "float" or not (is_integral(source) or isinstance(source, DecimalType)):
        return False
    if is_integral(target):
        return source in INTEGRAL and INTEGRAL.index(source) <= INTEGRAL.index(target)
    if not isinstance(target, DecimalType):
        return False
    given = decimal_for(source)
    # Rounding may need one digit more.
    rounded = given.scale > target.scale
    return target.precision - target.scale >= given.precision - given.scale + rounded


def _move(expression: Expression, schema: StructType) -> int | None:
    """How it moves with its column: 1 up, -1 down, 0 not at all, None either way."""
    match expression:
        case Column():
            return 1
        case Literal():
            return 0
        case Cast() | Function():
            operands = operands_of(expression)
            constants = [constant_value(o) for o in operands]
            types = [type_of(o, schema) for o in operands]
            moves = directions(expression, constants, types)
            inner = [_move(o, schema) for o in operands]
            if moves is None or any(move is None for move in inner):
                return None
            found = {m * i for m, i in zip(moves, inner, strict=True) if i} - {0}
            return found.pop() if len(found) == 1 else None
        case _:
            return None


def _exact_nulls(expression: Expression) -> bool:
    match expression:
        case Column():
            return True
        case Literal(value, _):
            return value is not None
        case Cast() | Function():
            inner = all(map(_exact_nulls, operands_of(expression)))
            return inner and nulls_of(expression) == "exact"
        case _:
            return False


def _null_from_null(expression: Expression) -> bool:
    match expression:
        case Column():
            return True
        case Cast() | Function():
            inner = any(map(_null_from_null, operands_of(expression)))
            return inner and nulls_of(expression) in ("exact", "more")
        case _:
            return False


def _writes_times(expression: Expression, schema: StructType) -> bool:
    operands = operands_of(expression)
    return any(is_ordered_text(expression, type_of(o, schema)) for o in operands) or any(
        _writes_times(o, schema) for o in operands
    )


def _digits(columns: Sequence[_Generated], source: DataType) -> list[_Generated]:
    """Year, month, day and hour of a time, as far as they are there in this order."""
    if source not in (DATE, TIMESTAMP, TIMESTAMP_NTZ):  # a text has another order than its time
        return []
    usable = [column for column in columns if column.repeatable or source == TIMESTAMP]
    by_part = {column.part: column for column in usable}
    found: list[_Generated] = []
    for part in _PARTS:
        if part not in by_part:
            break
        found.append(by_part[part])
    return found


def _bounds(
    columns: Sequence[_Generated], value: Any, source: DataType, side: int
) -> list[Any] | None:
    """Values of the partition columns for a value of the source; None where there are none.

    Args:
        side: -1 for the least that they may be, 1 for the greatest.
    """
    room = side * max(column.room for column in columns)
    try:
        moment = value + room if room else value
        bounds = [_value_of(column, Literal(moment, source)) for column in columns]
        if columns[0].data_type == TIMESTAMP and source == TIMESTAMP:
            bounds = [bound + room for bound in bounds]
    except (PredicateError, OverflowError, ValueError, pa.ArrowInvalid):
        return None
    return None if any(bound is None for bound in bounds) else bounds


def _value_of(column: _Generated, literal: Literal) -> Any:
    one_row = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["row"])
    expression = _replaced(column.expression, literal)
    return Evaluation(StructType(()), expression).values(one_row)[0].as_py()


def _replaced(expression: Expression, literal: Literal) -> Expression:
    match expression:
        case Column():
            return literal
        case Cast(operand, data_type, safe):
            return Cast(_replaced(operand, literal), data_type, safe)
        case Function(name, arguments):
            return Function(name, tuple(_replaced(a, literal) for a in arguments))
        case Literal():
            return expression
        case _:
            raise PredicateError("Conditions aren't looked into.", expression=repr(expression))


def _at_least(values: Sequence[Datum], bounds: Sequence[Any]) -> Datum:
    return _in_order(">", values, bounds)


def _at_most(values: Sequence[Datum], bounds: Sequence[Any]) -> Datum:
    return _in_order("<", values, bounds)


def _in_order(op: str, values: Sequence[Datum], bounds: Sequence[Any]) -> Datum:
    """Compared by the first part that differs."""
    first, bound = values[0], pa.scalar(bounds[0], values[0].type)
    if len(values) == 1:
        return compare(f"{op}=", first, bound)
    further = _in_order(op, values[1:], bounds[1:])
    return pc.or_kleene(
        compare(op, first, bound), pc.and_kleene(compare("=", first, bound), further)
    )
