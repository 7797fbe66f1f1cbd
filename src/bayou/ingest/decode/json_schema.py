"""Converts a JSON Schema file to the columns of a Delta table.

| JSON Schema | Delta type |
|---|---|
| `integer` | `long` |
| `number` | `double` |
| `boolean` | `boolean` |
| `string` | `string` |
| `string`, format `date-time` | `timestamp` |
| `string`, format `date` | `date` |
| `object` with `properties` | `struct` of the properties |
| `object` without `properties` | `string` with its JSON |
| `array` whose `items` have one of the types above | `array` of this type |
| `array` of anything else, or without `items` | `string` with its JSON |
| `[T, "null"]`, `anyOf`/`oneOf` of `T` and `null` | as `T` |
| `anyOf`/`oneOf` whose branches all have one type | that type |
| `allOf` | the type of its parts, with the `properties` of all parts |
| `enum` or `const` without `type` | the type of its values, if they have one type |
| any other union, `{}`, `true` | `string` with the JSON of the value |
| `$ref` in the same file, `#/...` or the name of an `$anchor` | the type of its target |

All columns are nullable, because a later version of the schema may drop `required`. The key
`$schema` selects the draft; drafts 4 to 2020-12 are supported. Formats are validated.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
import msgspec

from bayou.errors import ConfigurationError
from bayou.ingest.decode.schema_size import MAX_FIELDS, FieldCount
from bayou.protocol.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    ArrayType,
    DataType,
    StructField,
    StructType,
)

JSON_TEXT: Mapping[str, Any] = {"bayou.encoding": "json"}
"""Metadata of a string column that contains the JSON of a value."""

STRING_FORMATS = {"date-time": TIMESTAMP, "date": DATE}
"""The column type of a string with a format. Other strings have the type `string`."""

SCALAR_TYPES = {"integer": LONG, "number": DOUBLE, "boolean": BOOLEAN}
"""The column type of each JSON type, except strings, objects and arrays."""

_MAX_REFERENCES = 32
_MAX_STEPS = 10 * MAX_FIELDS
"""Maximum number of subschemas to visit. A field can have several subschemas."""


class _AnyValueError(Exception):
    """A schema allows values of several types, so a string column stores their JSON."""


def read_json_schema(file: Path) -> str:
    """Return the text of a JSON Schema file.

    Raises:
        ConfigurationError: the file can't be read, or isn't a valid JSON Schema of records.
    """
    name = str(file)
    try:
        text = file.read_text(encoding="utf-8")
        document = msgspec.json.decode(text)
        record_validator(text)
        record_columns(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{name}: can't be read: {error}", file=name) from error
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"{name}: not valid JSON: {error}", file=name) from error
    except ValueError as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigurationError(f"{name}: not a valid JSON Schema: {reason}", file=name) from error
    if not isinstance(document, dict):
        raise ConfigurationError(f"{name}: the JSON Schema must be a JSON object", file=name)
    return text


def record_validator(text: str) -> Any:
    """Return a validator for a JSON Schema, with the methods of `jsonschema_rs.Validator`.

    Raises:
        ValueError: the schema is invalid, or refers to another file.
    """
    return jsonschema_rs.validator_for(
        msgspec.json.decode(text), validate_formats=True, retriever=_refuse_remote
    )


def record_columns(text: str) -> StructType:
    """Convert the JSON Schema of a record to columns.

    Raises:
        ValueError: the schema doesn't describe an object with properties, or two property names
            differ only in case.
    """
    document = msgspec.json.decode(text)
    try:
        columns = _Columns(document).of(document, 0) if isinstance(document, dict) else None
    except _AnyValueError:
        columns = None
    if not isinstance(columns, StructType):
        raise ValueError("the root of the schema must have type 'object' and a key 'properties'")  # noqa: TRY004
    folded: dict[str, str] = {}
    for name in columns.names:
        other = folded.setdefault(name.lower(), name)
        if other != name:
            raise ValueError(
                f"properties {other!r} and {name!r} differ only in case, but column names ignore "
                "case. Rename one of them."
            )
    return columns


def is_json_text(field: StructField) -> bool:
    """Whether a string column stores JSON instead of plain strings."""
    return all(field.metadata.get(key) == value for key, value in JSON_TEXT.items())


class _Columns:
    """Computes the column types of the subschemas of one JSON Schema document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._count = FieldCount(_MAX_STEPS)

    def of(self, schema: Any, references: int) -> DataType:
        self._count.add()
        if not isinstance(schema, dict):
            raise _AnyValueError
        if references >= _MAX_REFERENCES:
            raise _AnyValueError  # a recursive type would have infinitely many columns
        if "$ref" in schema:
            return self.of(self._target(schema["$ref"]), references + 1)
        if "allOf" in schema:
            return self.of(self._all_of(schema, references), references + 1)
        for union in ("anyOf", "oneOf"):
            if union in schema and "type" not in schema and "properties" not in schema:
                options = [o for o in schema[union] if not _only_null(o)]
                kinds = [self.of(option, references + 1) for option in options]
                if not kinds or kinds.count(kinds[0]) < len(kinds):
                    raise _AnyValueError
                return kinds[0]
        kind = self._kind(schema)
        if kind == "string":
            return STRING_FORMATS.get(schema.get("format", ""), STRING)
        if kind == "object":
            return self._object(schema, references)
        if kind == "array":
            return ArrayType(element_type=self.of(schema.get("items"), references))
        if kind in SCALAR_TYPES:
            return SCALAR_TYPES[kind]
        raise _AnyValueError

    def _kind(self, schema: Mapping[str, Any]) -> str | None:
        kinds = schema.get("type")
        if kinds is None:
            values = schema.get("enum", [schema["const"]] if "const" in schema else None)
            if values is not None:
                kinds = sorted({_kind_of(v) for v in values})
            elif "properties" in schema:
                kinds = ["object"]
            else:
                return None
        kinds = [kinds] if isinstance(kinds, str) else [k for k in kinds if k != "null"]
        if sorted(kinds) == ["integer", "number"]:
            return "number"
        return kinds[0] if len(kinds) == 1 else None

    def _all_of(self, schema: Mapping[str, Any], references: int) -> dict[str, Any]:
        """Merge the parts of `allOf` into one schema, which has no `allOf`."""
        merged = {k: v for k, v in schema.items() if k != "allOf"}
        for part in (self._resolved(p, references) for p in schema["allOf"]):
            properties = dict(merged.get("properties", {}))
            for name, inner in part.get("properties", {}).items():
                before = properties.get(name, inner)
                properties[name] = inner if before == inner else {"allOf": [before, inner]}
            merged = {**part, **merged}
            if properties:
                merged["properties"] = properties
        return merged

    def _resolved(self, schema: Any, references: int) -> Mapping[str, Any]:
        self._count.add()
        if not isinstance(schema, dict):
            return {}
        if references >= _MAX_REFERENCES:
            raise _AnyValueError
        if "$ref" in schema:
            return self._resolved(self._target(schema["$ref"]), references + 1)
        return self._all_of(schema, references + 1) if "allOf" in schema else schema

    def _object(self, schema: Mapping[str, Any], references: int) -> DataType:
        if not schema.get("properties"):
            raise _AnyValueError
        fields = []
        for name, inner in schema["properties"].items():
            try:
                fields.append(StructField(name=name, data_type=self.of(inner, references)))
            except _AnyValueError:
                fields.append(StructField(name=name, data_type=STRING, metadata=JSON_TEXT))
        return StructType(tuple(fields))

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise ValueError(
                f"$ref {reference!r} refers to another file. Copy its target into this file."
            )
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            return self._anchor(pointer)
        node: Any = self._document
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(key)] if isinstance(node, list) else node[key]
            except (KeyError, IndexError, ValueError, TypeError) as error:
                raise ValueError(
                    f"$ref {reference!r} refers to a schema that this file doesn't contain. Add "
                    "the schema, or correct the $ref."
                ) from error
        return node

    def _anchor(self, name: str) -> Any:
        """Return the subschema whose `$anchor` is `name`, or whose `$id` is `#name` (older drafts).

        Raises:
            ValueError: there is no such subschema.
        """
        waiting: list[Any] = [self._document]
        while waiting:
            node = waiting.pop()
            if isinstance(node, dict):
                if node.get("$anchor") == name or node.get("$id") == f"#{name}":
                    return node
                waiting += node.values()
            elif isinstance(node, list):
                waiting += node
        raise ValueError(
            f"$ref '#{name}' refers to a schema that this file doesn't contain. Add the schema, or "
            "correct the $ref."
        )


def _only_null(schema: Any) -> bool:
    nulls = ({"type": "null"}, {"type": ["null"]}, {"const": None}, {"enum": [None]})
    return schema in nulls


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"$ref {uri!r} refers to another file. Copy its target into this file.")
