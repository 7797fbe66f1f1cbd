"""Names and types of predicates: what a column and a literal mean to each other.

The rules are those of Spark SQL in its ANSI mode: a string beside a number, date or timestamp is
read as one, numbers meet in the wider type, a decimal beside a float as double.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from bayou.errors import PredicateError
from bayou.kernel.arrow_types import to_arrow_type
from bayou.kernel.predicates.model import (
    And,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    LiteralValue,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
)

__all__ = ["arrow_scalar", "comparison_type", "field_at", "literal_of", "resolve", "type_of"]

COMPARISON_OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def resolve(predicate: Predicate, schema: StructType) -> Predicate:
    """The same predicate with the schema's spelling of names, and a type on every literal.

    Names match without regard to case. Resolving twice changes nothing.

    Raises:
        PredicateError: an unknown column, or types that can't be compared; names it.
    """
    match predicate:
        case And(operands):
            return And(tuple(resolve(o, schema) for o in operands))
        case Or(operands):
            return Or(tuple(resolve(o, schema) for o in operands))
        case Not(operand):
            return Not(resolve(operand, schema))
        case IsNull(operand):
            return IsNull(_resolve_value(operand, schema, None))
        case Comparison(op, left, right):
            return _resolve_comparison(op, left, right, schema)
        case In(operand, values):
            return _resolve_in(operand, values, schema)
        case StartsWith(operand, prefix):
            value = _resolve_value(operand, schema, STRING)
            if type_of(value, schema) not in (STRING, VOID):
                raise PredicateError(
                    f"{_name(operand)} is a {type_of(value, schema)}, not a string: it can't be "
                    f"searched for the prefix {prefix!r}.",
                    expression=_name(operand),
                )
            return StartsWith(value, prefix)
        case Column() | Literal():
            value = _resolve_value(predicate, schema, BOOLEAN)
            if type_of(value, schema) not in (BOOLEAN, VOID):
                raise PredicateError(
                    f"{_name(predicate)} is a {type_of(value, schema)}, not a condition. Compare "
                    "it with something.",
                    expression=_name(predicate),
                )
            assert isinstance(value, Predicate)
            return value
        case _:
            raise PredicateError(
                f"{type(predicate).__name__} isn't a predicate that is known.",
                expression=repr(predicate),
            )


def type_of(expression: Expression, schema: StructType) -> DataType:
    """Type of a resolved expression."""
    match expression:
        case Column(path):
            return field_at(path, schema).data_type
        case Literal(_, data_type):
            return VOID if data_type is None else data_type
        case _:
            return BOOLEAN


def field_at(path: tuple[str, ...], schema: StructType) -> StructField:
    """The field of a path of names.

    Raises:
        PredicateError: there is none.
    """
    names, field = _find(path, schema)
    assert names
    return field


def comparison_type(left: DataType, right: DataType) -> pa.DataType | None:
    """The Arrow type in which two types are compared; None where they can't be."""
    if left == right and not isinstance(left, StructType):
        return to_arrow_type(left) if _is_atomic(left) else None
    if VOID in (left, right):
        return comparison_type(right, right) if left == VOID else comparison_type(left, left)
    kinds = {_kind(left), _kind(right)}
    if kinds == {"integer"}:
        return pa.int64()
    if kinds <= {"integer", "decimal"}:
        one, other = _as_decimal(left), _as_decimal(right)
        scale = max(one.scale, other.scale)
        precision = scale + max(one.precision - one.scale, other.precision - other.scale)
        return (
            pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
        )
    if kinds <= {"integer", "decimal", "float"}:
        return pa.float64()
    if kinds <= {"date", "timestamp", "timestamp_ntz"}:
        return to_arrow_type(TIMESTAMP if "timestamp" in kinds else TIMESTAMP_NTZ)
    return None


def literal_of(value: LiteralValue) -> Literal:
    """A literal with the type that its Python value has by itself."""
    match value:
        case None:
            return Literal(None, VOID)
        case bool():
            return Literal(value, BOOLEAN)
        case int():
            return Literal(value, _integer_type(value))
        case float():
            return Literal(value, DOUBLE)
        case Decimal():
            return Literal(value, _decimal_type(value))
        case str():
            return Literal(value, STRING)
        case bytes():
            return Literal(value, BINARY)
        case dt.datetime():
            return Literal(value, TIMESTAMP_NTZ if value.tzinfo is None else TIMESTAMP)
        case _:
            return Literal(value, DATE)


