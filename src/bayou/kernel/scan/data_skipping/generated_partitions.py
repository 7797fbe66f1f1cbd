"""Partition pruning with generated columns: conditions on data columns skip whole partitions.

A generated partition column `P = g(source)` is computed from a data column, the source column, and
has one value per file. If `g` is monotonic, the condition `source <= 5` implies `P <= g(5)`.
Generated columns for the year, month, day and hour of the same source column are compared in
lexicographic order.

The time zone in which writers computed `g` is unknown. If a timestamp source column is compared
with a constant, the constant is shifted by more than any time zone's offset from UTC. If the time
zone affects `g` in another way, the generated column isn't used.

It is also unknown whether writers used Spark's ANSI mode. Therefore, `g` counts as monotonic only
if no function or cast in `g` can fail or overflow.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa

from bayou.errors import PredicateError, PrerequisiteError
from bayou.kernel.arrow.arrays import to_scalar
from bayou.kernel.arrow.compute import Datum, pc
from bayou.kernel.expressions.evaluation import Evaluator, compare
from bayou.kernel.expressions.functions import inexact_function
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
    is_formatted_time,
    null_behavior,
)
from bayou.protocol.column_metadata import GENERATION_EXPRESSION_KEY
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

_MAX_ZONE_OFFSET = dt.timedelta(hours=16)  # more than any time zone's offset from UTC
_MAX_ZONE_GAP = dt.timedelta(days=1)  # the longest period that local clocks ever skipped
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
_TOTAL_UNLESS_FLOAT = frozenset(("floor", "ceil"))  # NaN breaks the order of floats
_TOTAL_OF_FLOATS = frozenset(("+", "-", "*", "/", "round"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _GeneratedColumn:
    """A generated partition column.

    Attributes:
        source: path of the source column.
        is_monotonic: whether the generated value never decreases when the source value increases,
            in any time zone, with or without ANSI mode.
        is_deterministic: whether equal source values have equal generated values, in any time zone,
            with or without ANSI mode.
        exact_nulls: whether the generated value is NULL if and only if the source value is NULL.
        is_time_string: whether the generated value is a date or timestamp formatted as a string.
            The order of these strings is correct only for years with four digits.
        tolerance: maximum time by which the writer's time zone can shift the source value; 0 if the
            time zone has no effect.
    """

    name: str
    data_type: DataType
    expression: Expression
    source: tuple[str, ...]
    is_monotonic: bool
    is_deterministic: bool
    exact_nulls: bool
    is_time_string: bool
    tolerance: dt.timedelta

    @property
    def part(self) -> str:
        """The time field that the generated column extracts from its source column.

        The value is `year`, `month`, `day` or `hour`. If the generation expression computes
        something else, the value is an empty string.
        """
        match self.expression:
            case Function(name, (argument,)) if name in _PARTS:
                inner = argument.operand if isinstance(argument, Cast) else argument
                return name if isinstance(inner, Column) else ""
            case _:
                return ""


class GeneratedPartitions:
    """The partition columns of a table that are generated from other columns."""

    def __init__(self, schema: StructType, partition_columns: Sequence[str]) -> None:
        self._schema = schema
        self._by_source: dict[tuple[str, ...], list[_GeneratedColumn]] = {}
        for name in partition_columns:
            column = _generated_column(name, schema, partition_columns)
            if column is not None:
                self._by_source.setdefault(column.source, []).append(column)

    def columns_for(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the partition columns that are generated from the column `path`."""
        return tuple(column.name for column in self._by_source.get(path, ()))

    def may_be_true(
        self, op: str, path: tuple[str, ...], value: Any, partitions: dict[str, Datum]
    ) -> Datum:
        """For each file, return whether the comparison `path op value` may be true for a row.

        Args:
            path: the source column.
            value: the constant.
            partitions: values of each partition column, one per file.
        """
        columns = [c for c in self._by_source.get(path, ()) if c.name in partitions]
        if not columns:
            return to_scalar(True, pa.bool_())
        source = field_at(path, self._schema).data_type
        checks = [
            self._compare(op, [column], value, source, partitions)
            for column in columns
            if column.is_monotonic or (op == "=" and column.is_deterministic)
        ]
        time_parts = _time_parts(columns, source)
        if len(time_parts) > 1:
            checks.append(self._compare(op, time_parts, value, source, partitions))
        return reduce(pc.and_, checks, to_scalar(True, pa.bool_()))

    def may_be_null(self, path: tuple[str, ...], partitions: dict[str, Datum]) -> Datum:
        """For each file, return whether the file may contain a NULL in the source column."""
        checks = [
            pc.is_null(partitions[column.name])
            for column in self._by_source.get(path, ())
            if column.name in partitions and _null_from_null(column.expression)
        ]
        return reduce(pc.and_, checks, to_scalar(True, pa.bool_()))

    def _compare(
        self,
        op: str,
        columns: Sequence[_GeneratedColumn],
        value: Any,
        source: DataType,
        partitions: dict[str, Datum],
    ) -> Datum:
        values = [partitions[column.name] for column in columns]
        possible: Datum = to_scalar(True, pa.bool_())
        if op in ("=", ">", ">="):
            bounds = _bounds(columns, value, source, -1)
            if bounds is not None:
                possible = pc.and_kleene(possible, _at_least(values, bounds))
        if op in ("=", "<", "<="):
            bounds = _bounds(columns, value, source, 1)
            if bounds is not None:
                possible = pc.and_kleene(possible, _at_most(values, bounds))
        if any(column.is_time_string for column in columns):
            # Years after 9999 start with a plus sign, and years before 1 with a minus sign.
            is_signed = pc.less(values[0], to_scalar("0", pa.string()))
            possible = pc.or_kleene(possible, is_signed)
        return pc.fill_null(possible, not all(column.exact_nulls for column in columns))


