"""Converts JSON values to column values one by one. This is slower than the module `columns`."""

from __future__ import annotations

import struct
from base64 import b64decode
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from bayou.ingest.decode.exact_json import encode_exact_json
from bayou.ingest.decode.json_schema import is_json_text
from bayou.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from bayou.protocol.sql import number_text

_DIGITS = Context(prec=76)
"""Decimal context for columns with 38 digits; Python's default context has only 28 digits."""
_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}


class InvalidValueError(ValueError):
    """A value can't be stored in the type of its column; the message names the field."""


def column_value(value: Any, field: StructField, path: str) -> Any:
    """Convert a value of `decode_exact_json` to a value that `pyarrow.array` accepts for a field.

    `path` is the field's path, for messages.

    Raises:
        InvalidValueError: the value can't be stored in the column's type.
    """
    if value is None:
        return None
    if is_json_text(field):
        return encode_exact_json(value).decode()
    return _value(value, field.data_type, path)


def _value(value: Any, kind: DataType, path: str) -> Any:
    if value is None:
        return None
    match kind:
        case StructType():
            if not isinstance(value, dict):
                raise _unfit(value, kind, path)
            return {f.name: column_value(value.get(f.name), f, f"{path}.{f.name}") for f in kind}
        case ArrayType():
            if not isinstance(value, list):
                raise _unfit(value, kind, path)
            return [_value(v, kind.element_type, f"{path}[{i}]") for i, v in enumerate(value)]
        case MapType():
            if not isinstance(value, dict) or str(kind.key_type) != "string":
                raise _unfit(value, kind, path)
            return [(k, _value(v, kind.value_type, f"{path}.{k}")) for k, v in value.items()]
        case DecimalType():
            return _decimal(value, kind, path)
        case PrimitiveType():
            return _primitive(value, kind, path)


def _primitive(value: Any, kind: PrimitiveType, path: str) -> Any:
    match kind.name, value:
        case ("string", str()) | ("boolean", bool()):
            return value
        case (
            "byte" | "short" | "integer" | "long",
            int() | float() | Decimal(),
        ) if not isinstance(value, bool):
            limit = 1 << (_INTEGER_BITS[kind.name] - 1)
            # The `repr` of a float has the digits of the JSON number, unlike its binary value.
            number = Decimal(repr(value)) if isinstance(value, float) else value
            if -limit <= number < limit and number == int(number):
                return int(number)
        case ("double" | "float", int() | float() | Decimal()) if not isinstance(value, bool):
            try:
                stored = float(value)
                if kind.name == "float":  # raises OverflowError; Arrow would return infinity
                    (stored,) = struct.unpack("<f", struct.pack("<f", value))
            except OverflowError as error:
                raise _unfit(value, kind, path) from error
            if isinstance(value, int) and not _is_same(value, stored):
                raise InvalidValueError(
                    f"field {path!r}: {_shown(value)} would lose digits in its type {kind}: set "
                    "another type in the schema-file"
                )
            return stored
        case ("binary", str()):
            return _bytes(value, kind, path)
        case ("timestamp" | "timestamp_ntz" | "date", str()):
            return _date_or_timestamp(value, kind, path)
    raise _unfit(value, kind, path)


def _is_same(value: int, number: float) -> bool:
    """Whether a float is the same number as an integer.

    They also count as the same number if the integer has the digits that Python prints for the
    float, followed by zeros: JavaScript writes a large float in this form.
    """
    return number == value or Decimal(repr(number)) == value


def _bytes(value: str, kind: PrimitiveType, path: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except ValueError as error:
        raise _unfit(value, kind, path) from error


def _date_or_timestamp(value: str, kind: PrimitiveType, path: str) -> date | datetime:
    try:
        if kind.name == "date":
            return date.fromisoformat(value)
        timestamp = datetime.fromisoformat(value)
        if (timestamp.tzinfo is None) == (kind.name == "timestamp_ntz"):
            return timestamp if timestamp.tzinfo is None else timestamp.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _unfit(value, kind, path) from error
    raise _unfit(value, kind, path)


def _decimal(value: Any, kind: DecimalType, path: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise _unfit(value, kind, path)
    try:
        number = Decimal(number_text(str(value)))
        exact = number.quantize(Decimal(1).scaleb(-kind.scale), context=_DIGITS)
    except (InvalidOperation, ValueError) as error:
        raise _unfit(value, kind, path) from error
    if exact != number or len(exact.as_tuple().digits) > kind.precision:
        raise _unfit(value, kind, path)
    return exact


def _unfit(value: Any, kind: DataType, path: str) -> InvalidValueError:
    return InvalidValueError(f"field {path!r}: {_shown(value)} doesn't fit its type {kind}")


def _shown(value: Any) -> str:
    shown = encode_exact_json(value).decode()
    return shown if len(shown) <= 60 else shown[:57] + "..."
