"""Reads Avro values, and converts Avro schemas to columns.

| Avro | Delta type |
|---|---|
| `int`, `long`, `float`, `double`, `boolean`, `string`, `bytes` | `integer`, `long`, ... |
| `fixed`; `enum`; `uuid` | `binary`; `string`; `string` |
| `date`; `timestamp-micros`, `-millis`; `local-...` | `date`; `timestamp`; `timestamp_ntz` |
| `decimal` | `decimal`, of at most 38 digits |
| `record`, `array`, `map` | `struct`, `array`, `map` |
| a union of null and one type | that type |
| a union of several types | `string`, with the value as JSON |

A logical type that Avro doesn't define for the annotated type is ignored, as Avro's specification
requires.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator, Mapping
from datetime import time
from decimal import Context, Decimal
from typing import Any

import fastavro
from fastavro import _read_py
from fastavro.io.binary_decoder import BinaryDecoder
from fastavro.read import LOGICAL_READERS
from fastavro.schema import SchemaParseException

from bayou.errors import BayouError
from bayou.ingest.decode.formats.schema_registry import Registry, split_header
from bayou.ingest.decode.json_schema import JSON_TEXT
from bayou.ingest.decode.nesting import MAX_NESTING, RecordTooDeepError, check_json_nesting
from bayou.ingest.decode.schema_size import FieldCount, SchemaTooLargeError
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
    "bayou-time-millis": STRING,
    "bayou-time-micros": STRING,
    "bayou-uuid": STRING,
    "uuid": STRING,
}

_LOGICAL_TYPES: Mapping[tuple[str, str], str] = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp-millis",
    ("long", "timestamp-micros"): "timestamp-micros",
    ("long", "local-timestamp-millis"): "local-timestamp-millis",
    ("long", "local-timestamp-micros"): "local-timestamp-micros",
    ("int", "time-millis"): "bayou-time-millis",
    ("long", "time-micros"): "bayou-time-micros",
    ("string", "uuid"): "uuid",
    ("fixed", "uuid"): "bayou-uuid",
    ("bytes", "decimal"): "bayou-decimal",
    ("fixed", "decimal"): "bayou-decimal",
}
"""For each pair of an Avro type and a logical type, the name of the reader in fastavro.