def _generated_column(
    name: str, schema: StructType, partition_columns: Sequence[str]
) -> _GeneratedColumn | None:
    field = schema.get(name)
    sql = None if field is None else field.metadata.get(GENERATION_EXPRESSION_KEY)
    if field is None or not isinstance(sql, str):
        return None
    try:
        expression = resolve_expression(parse_expression(sql), schema)
        sources = set(referenced_columns(expression))
        if len(sources) != 1 or type_of(expression, schema) != field.data_type:
            return None
    except (PredicateError, PrerequisiteError):
        return None  # unsupported expressions aren't used
    source = sources.pop()
    if source[0] in partition_columns:
        return None
    origin = field_at(source, schema).data_type
    zoned = _depends_on_zone(expression, schema, origin)
    # If the clocks of the time zone skip a local time, Spark shifts it before formatting.
    may_shift = origin == TIMESTAMP_NTZ and _formats_times(expression, schema)
    return _GeneratedColumn(
        name=name,
        data_type=field.data_type,
        expression=expression,
        source=source,
        is_monotonic=(
            not zoned and _direction(expression, schema) == 1 and _is_total(expression, schema)
        ),
        # 0.0 equals -0.0, but functions and the conversion to a string distinguish them.
        is_deterministic=not (zoned or may_shift or inexact_function(expression))
        and origin not in (TIMESTAMP, FLOAT, DOUBLE),
        # Empty strings and binaries are NULL as partition values.
        exact_nulls=field.data_type not in (STRING, BINARY) and _exact_nulls(expression),
        is_time_string=_formats_times(expression, schema),
        tolerance=(
            _MAX_ZONE_OFFSET
            if origin == TIMESTAMP
            else _MAX_ZONE_GAP
            if may_shift
            else dt.timedelta()
        ),
    )


def _depends_on_zone(expression: Expression, schema: StructType, source: DataType) -> bool:
    """Whether the time zone affects the result in other ways than a shift of the source value.

    `_GeneratedColumn.tolerance` covers only a shift of the source value. There are other effects in
    these cases:

    - The source column is a TIMESTAMP, and an intermediate result is also a TIMESTAMP.
    - The source column isn't a TIMESTAMP, but the result or an intermediate result is.
    """

    def computes_timestamp(step: Expression) -> bool:
        is_computed = not isinstance(step, Column) and type_of(step, schema) == TIMESTAMP
        return is_computed or any(map(computes_timestamp, operands_of(step)))

    if source == TIMESTAMP:
        return any(map(computes_timestamp, operands_of(expression)))
    return computes_timestamp(expression)


def _is_total(expression: Expression, schema: StructType) -> bool:
    """Whether no part of the expression can fail or overflow, with or without ANSI mode."""
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
    source_kind, target_kind = kind_of(source), kind_of(target)
    if source_kind == "string" or target_kind == "string":
        return target_kind == "string" and source_kind in ("string", *_TIME_KINDS)
    if source_kind in _TIME_KINDS:
        return target_kind in _TIME_KINDS or target in (LONG, DOUBLE)
    if target_kind == "float":
        return source_kind != "float" or target in (source, DOUBLE)
    if source_kind == "float" or not (is_integral(source) or isinstance(source, DecimalType)):
        return False
    if is_integral(target):
        return source in INTEGRAL and INTEGRAL.index(source) <= INTEGRAL.index(target)
    if not isinstance(target, DecimalType):
        return False
    decimal = decimal_for(source)
    # Rounding may need one more digit.
    rounds = decimal.scale > target.scale
    return target.precision - target.scale >= decimal.precision - decimal.scale + rounds


