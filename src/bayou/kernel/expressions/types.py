"""Types of expressions: common types and comparison types as in Spark's ANSI mode."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from bayou.kernel.arrow.types import to_arrow_type
from bayou.protocol.schema import (
    BYTE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    PrimitiveType,
    StructType,
)

INTEGRAL: tuple[DataType, ...] = (BYTE, SHORT, INTEGER, LONG)
_DIGITS: dict[DataType, int] = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 20}


def kind_of(data_type: DataType) -> str | None:
    """Return the kind of a type, such as `integer` for byte, short, integer and long.

    The result is None for nested types and variant.
    """
    if isinstance(data_type, DecimalType):
        return "decimal"
    return _KINDS.get(data_type.name) if isinstance(data_type, PrimitiveType) else None


def is_integral(data_type: DataType) -> bool:
    """Whether the type is byte, short, integer or long."""
    return data_type in INTEGRAL


def is_numeric(data_type: DataType) -> bool:
    """Whether the type is an integer, decimal or floating-point type."""
    return kind_of(data_type) in ("integer", "decimal", "float")


def decimal_for(data_type: DataType) -> DecimalType:
    """Return a decimal type that holds all values of an integer or decimal type."""
    if isinstance(data_type, DecimalType):
        return data_type
    return DecimalType(_DIGITS[data_type], 0)


def bounded_decimal(precision: int, scale: int) -> DecimalType:
    """Return a decimal type with at most 38 digits.

    If `precision` exceeds 38, the precision becomes 38. As in Spark, the scale is reduced by as
    many digits, but not below 6. A scale below 6 isn't reduced.
    """
    if precision <= 38:
        return DecimalType(precision, scale)
    return DecimalType(38, max(38 - (precision - scale), min(scale, 6)))


def wider_decimal(left: DecimalType, right: DecimalType) -> DecimalType:
    """Return the decimal type that can hold the values of two decimal types.

    If this type would need more than 38 digits, its scale is reduced.
    """
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + scale <= 38:
        return DecimalType(whole + scale, scale)
    return DecimalType(38, max(0, 38 - whole))


def common_type(types: Iterable[DataType]) -> DataType | None:
    """Return the common type of values in CASE and coalesce; None if they have no common type."""
    result: DataType | None = VOID
    for data_type in types:
        if result is None:
            return None
        result = _common(result, data_type)
    return result


def comparison_type(left: DataType, right: DataType) -> pa.DataType | None:
    """Return the Arrow type for comparisons of two types; None if they can't be compared."""
    if left == right and not isinstance(left, StructType):
        return to_arrow_type(left) if _is_atomic(left) else None
    if VOID in (left, right):
        return comparison_type(right, right) if left == VOID else comparison_type(left, left)
    kinds = {kind_of(left), kind_of(right)}
    if kinds == {"integer"}:
        return pa.int64()
    if kinds <= {"integer", "decimal"}:
        one, other = _digits_of(left), _digits_of(right)
        scale = max(one[1], other[1])
        precision = scale + max(one[0], other[0])
        return (
            pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
        )
    if kinds <= {"integer", "decimal", "float"}:
        return pa.float64()
    if kinds <= {"date", "timestamp", "timestamp_ntz"}:
        return to_arrow_type(TIMESTAMP if "timestamp" in kinds else TIMESTAMP_NTZ)
    return None


def _common(left: DataType, right: DataType) -> DataType | None:
    if right in (left, VOID):
        return left
    if left == VOID:
        return right
    kinds = {kind_of(left), kind_of(right)}
    if None in kinds:
        return _common_nested(left, right)
    if kinds <= {"integer", "decimal", "float"}:
        return _common_number(left, right)
    if kinds <= {"date", "timestamp", "timestamp_ntz"}:
        return TIMESTAMP if "timestamp" in kinds else TIMESTAMP_NTZ
    if STRING in (left, right):
        return _common_with_string(right if left == STRING else left)
    return None


def _common_number(left: DataType, right: DataType) -> DataType:
    kinds = {kind_of(left), kind_of(right)}
    if kinds == {"integer"}:
        return max((left, right), key=INTEGRAL.index)
    if "float" not in kinds:
        return wider_decimal(decimal_for(left), decimal_for(right))
    return FLOAT if kinds == {"float"} and DOUBLE not in (left, right) else DOUBLE


def _common_with_string(other: DataType) -> DataType | None:
    match kind_of(other):
        case "integer":
            return LONG
        case "decimal" | "float":
            return DOUBLE
        case _:
            return other


def _common_nested(left: DataType, right: DataType) -> DataType | None:
    if isinstance(left, ArrayType) and isinstance(right, ArrayType):
        element = _common(left.element_type, right.element_type)
        nulls = left.contains_null or right.contains_null
        return None if element is None else ArrayType(element_type=element, contains_null=nulls)
    return None


def _is_atomic(data_type: DataType) -> bool:
    return kind_of(data_type) is not None


def _digits_of(data_type: DataType) -> tuple[int, int]:
    if isinstance(data_type, DecimalType):
        return data_type.precision - data_type.scale, data_type.scale
    return 19, 0


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