fastavro defines these readers, except the readers with the prefix `bayou-`, which `_add_readers`
adds.
"""

_MAX_DECIMAL_BYTES = 64
_EXACT = Context(prec=200)


def _decimal(data: bytes, writer: Any, _reader: Any = None) -> Decimal:
    """Read a decimal with all digits. fastavro's own reader rounds to the precision of the schema.

    Raises:
        ValueError: the decimal has more than `_MAX_DECIMAL_BYTES` bytes.
    """
    if len(data) > _MAX_DECIMAL_BYTES:
        raise ValueError(f"a decimal has {len(data)} bytes, more than {_MAX_DECIMAL_BYTES}")
    unscaled = int.from_bytes(data, "big", signed=True)
    return Decimal(unscaled).scaleb(-writer.get("scale", 0), _EXACT)


def _time(microseconds: int) -> time:
    """Convert microseconds since midnight to a time.

    Raises:
        ValueError: the number is negative or isn't less than a day.
    """
    if not 0 <= microseconds < 86_400_000_000:
        raise ValueError(f"{microseconds} us isn't a time of a day")
    seconds, fraction = divmod(microseconds, 1_000_000)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, fraction)


def _add_readers() -> None:
    """Register readers of logical types with fastavro, under names such as `bayou-decimal`."""
    python: Any = _read_py
    for readers in (LOGICAL_READERS, python.LOGICAL_READERS):
        readers["bytes-bayou-decimal"] = readers["fixed-bayou-decimal"] = _decimal
        readers["int-bayou-time-millis"] = lambda value, *_: _time(1000 * value)
        readers["long-bayou-time-micros"] = lambda value, *_: _time(value)
        readers["fixed-bayou-uuid"] = lambda data, *_: uuid.UUID(bytes=data)


_add_readers()


def _with_known_logical_types(schema: Any) -> Any:
    """Replace each logical type in a JSON schema by the name of its fastavro reader.

    The names are in `_LOGICAL_TYPES`. A logical type that isn't in `_LOGICAL_TYPES` is removed.
    """
    match schema:
        case list():
            return [_with_known_logical_types(option) for option in schema]
        case dict():
            changed = {
                key: _with_known_logical_types(value) if key in _INNER_SCHEMAS else value
                for key, value in schema.items()
            }
        case _:
            return schema
    if isinstance(fields := changed.get("fields"), list):
        changed["fields"] = [_with_known_logical_types(field) for field in fields]
    logical, kind = changed.pop("logicalType", None), changed.get("type")
    name = _LOGICAL_TYPES.get((str(kind), str(logical)))
    if name == "bayou-decimal" and not _is_valid_decimal(changed):
        name = "decimal"  # not a known schema; parsing refuses it
    if name is not None and (name != "bayou-uuid" or changed.get("size") == _UUID_BYTES):
        changed["logicalType"] = name
    return changed


_INNER_SCHEMAS = frozenset(("type", "items", "values"))
_UUID_BYTES = 16
_MAX_DIGITS = 38


def _is_valid_decimal(schema: Mapping[str, Any]) -> bool:
    precision: Any = schema.get("precision")
    scale: Any = schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        return False
    return precision > 0 and 0 <= scale <= min(precision, _MAX_DIGITS)


class AvroReader:
    """Reads Avro values, each with the schema of its writer.

    Args:
        registry: the schema registry for values that start with a registry's header.
        schema: the schema of values without a registry's header. If None, a value without a header
            is an error.
    """

    def __init__(self, registry: Registry | None, schema: str | None) -> None:
        self._registry = registry
        self._schemas: dict[int, _Schema] = {}
        self._refused: dict[int, str] = {}
        self._columns: dict[int | None, StructType] = {}
        self._default_schema = None if schema is None else _Schema(_parsed(schema))

    def read(self, value: bytes) -> tuple[Any, StructType]:
        """Return a decoded value, and the columns of its schema.

        For values with the same schema, the columns are the same object.

        Raises:
            ValueError: the value can't be read, or the registry doesn't have its schema.
            KafkaError: the registry doesn't answer.
        """
        schema, number, body = self._split(value)
        columns = self._columns_of(schema, number)
        return _record(schema, body), columns

    def record(self, value: bytes) -> Any:
        """Return the decoded value. It can be any value, not only a record.

        Raises the same errors as `read`.
        """
        schema, _, body = self._split(value)
        return _record(schema, body)

    def _split(self, value: bytes) -> tuple[_Schema, int | None, bytes]:
        """Return a value's schema, the schema's id in the registry, and the bytes after the header.

        For a value without a header, the schema is the default schema, and the id is None.
        """
        number, schema, body = None, self._default_schema, value
        header = None if self._registry is None else split_header(value)
        if header is not None:
            number, body = header
            schema = self._schema(number)
        if schema is None:
            raise ValueError("doesn't start with a schema registry's header")
        return schema, number, body

    def _columns_of(self, schema: _Schema, number: int | None) -> StructType:
        known = self._columns.get(number)
        if known is None:
            try:
                known = self._columns[number] = avro_columns(schema.parsed)
            except ValueError as error:
                if number is not None:
                    self._refused[number] = str(error)
                raise
        return known

    def _schema(self, number: int) -> _Schema:
        known = self._schemas.get(number)
        if number in self._refused:
            raise ValueError(self._refused[number])
        if known is None:
            assert self._registry is not None
            response = self._registry.schema(number)
            named: dict[str, Any] = {}
            try:
                self._parse_references(response, named)
                known = _Schema(_parsed(response["schema"], named))
            except BayouError:
                raise
            except Exception as error:  # the library raises various exceptions for invalid schemas
                reason = f"schema {number} of the registry isn't Avro: {error}"
                if isinstance(error, SchemaTooLargeError):
                    reason = f"schema {number} of the registry: {error}"
                self._refused[number] = reason
                raise ValueError(reason) from error
            self._schemas[number] = known
        return known

    def _parse_references(self, response: Mapping[str, Any], named: dict[str, Any]) -> None:
        assert self._registry is not None
        for reference in response.get("references") or ():
            referenced = self._registry.version(reference["subject"], reference["version"])
            self._parse_references(referenced, named)
            _parsed(referenced["schema"], named)


class _Schema:
    """A parsed Avro schema, with a method that reads values.

    A zero-byte value, such as a null, has an empty encoding. fastavro's compiled reader limits
    neither the recursion depth nor the number of zero-byte values. A record of a few bytes could
    therefore crash the process. If a schema allows such records, fastavro's slower Python reader
    reads its values, with limits.

    Attributes:
        is_bounded: whether values are read by the Python reader with limits.
    """

    def __init__(self, parsed: Any) -> None:
        self.parsed = parsed
        named = parsed.get("__named_schemas", {}) if isinstance(parsed, dict) else {}
        self._named: Mapping[str, Any] = named
        self.is_bounded = _is_recursive(parsed, dict(named), (), set())
        if not self.is_bounded:
            zero_byte = _ZeroByteValues(dict(named))
            if zero_byte.of(parsed) > _MAX_ZERO_BYTE_VALUES:
                raise SchemaTooLargeError
            self.is_bounded = zero_byte.inside_arrays

    def read(self, stream: io.BytesIO) -> Any:
        if not self.is_bounded:
            return fastavro.schemaless_reader(stream, self.parsed, None)
        read: Any = _read_py.read_data
        named = {"writer": dict(self._named), "reader": {}}
        return read(_BoundedDecoder(stream), self.parsed, named, None, {})


def _record(schema: _Schema, body: bytes) -> Any:
    stream = io.BytesIO(body)
    try:
        record = schema.read(stream)
    except RecursionError as error:
        raise RecordTooDeepError from error
    except (EOFError, ValueError, IndexError, TypeError, KeyError, OverflowError) as error:
        raise ValueError(
            f"doesn't match its Avro schema: {type(error).__name__} {error}"
        ) from error
    if stream.read(1):
        raise ValueError("doesn't match its Avro schema: extra bytes at the end")
    return record


_MAX_ZERO_BYTE_VALUES = 100_000
"""Maximum number of zero-byte values in a record: nulls, and records that only contain nulls."""


class _BoundedDecoder(BinaryDecoder):
    """Decoder that raises `ValueError` if a record has more zero-byte values than the limit.

    The limit is `_MAX_ZERO_BYTE_VALUES`. Each null is counted. Each element of an array or a map is
    also counted, because its encoding can be empty.
    """

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)  # type: ignore[no-untyped-call]
        self._zero_byte_values = 0

    def read_null(self) -> None:
        self._count()

    def _iter_elements(self) -> Iterator[None]:
        for element in super()._iter_array_or_map():  # type: ignore[no-untyped-call]
            self._count()
            yield element

    iter_array = _iter_elements
    iter_map = _iter_elements

    def _count(self) -> None:
        self._zero_byte_values += 1
        if self._zero_byte_values > _MAX_ZERO_BYTE_VALUES:
            raise ValueError(
                f"the record has more than {_MAX_ZERO_BYTE_VALUES:,} zero-byte values, such as "
                "nulls"
            )


class _ZeroByteValues:
    """Computes the number of zero-byte values that one value of a schema can contain.

    A zero-byte value, such as a null, has an empty encoding. Elements of arrays and maps aren't
    included in the number.

    Attributes:
        inside_arrays: whether elements of an array or a map can have zero-byte values.
    """

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._known: dict[str, tuple[int, bool]] = {}
        self.inside_arrays = False

    def of(self, schema: Any) -> int:
        """Return the maximum number of zero-byte values in one value of a schema.

        Elements of arrays and maps aren't counted. The schema must not be recursive.
        """
        return self._of(schema)[0]

    def _of(self, schema: Any) -> tuple[int, bool]:
        """Return the maximum number of zero-byte values in one value, as `of` does.

        Also return whether all values of the schema have an empty encoding.
        """
        match schema:
            case list():  # a union's index takes a byte
                options = (self.of(option) for option in schema if option != "null")
                return max(options, default=0), False
            case "null":
                return 1, True
            case str():
                if schema not in self._known and schema in self._named:
                    return self._of(self._named[schema])
                return self._known.get(schema, (0, False))
        match schema["type"]:
            case "record" | "error":
                fields = [self._of(field["type"]) for field in schema["fields"]]
                empty = all(is_zero_byte for _, is_zero_byte in fields)
                result = sum(count for count, _ in fields) + empty, empty
            case "array" | "map" as kind:
                elements = schema["items" if kind == "array" else "values"]
                self.inside_arrays |= self.of(elements) > 0
                return 0, False
            case "enum":
                result = 0, False
            case "fixed":
                result = int(schema["size"] == 0), schema["size"] == 0
            case inner:
                return self._of(inner)
        self._known[schema["name"]] = result
        return result


def _parsed(text: str, named: dict[str, Any] | None = None) -> Any:
    """Check the nesting depth of a schema, then parse the schema.

    `named` contains the named types to which the schema can refer. The schema's own named types are
    added to `named`.
    """
    check_json_nesting(text.encode(), _MAX_SCHEMA_NESTING)
    schema = _with_known_logical_types(json.loads(text))
    return fastavro.parse_schema(schema, named_schemas={} if named is None else named)


_MAX_SCHEMA_NESTING = 4 * MAX_NESTING
"""Maximum nesting depth of the JSON of an Avro schema.

