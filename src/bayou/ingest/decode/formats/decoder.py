"""Decodes values of any format to columns. Other formats than JSON are first converted to JSON."""

from __future__ import annotations

import base64
import csv
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import BayouError
from bayou.ingest.decode.exact_json import decode_exact_json, encode_exact_json
from bayou.ingest.decode.formats.avro import AvroReader
from bayou.ingest.decode.formats.flattening import flat_columns, flattened, takes_objects
from bayou.ingest.decode.formats.promotion import changed_columns, promoted
from bayou.ingest.decode.formats.protobuf import ProtobufReader
from bayou.ingest.decode.formats.record_format import RecordFormat
from bayou.ingest.decode.formats.registry_json import JsonSchemaReader
from bayou.ingest.decode.formats.timestamps import converted, timestamp_columns
from bayou.ingest.decode.inference import merge_fields
from bayou.ingest.decode.json import Decoded, DecodePlan, JsonDecoder
from bayou.ingest.decode.json_schema import record_validator
from bayou.ingest.decode.nesting import MAX_NESTING, RecordTooDeepError, check_json_nesting
from bayou.ingest.decode.unknown_fields import additions, widened
from bayou.protocol.schema import TIMESTAMP, StructField, StructType

# Python's limit is 128 KB for a value. It applies to the whole process, and is only raised.
csv.field_size_limit(max(csv.field_size_limit(), (1 << 31) - 1))

_MAX_REASON = 300
_NO_COLUMNS = StructType()


