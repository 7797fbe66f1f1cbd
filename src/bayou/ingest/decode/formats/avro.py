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
from fastavro import _read_py
from fastavro.schema import SchemaParseException

from bayou.errors import BayouError
from bayou.ingest.decode.formats.registry import Registry, split_header
from bayou.ingest.decode.json_schema import JSON_TEXT
from bayou.ingest.decode.nesting import MAX_NESTING, RecordTooDeepError, check_json_nesting
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
        self._schemas: dict[int, _Schema] = {}
        self._columns: dict[int | None, StructType] = {}
        self._own = None if schema is None else _Schema(_parsed(schema))

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
            record = schema.read(there, schema.parsed, None)
        except RecursionError as error:
            raise RecordTooDeepError from error
        except (EOFError, ValueError, IndexError, TypeError, KeyError, OverflowError) as error:
            raise ValueError(f"not Avro of its schema: {type(error).__name__} {error}") from error
        if there.read(1):
            raise ValueError("not Avro of its schema: there are bytes behind it")
        columns = self._columns.get(number)
        if columns is None:
            columns = self._columns[number] = avro_columns(schema.parsed)
        return record, columns

    def _of(self, number: int) -> _Schema:
        known = self._schemas.get(number)
        if known is None:
            assert self._registry is not None
            told = self._registry.schema(number)
            named: dict[str, Any] = {}
            try:
                self._refer(told, named)
                known = _Schema(_parsed(told["schema"], named))
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
            _parsed(other["schema"], named)


class _Schema:
    """A parsed schema, and the function that reads values by it.

    The compiled reader of fastavro doesn't bound its recursion: a value of a recursive schema
    overflows the stack, which ends the process. The reader in Python raises `RecursionError`.
    """

    def __init__(self, parsed: Any) -> None:
        self.parsed = parsed
        named = parsed.get("__named_schemas", {}) if isinstance(parsed, dict) else {}
        recursive = _is_recursive(parsed, dict(named), (), set())
        self.read: Any = _read_py.schemaless_reader if recursive else fastavro.schemaless_reader


def _parsed(text: str, named: dict[str, Any] | None = None) -> Any:
    """The only place where a schema's text is parsed: its depth is bounded, too."""
    check_json_nesting(text.encode(), _MAX_SCHEMA_NESTING)
    return fastavro.parse_schema(json.loads(text), named_schemas={} if named is None else named)


_MAX_SCHEMA_NESTING = 4 * MAX_NESTING
"""A record inside a record is an object in an array in an object of the schema's text."""


def _is_recursive(
    schema: Any, named: dict[str, Any], inside: tuple[str, ...], known: set[str]
) -> bool:
    """Whether a type is inside itself.

    Args:
        named: the types that have a name.
        inside: names of the types around it.
        known: names of types that aren't recursive.
    """
    match schema:
        case list():
            return any(_is_recursive(option, named, inside, known) for option in schema)
        case str():
            if schema in inside:
                return True
            if schema in known or schema not in named:
                return False
            return _is_recursive(named[schema], named, inside, known)
    match schema["type"]:
        case "record" | "error":
            name = schema["name"]
            if name in inside:
                return True
            named[name] = schema
            within = (*inside, name)
            if any(_is_recursive(f["type"], named, within, known) for f in schema["fields"]):
                return True
            known.add(name)
            return False
        case "array":
            return _is_recursive(schema["items"], named, inside, known)
        case "map":
            return _is_recursive(schema["values"], named, inside, known)
        case "enum" | "fixed":
            return False
        case inner:
            return _is_recursive(inner, named, inside, known)


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
        return avro_columns(_parsed(text))
    except (SchemaParseException, TypeError, RecursionError) as error:
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