Each nested record has up to four levels: the object of the field, the array of a union, the object
of the record, and the array of the record's fields.
"""


def _is_recursive(
    schema: Any, named: dict[str, Any], inside: tuple[str, ...], known: set[str]
) -> bool:
    """Whether a schema has a type that contains itself.

    Args:
        named: the named types. The types that the schema defines are added to this dict.
        inside: the names of the types that contain `schema`.
        known: names of types that aren't recursive. Names that this function finds are added.
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
    """Convert a parsed Avro schema of a record to columns.

    Raises:
        ValueError: the schema isn't the schema of a record.
    """
    named = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}
    try:
        kind: DataType | None = _type(schema, dict(named), (), FieldCount())
    except _AnyValueError:
        kind = None
    except KeyError as error:  # a decimal without precision; fastavro checks most other keys
        raise ValueError(f"the Avro schema lacks {error}") from error
    if not isinstance(kind, StructType):
        raise ValueError("the Avro schema isn't a record")  # noqa: TRY004  # an invalid value
    return kind


def avro_schema_columns(text: str) -> StructType:
    """Parse the JSON of an Avro schema of a record, and convert the schema to columns.

    Raises:
        ValueError: the text isn't an Avro schema, or isn't the schema of a record.
    """
    try:
        return avro_columns(_Schema(_parsed(text)).parsed)
    except (SchemaParseException, TypeError, RecursionError) as error:
        raise ValueError(f"not an Avro schema: {error}") from error