def arrow_scalar(literal: Literal, arrow_type: Any) -> Any:
    """The value of a resolved literal in a type that `comparison_type` gave."""
    value: object = literal.value
    if value is None:
        return pa.scalar(None, arrow_type)
    if pa.types.is_floating(arrow_type):
        return pa.scalar(_as_float(value), arrow_type)
    if pa.types.is_decimal(arrow_type):
        assert isinstance(value, int | Decimal)
        return pa.scalar(Decimal(value), arrow_type)
    if pa.types.is_timestamp(arrow_type):
        return pa.scalar(_as_datetime(value, utc=arrow_type.tz is not None), arrow_type)
    return pa.scalar(value, arrow_type)


def _resolve_comparison(
    op: str, left: Expression, right: Expression, schema: StructType
) -> Comparison:
    if op not in COMPARISON_OPERATORS:
        raise PredicateError(
            f"{op!r} isn't a comparison; there are {', '.join(COMPARISON_OPERATORS)}.",
            expression=op,
        )
    if isinstance(left, Literal):
        right = _resolve_value(right, schema, None)
        left = _resolve_value(left, schema, type_of(right, schema))
    else:
        left = _resolve_value(left, schema, None)
        right = _resolve_value(right, schema, type_of(left, schema))
    _check_comparable(left, right, schema)
    return Comparison(op, left, right)


def _resolve_in(operand: Expression, values: tuple[Literal, ...], schema: StructType) -> In:
    operand = _resolve_value(operand, schema, None)
    wanted = type_of(operand, schema)
    resolved = tuple(_coerce(value, wanted) for value in values)
    for value in resolved:
        _check_comparable(operand, value, schema)
    return In(operand, resolved)


def _check_comparable(left: Expression, right: Expression, schema: StructType) -> None:
    one, other = type_of(left, schema), type_of(right, schema)
    if comparison_type(one, other) is None:
        raise PredicateError(
            f"{_name(left)} is a {one} and {_name(right)} a {other}: they can't be compared.",
            expression=f"{_name(left)}, {_name(right)}",
        )


def _resolve_value(
    expression: Expression, schema: StructType, other: DataType | None
) -> Expression:
    match expression:
        case Column(path):
            return Column(_find(path, schema)[0])
        case Literal():
            return _coerce(expression, other)
        case Predicate():
            return resolve(expression, schema)
        case _:
            raise PredicateError(
                f"{type(expression).__name__} isn't an expression that is known.",
                expression=repr(expression),
            )


def _find(path: tuple[str, ...], schema: StructType) -> tuple[tuple[str, ...], StructField]:
    names: tuple[str, ...] = ()
    level: DataType = schema
    field: StructField | None = None
    for name in path:
        field = level.get(name) if isinstance(level, StructType) else None
        if field is None:
            raise _unknown_column(path, name, names, level)
        names = (*names, field.name)
        level = field.data_type
    if field is None:
        raise PredicateError("A column needs a name.", expression="")
    return names, field


def _unknown_column(
    path: tuple[str, ...], name: str, parents: tuple[str, ...], level: DataType
) -> PredicateError:
    text = ".".join(path)
    if not isinstance(level, StructType):
        return PredicateError(
            f"There is no column {text!r}: {'.'.join(parents)!r} is a {level}, it has no fields.",
            expression=text,
        )
    folded = {known.lower(): known for known in level.names}
    close = difflib.get_close_matches(name.lower(), folded, n=1)
    if close:
        hint = f"Did you mean {'.'.join((*parents, folded[close[0]]))!r}?"
    else:
        shown = ", ".join(level.names[:20]) + (", ..." if len(level) > 20 else "")
        where = f"{'.'.join(parents)!r}" if parents else "The table"
        hint = f"{where} has {shown or 'no columns'}."
    return PredicateError(f"There is no column {text!r}. {hint}", expression=text)


def _coerce(literal: Literal, other: DataType | None) -> Literal:
    """The literal with a type, read as the other side's type where its own leaves that open."""
    value = literal.value
    if value is None:
        return Literal(None, literal.data_type or VOID)
    if isinstance(value, str) and other is not None and other not in (STRING, VOID):
        return Literal(_parse_text(value, other), _parsed_type(value, other))
    if literal.data_type is not None:
        return literal
    if isinstance(value, dt.datetime) and value.tzinfo is None and other == TIMESTAMP:
        return Literal(value.replace(tzinfo=dt.UTC), TIMESTAMP)
    if isinstance(value, float) and other == FLOAT:
        # Python has one float; Spark has a float beside a double compare as double.
        return Literal(value, DOUBLE)
    if isinstance(value, Decimal) and not value.is_finite():
        return Literal(float(value), DOUBLE)
    return literal_of(value)


