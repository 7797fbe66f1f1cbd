"""Converts Avro and Protobuf values whose type in the schema isn't the type of their column.

Records are converted to JSON before they become rows. In JSON, bytes are Base64, and a large double
is rounded to 17 digits. Therefore these values are converted before the conversion to JSON:

| value | column | stored |
|---|---|---|
| string | `binary` | the UTF-8 bytes, as in the rules of Avro and Protobuf |
| bytes | `string` | the string, if the bytes are UTF-8 |
| whole `float` or `double` | an integer type | all digits of the number |

If JSON would change the meaning of another value, an error is raised. All remaining values are
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from bayou.ingest.decode.json_schema import is_json_text
from bayou.protocol.schema import (
    BINARY,
    BYTE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

_INTEGERS = (BYTE, SHORT, INTEGER, LONG)


def changed_columns(written: StructType, columns: StructType) -> tuple[StructField, ...]:
    """Return the columns whose type isn't the type of the same field in a record's schema.

    Args:
        written: the record's schema, as columns.
        columns: the columns to which the record is decoded.
    """
    changed = []
    for column in columns:
        field = written.get(column.name)
        if field is None or is_json_text(column):
            continue
        if field.data_type != column.data_type or is_json_text(field):
            changed.append(column)
    return tuple(changed)


def promoted(record: dict[str, Any], columns: Iterable[StructField]) -> dict[str, Any]:
    """Return a record whose values in `columns` are converted to the types of these columns.

    Raises:
        ValueError: a value can't be converted.
    """
    return _struct(record, columns, "")


def _struct(record: dict[str, Any], columns: Iterable[StructField], path: str) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for column in columns:
        value = record.get(column.name)
        if value is not None and not is_json_text(column):
            changed[column.name] = _value(value, column.data_type, f"{path}{column.name}")
    return {**record, **changed}


def _value(value: Any, kind: DataType, path: str) -> Any:
    match kind, value:
        case StructType(), dict():
            return _struct(value, kind, f"{path}.")
        case ArrayType(), list() | tuple():
            return [_value(item, kind.element_type, path) for item in value]
        case MapType(), dict():
            return {key: _value(item, kind.value_type, path) for key, item in value.items()}
    if kind == BINARY:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, Decimal):
            raise _unfit("a decimal", kind, path)
    elif isinstance(value, bytes):
        if kind != STRING:
            raise _unfit("bytes", kind, path)
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise _unfit("bytes that aren't UTF-8", kind, path) from error
    elif isinstance(value, float) and kind in _INTEGERS and value.is_integer():
        return int(value)
    return value


def _unfit(what: str, kind: DataType, path: str) -> ValueError:
    return ValueError(f"field {path!r}: the value has {what}, but its column has the type {kind}")