def _direction(expression: Expression, schema: StructType) -> int | None:
    """Return how the result of an expression changes when the value of the source column increases.

    - 1: the result never decreases.
    - -1: the result never increases.
    - 0: the expression is a literal.
    - None: none of these cases applies.
    """
    match expression:
        case Column():
            return 1
        case Literal():
            return 0
        case Cast() | Function():
            operands = operands_of(expression)
            constants = [constant_value(o) for o in operands]
            types = [type_of(o, schema) for o in operands]
            signs = directions(expression, constants, types)
            inner = [_direction(o, schema) for o in operands]
            if signs is None or any(sign is None for sign in inner):
                return None
            combined = {s * i for s, i in zip(signs, inner, strict=True) if i} - {0}
            return combined.pop() if len(combined) == 1 else None
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
            return inner and null_behavior(expression) == "exact"
        case _:
            return False


def _null_from_null(expression: Expression) -> bool:
    match expression:
        case Column():
            return True
        case Cast() | Function():
            inner = any(map(_null_from_null, operands_of(expression)))
            return inner and null_behavior(expression) in ("exact", "more")
        case _:
            return False


def _formats_times(expression: Expression, schema: StructType) -> bool:
    operands = operands_of(expression)
    return any(is_formatted_time(expression, type_of(o, schema)) for o in operands) or any(
        _formats_times(o, schema) for o in operands
    )


def _time_parts(columns: Sequence[_GeneratedColumn], source: DataType) -> list[_GeneratedColumn]:
    """Return the columns for year, month, day and hour, in order, up to the first missing one."""
    if source not in (DATE, TIMESTAMP, TIMESTAMP_NTZ):  # strings don't sort like times
        return []
    usable = [column for column in columns if column.is_deterministic or source == TIMESTAMP]
    by_part = {column.part: column for column in usable}
    time_parts: list[_GeneratedColumn] = []
    for part in _PARTS:
        if part not in by_part:
            break
        time_parts.append(by_part[part])
    return time_parts


def _bounds(
    columns: Sequence[_GeneratedColumn], value: Any, source: DataType, side: int
) -> list[Any] | None:
    """Compute a bound of each generated column from a bound of the source column.

    Args:
        value: the bound of the source column.
        side: -1 for a lower bound, 1 for an upper bound.

    Returns:
        One bound per column; None if a bound can't be computed.
    """
    tolerance = side * max(column.tolerance for column in columns)
    try:
        shifted = value + tolerance if tolerance else value
        bounds = [_evaluate(column, Literal(shifted, source)) for column in columns]
        if columns[0].data_type == TIMESTAMP and source == TIMESTAMP:
            bounds = [bound + tolerance for bound in bounds]
    except (PredicateError, OverflowError, ValueError, pa.ArrowInvalid):
        return None
    return None if any(bound is None for bound in bounds) else bounds


def _evaluate(column: _GeneratedColumn, literal: Literal) -> Any:
    one_row = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["row"])
    expression = _substitute(column.expression, literal)
    return Evaluator(StructType(()), expression).values(one_row)[0].as_py()


def _substitute(expression: Expression, literal: Literal) -> Expression:
    match expression:
        case Column():
            return literal
        case Cast(operand, data_type, safe):
            return Cast(_substitute(operand, literal), data_type, safe)
        case Function(name, arguments):
            return Function(name, tuple(_substitute(a, literal) for a in arguments))
        case Literal():
            return expression
        case _:
            raise PredicateError(
                "A generation expression with a boolean operator isn't supported.",
                expression=repr(expression),
            )


def _at_least(values: Sequence[Datum], bounds: Sequence[Any]) -> Datum:
    return _compare_lexicographically(">", values, bounds)


def _at_most(values: Sequence[Datum], bounds: Sequence[Any]) -> Datum:
    return _compare_lexicographically("<", values, bounds)


def _compare_lexicographically(op: str, values: Sequence[Datum], bounds: Sequence[Any]) -> Datum:
    """Compare each file's sequence of values with a sequence of bounds, in lexicographic order.

    Args:
        op: `<` for "less or equal", `>` for "greater or equal".
        values: for each column, one value per file.
        bounds: for each column, one bound.
    """
    first, bound = values[0], to_scalar(bounds[0], values[0].type)
    if len(values) == 1:
        return compare(f"{op}=", first, bound)
    rest = _compare_lexicographically(op, values[1:], bounds[1:])
    return pc.or_kleene(compare(op, first, bound), pc.and_kleene(compare("=", first, bound), rest))