def _parsed_type(text: str, other: DataType) -> DataType:
    if isinstance(other, DecimalType):
        return _decimal_type(Decimal(text.strip()))
    if _kind(other) == "integer":
        return _integer_type(int(text.strip()))
    return DOUBLE if other == FLOAT else other


def _parse_text(text: str, other: DataType) -> LiteralValue:
    try:
        if isinstance(other, DecimalType):
            number = Decimal(text.strip())
            if not number.is_finite():
                raise ValueError(text)
            return number
        match other.name if isinstance(other, PrimitiveType) else "":
            case "byte" | "short" | "integer" | "long":
                return int(text.strip())
            case "float" | "double":
                return float(text.strip())
            case "boolean":
                return {"true": True, "false": False}[text.strip().lower()]
            case "binary":
                return text.encode()
            case "date":
                return parse_timestamp(text).date()
            case "timestamp":
                instant = parse_timestamp(text)
                return (
                    instant.replace(tzinfo=dt.UTC)
                    if instant.tzinfo is None
                    else instant.astimezone(dt.UTC)
                )
            case "timestamp_ntz":
                return parse_timestamp(text).replace(tzinfo=None)
            case _:
                raise ValueError(text)
    except (ValueError, KeyError, OverflowError, InvalidOperation) as error:
        raise PredicateError(
            f"{text!r} can't be read as a {other}, which it is compared with.", expression=text
        ) from error


_TIMESTAMP = re.compile(
    r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?)?)?)?"
    r"\s*(\S.*)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?")


def parse_timestamp(text: str) -> dt.datetime:
    """A date or timestamp as Spark's SQL reads one; aware where the text names a zone.

    Raises:
        ValueError: not one.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    local = dt.datetime(  # noqa: DTZ001  # the text may leave the zone open
        int(year),
        int(month or 1),
        int(day or 1),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        int((fraction or "")[:6].ljust(6, "0")),
    )
    return local if zone is None else local.replace(tzinfo=_zone(zone))


def _zone(text: str) -> dt.tzinfo:
    if text.upper() in ("Z", "UTC", "GMT"):
        return dt.UTC
    if match := _OFFSET.fullmatch(text):
        offset = dt.timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return dt.timezone(offset if match[1] == "+" else -offset)
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(text) from error


@dataclass(frozen=True, slots=True)
class _Digits:
    """Like `DecimalType`, of any precision."""

    precision: int
    scale: int


def _as_decimal(data_type: DataType) -> _Digits:
    if isinstance(data_type, DecimalType):
        return _Digits(data_type.precision, data_type.scale)
    return _Digits(19, 0)


def _decimal_type(value: Decimal) -> DataType:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return DOUBLE
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > 38:
        raise PredicateError(
            f"{value} has more digits than the 38 of a decimal.", expression=str(value)
        )
    return DecimalType(precision, scale)


def _integer_type(value: int) -> DataType:
    if -(1 << 31) <= value < 1 << 31:
        return INTEGER
    if -(1 << 63) <= value < 1 << 63:
        return LONG
    return _decimal_type(Decimal(value))


def _is_atomic(data_type: DataType) -> bool:
    return _kind(data_type) is not None


_KINDS = {
    "byte": "integer",
    "short": "integer",
    "integer": "integer",
    "long": "integer",
    "float": "float",
    "double": "float",
    "string": "string",
    "binary": "binary",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "void": "void",
}


def _kind(data_type: DataType) -> str | None:
    if isinstance(data_type, DecimalType):
        return "decimal"
    return _KINDS.get(data_type.name) if isinstance(data_type, PrimitiveType) else None


def _as_float(value: object) -> float:
    assert isinstance(value, int | float | Decimal)
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _as_datetime(value: object, *, utc: bool) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        assert isinstance(value, dt.date)
        value = dt.datetime.combine(value, dt.time())
    if value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC) if utc else value
    return value.astimezone(dt.UTC) if utc else value.astimezone(dt.UTC).replace(tzinfo=None)


def _name(expression: Expression) -> str:
    match expression:
        case Column(path):
            return ".".join(path)
        case Literal(value, _):
            return "NULL" if value is None else repr(value)
        case _:
            return "The condition"