class _AnyValueError(Exception):
    """A type is recursive or a union, so its values are stored as JSON in a string column."""


def _type(
    schema: Any, named: dict[str, Any], inside: tuple[str, ...], count: FieldCount
) -> DataType:
    match schema:
        case list():
            options = [s for s in schema if s != "null"]
            if len(options) != 1:
                raise _AnyValueError
            return _type(options[0], named, inside, count)
        case str() if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        case str():
            if schema in inside or schema not in named:
                raise _AnyValueError
            return _type(named[schema], named, inside, count)
    logical = schema.get("logicalType")
    if logical in ("bayou-decimal", "decimal"):
        precision = min(schema["precision"], _MAX_DIGITS)
        return DecimalType(precision=precision, scale=schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    match schema["type"]:
        case "record" | "error":
            named[schema["name"]] = schema
            names = (*inside, schema["name"])
            return StructType(tuple(_field(f, named, names, count) for f in schema["fields"]))
        case "array":
            return ArrayType(element_type=_type(schema["items"], named, inside, count))
        case "map":
            value_type = _type(schema["values"], named, inside, count)
            return MapType(key_type=STRING, value_type=value_type)
        case "enum" | "fixed" as kind:
            named[schema["name"]] = schema
            return _PRIMITIVES[kind]
        case inner:
            return _type(inner, named, inside, count)


def _field(
    field: Any, named: dict[str, Any], inside: tuple[str, ...], count: FieldCount
) -> StructField:
    count.add()
    try:
        return StructField(name=field["name"], data_type=_type(field["type"], named, inside, count))
    except _AnyValueError:
        return StructField(name=field["name"], data_type=STRING, metadata=JSON_TEXT)