class RecordDecoder:
    """Decodes records of one format to the columns of a `DecodePlan`. Not thread-safe.

    If `format.flatten` is set, records are validated against `format.json_schema` before they are
    flattened. Otherwise they are validated against the JSON Schema in the `DecodePlan`.
    """

    def __init__(self, format: RecordFormat, plan: DecodePlan) -> None:
        self._format = format
        self._plan = plan
        self._whole = frozenset(f.name for f in plan.columns if takes_objects(f))
        self._json = JsonDecoder(plan)
        self._masks = {name.lower(): mask for name, mask in format.masks.items()}
        self._validator = (
            None if format.json_schema is None else record_validator(format.json_schema)
        )
        self._read = _reader(format, plan.columns)
        self._read_key = _key_reader(format)
        self._last_columns: StructType | None = None  # the columns of the previous record's schema
        self._columns = StructType()
        self._changed: tuple[StructField, ...] = ()  # columns that have another type in the schema
        self._timestamps: dict[str, StructField] = {}
        self._is_binary = format.name in ("avro", "protobuf")

    @property
    def reads_json(self) -> bool:
        """Whether the format is `json` or `json-schema`.

        In these formats, a field with double values can also have integers that a double can't
        store exactly.
        """
        return self._format.name in ("json", "json-schema")

    def decode(self, values: pa.Array[Any]) -> Decoded:
        """Decode the values of Kafka records; see `JsonDecoder.decode`."""
        if self._format.plain:
            return self._json.decode(values)
        json_values: list[bytes | None] = []
        good: list[int] = []
        bad: list[int] = []
        reasons: list[str] = []
        for position, value in enumerate(values.to_pylist()):
            try:
                json_values.append(None if value is None else self._to_json(value))
                good.append(position)
            except ValueError as error:
                bad.append(position)
                reasons.append(str(error)[:_MAX_REASON])
            except (BayouError, MemoryError):
                raise
            except Exception as error:  # noqa: BLE001  # one record must not stop other records
                bad.append(position)
                reason = f"the record can't be read: {type(error).__name__}: {error}"
                reasons.append(reason[:_MAX_REASON])
        decoded = self._json.decode(pa.array(json_values, pa.binary()))
        positions: Any = pa.array(good, pa.int64())
        new_fields = decoded.new_fields
        if self._plan.discover or self._plan.inputs:
            columns = merge_fields(self._columns, self._timestamps.values())
            added = additions(self._plan.columns, columns)
            valid = [partial for path, partial in added if self._plan.discovers(path, partial.name)]
            schema_fields = merge_fields(StructType(), valid)
            # Types of the records' schema take precedence over types inferred from values.
            typed = {f.name: f for f in schema_fields}
            inferred = {f.name: f for f in new_fields}
            if not self._plan.has_room_for(schema_fields):
                # The records' schemas have more new fields than a record may have. Keep the fields
                # that accepted records contain.
                typed = {name: field for name, field in typed.items() if name in inferred}
            new_fields = StructType(tuple((inferred | typed).values()))
            if self._plan.widens:
                wider = widened(self._plan.columns, columns)
                if changed := [f for f in wider if f != self._plan.columns.get(f.name)]:
                    # The batch is decoded again with the wider types, which adds the new fields.
                    new_fields = StructType(tuple(changed))
        return Decoded(
            columns=decoded.columns,
            positions=positions.take(decoded.positions),
            bad_positions=pa.concat_arrays(
                [positions.take(decoded.bad_positions), pa.array(bad, pa.int64())]
            ),
            reasons=pa.concat_arrays([decoded.reasons, pa.array(reasons, pa.string())]),
            new_fields=new_fields,
            ignored=decoded.ignored,
        )

    def flat(self, record: dict[str, Any]) -> dict[str, Any]:
        """Flatten a record, or a part of a record.

        If `format.flatten` is None, the record is returned unchanged.

        Raises:
            ValueError: the record can't be flattened.
        """
        separator = self._format.flatten
        if separator is None:
            return record
        return flattened(record, separator, self._whole, self._masks)

    def with_timestamps(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return a record with the fields of `format.timestamps` converted to UTC timestamps.

        Raises:
            ValueError: a timestamp doesn't match its format.
        """
        return converted(record, self._format.timestamps)

    def key_json(self, key: bytes, columns: Sequence[StructField] = ()) -> bytes:
        """Convert a Kafka key to JSON; if `format.key` is `json`, return the key unchanged.

        Args:
            columns: the columns that store the key's fields. If the topic's values are Avro or
                Protobuf, the fields are converted to the types of these columns; see `promoted`. If
                the key is a single value without fields, it is converted to the type of the only
                column.

        Raises:
            ValueError: the key can't be read.
            KafkaError: the schema registry doesn't answer.
        """
        if self._read_key is None:
            return key
        try:
            record, _ = _checked((self._read_key(key), _NO_COLUMNS))
            if self._format.key != "json-schema" and self._is_binary and columns:
                record = _promoted_key(record, columns)
        except (BayouError, MemoryError, ValueError):
            raise
        except Exception as error:
            raise ValueError(f"decoding failed: {type(error).__name__}: {error}") from error
        if self._format.key == "json-schema":
            return encode_exact_json(record)
        return msgspec.json.encode(record, enc_hook=_encode_other)

    def key_text(self, key: bytes | None) -> str | None:
        """Convert a Kafka key to the JSON text that a string column stores.

        If `format.key` is `json` and the key isn't valid JSON, the key is encoded as a JSON value
        of type string: `a` becomes `"a"`.

        Raises:
            ValueError: the key can't be read.
            KafkaError: the schema registry doesn't answer.
        """
        if key is None:
            return None
        text = self.key_json(key).decode()
        if self._read_key is not None:
            return text
        try:
            check_json_nesting(key)
            decode_exact_json(key)
        except (msgspec.DecodeError, RecursionError):
            return msgspec.json.encode(text).decode()
        return text

    def _to_json(self, value: bytes) -> bytes:
        record, columns = self._read(value)
        if self._format.flatten is not None:
            if not isinstance(record, dict):
                raise ValueError("not an object")
            self._validate(msgspec.json.decode(value) if self._format.name == "json" else record)
            record = self.flat(record)
        if self._format.timestamps and isinstance(record, dict):
            record = self.with_timestamps(record)
            for name in self._format.timestamps:
                if name not in self._timestamps and record.get(name) is not None:
                    self._timestamps[name] = StructField(name=name, data_type=TIMESTAMP)
        if columns is not self._last_columns:  # cached, because most records share a few schemas
            self._last_columns = columns
            written = self._table_columns(columns)
            self._columns = merge_fields(self._columns, written)
            if self._is_binary:
                self._changed = changed_columns(written, self._plan.columns)
        if self._changed:
            record = promoted(record, self._changed)
        if self._format.name in ("json", "json-schema", "csv"):
            return encode_exact_json(record)
        return msgspec.json.encode(record, enc_hook=_encode_other)

    def _validate(self, record: Any) -> None:
        if self._validator is not None and not self._validator.is_valid(record):
            error = next(iter(self._validator.iter_errors(record)))
            raise ValueError(f"schema: {error.message}")

    def _table_columns(self, columns: StructType) -> StructType:
        separator, timestamps = self._format.flatten, self._format.timestamps
        if separator is not None:
            columns = flat_columns(columns, separator)
        return timestamp_columns(columns, timestamps)


def _reader(format: RecordFormat, columns: StructType) -> Callable[[bytes], tuple[Any, StructType]]:
    kinds = {f.name: str(f.data_type) for f in columns}
    match format.name:
        case "avro":
            avro = AvroReader(format.registry, format.schema)
            return lambda value: _checked(avro.read(value))
        case "protobuf":
            assert format.registry is not None  # checked by the configuration
            protobuf = ProtobufReader(format.registry)
            return lambda value: _checked(protobuf.read(value))
        case "json-schema":
            assert format.registry is not None  # checked by the configuration
            return JsonSchemaReader(format.registry).read
        case "csv":
            return lambda value: (_csv(value, format, kinds), _NO_COLUMNS)
        case "string":
            return lambda value: ({"value": _utf8(value)}, _NO_COLUMNS)
        case "binary":
            return lambda value: ({"value": base64.b64encode(value).decode()}, _NO_COLUMNS)
        case "json":
            return lambda value: (_json(value), _NO_COLUMNS)


def _key_reader(format: RecordFormat) -> Callable[[bytes], Any] | None:
    if format.key == "json":
        return None
    registry = format.key_registry
    assert registry is not None  # checked by the configuration
    match format.key:
        case "avro":
            return AvroReader(registry, None).record
        case "protobuf":
            protobuf = ProtobufReader(registry)
            return lambda key: protobuf.read(key)[0]
        case "json-schema":
            return JsonSchemaReader(registry).record


def _promoted_key(key: Any, columns: Sequence[StructField]) -> Any:
    if isinstance(key, dict):
        return promoted(key, columns)
    if len(columns) > 1:
        return key
    return promoted({columns[0].name: key}, columns)[columns[0].name]


def _json(value: bytes) -> Any:
    check_json_nesting(value)
    try:
        return decode_exact_json(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not valid JSON: {error}") from error


def _utf8(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error


def _csv(value: bytes, format: RecordFormat, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Convert a line of CSV to a JSON object.

    Empty values are omitted. The values of number and boolean columns are parsed; the values of all
    other columns remain strings.

    Args:
        kinds: the type of each column, by name.
    """
    try:
        lines = list(csv.reader([_utf8(value)], delimiter=format.csv_delimiter, strict=True))
    except csv.Error as error:
        raise ValueError(f"not a line of CSV: {error}") from error
    cells = lines[0] if lines else []
    if len(lines) != 1 or len(cells) != len(format.csv_columns):
        raise ValueError(f"the line has {len(cells)} values instead of {len(format.csv_columns)}")
    return {
        name: _cell(cell, kinds.get(name, "string"))
        for name, cell in zip(format.csv_columns, cells, strict=True)
        if cell
    }


def _cell(cell: str, kind: str) -> Any:
    if kind in _PARSED:
        try:
            return decode_exact_json(cell.lower() if kind == "boolean" else cell)
        except (msgspec.DecodeError, RecursionError):
            return cell  # not a number; validation refuses it
    return cell


_PARSED = frozenset(("long", "integer", "short", "byte", "double", "float", "boolean"))


def _checked(read: tuple[Any, StructType]) -> tuple[Any, StructType]:
    """Check that a record from Avro or Protobuf can be stored; return it with its columns.

    Raises:
        RecordTooDeepError: the record is nested too deeply.
        ValueError: a number is infinite or NaN.
    """
    level = [read[0]]
    depth = 0
    while level:
        depth += 1
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list | tuple):
                inner += value
            elif isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"a number is {value}, which can't be stored")
        if depth > MAX_NESTING and any(isinstance(v, dict | list | tuple) for v in level):
            raise RecordTooDeepError
        level = inner
    return read


def _encode_other(value: object) -> Any:
    return str(value)
