"""Avro values, and the columns of an Avro schema.

| Avro | Delta type |
|---|---|
| `int`, `long`, `float`, `double`, `boolean`, `string`, `bytes` | `integer`, `long`, ... |
| `fixed`; `enum`; `uuid` | `binary`; `string`; `string` |
| `date`; `timestamp-micros`, `-millis`; `local-...` | `date`; `timestamp`; `timestamp_ntz` |
| `decimal` | `decimal` |
| `record`, `array`, `map` | `struct`, `array`, `map` |
| a union of null and one type | that type; of several types the JSON text of the value |
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from bayou.errors import BayouError
from bayou.ingest.decode.formats.registry import Registry, split_header
from bayou.ingest.decode.json_schema import JSON_TEXT
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
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)

__all__ = ["AvroReader", "avro_columns", "avro_schema_columns"]

_PRIMITIVES: Mapping[str, DataType] = {
    "int": INTEGER,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "string": STRING,
    "bytes": BINARY,
    "fixed": BINARY,
    "enum": STRING,
}
_LOGICAL: Mapping[str, DataType] = {
    "date": DATE,
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "local-timestamp-millis": TIMESTAMP_NTZ,
    "local-timestamp-micros": TIMESTAMP_NTZ,
    "time-millis": STRING,
    "time-micros": STRING,
    "uuid": STRING,
}


class AvroReader:
    """Reads values by the schemas that they were written with.

    Args:
        registry: for values with its header.
        schema: text of the schema of those without.
    """

    def __init__(self, registry: Registry | None, schema: str | None) -> None:
        self._registry = registry
        self._schemas: dict[int, Any] = {}
        self._columns: dict[int | None, StructType] = {}
        self._own = None if schema is None else fastavro.parse_schema(json.loads(schema))

    def read(self, value: bytes) -> tuple[Any, StructType]:
        """A value, and the columns of its schema, the same object for the same schema.

        Raises:
            ValueError: it can't be read, or the registry doesn't have its schema.
            KafkaError: the registry doesn't answer.
        """
        number, schema, body = None, self._own, value
        header = None if self._registry is None else split_header(value)
        if header is not None:
            number, body = header
            schema = self._of(number)
        if schema is None:
            raise ValueError("not Avro with a schema registry's header")
        there = io.BytesIO(body)
        try:
            record = fastavro.schemaless_reader(there, schema, None)
        except (EOFError, ValueError, IndexError, TypeError, KeyError, OverflowError) as error:
            raise ValueError(f"not Avro of its schema: {type(error).__name__} {error}") from error
        if there.read(1):
            raise ValueError("not Avro of its schema: there are bytes behind it")
        columns = self._columns.get(number)
        if columns is None:
            columns = self._columns[number] = avro_columns(schema)
        return record, columns

    def _of(self, number: int) -> Any:
        known = self._schemas.get(number)
        if known is None:
            assert self._registry is not None
            told = self._registry.schema(number)
            named: dict[str, Any] = {}
            try:
                self._refer(told, named)
                known = fastavro.parse_schema(json.loads(told["schema"]), named_schemas=named)
            except BayouError:
                raise
            except Exception as error:  # a foreign schema may fail anywhere in the library
                raise ValueError(f"schema {number} of the registry isn't Avro: {error}") from error
            self._schemas[number] = known
        return known

    def _refer(self, told: Mapping[str, Any], named: dict[str, Any]) -> None:
        assert self._registry is not None
        for reference in told.get("references") or ():
            other = self._registry.version(reference["subject"], reference["version"])
            self._refer(other, named)
            fastavro.parse_schema(json.loads(other["schema"]), named_schemas=named)


def avro_columns(schema: Any) -> StructType:
    """The columns of a record's schema, parsed.

    Raises:
        ValueError: it isn't a record's.
    """
    others = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}
    try:
        kind: DataType | None = _type(schema, dict(others), ())
    except _AnyValueError:
        kind = None
    except KeyError as error:  # a decimal without precision; fastavro looks at most of the rest
        raise ValueError(f"the Avro schema lacks {error}") from error
    if not isinstance(kind, StructType):
        raise ValueError("the Avro schema isn't of a record")  # noqa: TRY004  # of its text
    return kind


def avro_schema_columns(text: str) -> StructType:
    """The columns of a record's schema file.

    Raises:
        ValueError: it isn't Avro's, or not a record's.
    """
    try:
        return avro_columns(fastavro.parse_schema(json.loads(text)))
    except (SchemaParseException, TypeError) as error:
        raise ValueError(f"not an Avro schema: {error}") from error


class _AnyValueError(Exception):
    """A union of several types, or a type inside itself: JSON text."""


def _type(schema: Any, named: dict[str, Any], inside: tuple[str, ...]) -> DataType:
    match schema:
        case list():
            options = [s for s in schema if s != "null"]
            if len(options) != 1:
                raise _AnyValueError
            return _type(options[0], named, inside)
        case str() if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        case str():
            if schema in inside or schema not in named:
                raise _AnyValueError
            return _type(named[schema], named, inside)
    logical = schema.get("logicalType")
    if logical == "decimal":
        return DecimalType(precision=schema["precision"], scale=schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    match schema["type"]:
        case "record" | "error":
            named[schema["name"]] = schema
            names = (*inside, schema["name"])
            return StructType(tuple(_field(f, named, names) for f in schema["fields"]))
        case "array":
            return ArrayType(element_type=_type(schema["items"], named, inside))
        case "map":
            return MapType(key_type=STRING, value_type=_type(schema["values"], named, inside))
        case "enum" | "fixed" as kind:
            named[schema["name"]] = schema
            return _PRIMITIVES[kind]
        case inner:
            return _type(inner, named, inside)


def _field(field: Any, named: dict[str, Any], inside: tuple[str, ...]) -> StructField:
    try:
        return StructField(name=field["name"], data_type=_type(field["type"], named, inside))
    except _AnyValueError:
        return StructField(name=field["name"], data_type=STRING, metadata=JSON_TEXT)
