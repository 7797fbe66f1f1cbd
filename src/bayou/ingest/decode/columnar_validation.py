"""Finds, in parsed columns, the records that a JSON Schema certainly accepts.

A validator needs each record as a Python object. Creating and validating these objects takes a
large part of the time for JSON. Most schemas only require types, formats and enumerated strings,
and `ColumnReader` has already checked the types and formats of all values that aren't null. Only
the other records need the validator, for example records with a null, which is a missing field or
a `null` in JSON.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from bayou.ingest.decode.json_schema import SCALAR_TYPES, STRING_FORMATS
from bayou.kernel.arrow.compute import pc
from bayou.protocol.schema import STRING, ArrayType, DataType, StructType

_WITHOUT_EFFECT = frozenset(
    {"$comment", "title", "description", "default", "examples", "deprecated", "readOnly"}
    | {"writeOnly", "type"}
)
"""Keywords that restrict no value, and `type`."""

_AT_ROOT = frozenset({"$schema", "$id", "$defs", "definitions"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _ValueCheck:
    """What a value must satisfy besides its type, so that the schema certainly accepts it.

    Attributes:
        fields: the checks of an object's fields, by name.
        elements: the check of an array's elements.
        enumerated: the allowed strings; None if all strings are allowed.
    """

    fields: Mapping[str, _ValueCheck] = field(default_factory=dict)
    elements: _ValueCheck | None = None
    enumerated: pa.Array[Any] | None = None

    def accepts(self, values: pa.Array[Any]) -> pa.Array[Any]:
        """Return a mask of the values that the schema certainly accepts."""
        masks: list[Any] = [values.is_valid()]
        if self.enumerated is not None:
            masks.append(pc.is_in(values, value_set=self.enumerated))
        if isinstance(values, pa.StructArray):
            masks += [check.accepts(values.field(name)) for name, check in self.fields.items()]
        if isinstance(values, pa.ListArray) and self.elements is not None:
            # If the schema may refuse an element, no array of the block is accepted.
            accepted = pc.all(self.elements.accepts(values.flatten()), min_count=0)
            masks.append(pa.repeat(accepted, len(values)))
        return functools.reduce(pc.and_, masks)


class ColumnarValidator:
    """Finds the records that a JSON Schema certainly accepts."""

    def __init__(self, fields: Mapping[str, _ValueCheck]) -> None:
        self._fields = fields

    @classmethod
    def of(cls, json_schema: str, columns: StructType) -> ColumnarValidator | None:
        """Return the validator of a schema, or None if columns can't show that a record is valid.

        Args:
            columns: the columns that are read. Each property of the schema must have a column.
        """
        document = msgspec.json.decode(json_schema)
        if isinstance(document, dict):
            document = {key: value for key, value in document.items() if key not in _AT_ROOT}
            document = {"type": "object"} | document
        check = _value_check(document, columns)
        return None if check is None else cls(check.fields)

    def accepts(self, table: pa.Table) -> pa.Array[Any]:
        """Return a mask of the records that the schema certainly accepts.

        Args:
            table: the result of `ColumnReader.parse`. `ColumnReader.convert` must be able to
                convert it; this method doesn't check formats and ranges.
        """
        masks = [
            check.accepts(table.column(name).combine_chunks())
            for name, check in self._fields.items()
        ]
        everything: Any = pa.repeat(pa.scalar(True), table.num_rows)
        return functools.reduce(pc.and_, masks, everything)


def _value_check(schema: Any, data_type: DataType) -> _ValueCheck | None:
    """Return the check for values of a type; None if the check needs more than columns."""
    if not isinstance(schema, dict):
        return None
    kinds = schema.get("type", "string" if "enum" in schema else ())
    kinds = [kinds] if isinstance(kinds, str) else [k for k in kinds if k != "null"]
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    keywords = schema.keys() - _WITHOUT_EFFECT
    if kind == "object" and keywords <= {"properties", "required", "additionalProperties"}:
        return _object_check(schema, data_type)
    if kind == "string" and keywords <= {"format", "enum"}:
        return _string_check(schema, data_type)
    if kind == "array" and keywords == {"items"} and isinstance(data_type, ArrayType):
        elements = _value_check(schema["items"], data_type.element_type)
        return None if elements is None else _ValueCheck(elements=elements)
    return _ValueCheck() if not keywords and SCALAR_TYPES.get(kind) == data_type else None


def _object_check(schema: Mapping[str, Any], data_type: DataType) -> _ValueCheck | None:
    properties = schema.get("properties", {})
    unnamed = set(schema.get("required", ())) - properties.keys()
    if unnamed or schema.get("additionalProperties", True) is not True:
        return None
    if not isinstance(data_type, StructType):
        return None
    fields: dict[str, _ValueCheck] = {}
    for name, inner in properties.items():
        column = next((column for column in data_type if column.name == name), None)
        check = None if column is None else _value_check(inner, column.data_type)
        if check is None:
            return None
        fields[name] = check
    return _ValueCheck(fields=fields)


def _string_check(schema: Mapping[str, Any], data_type: DataType) -> _ValueCheck | None:
    allowed = schema.get("enum")
    expected = STRING_FORMATS.get(schema["format"]) if "format" in schema else STRING
    if expected != data_type:
        return None
    if allowed is None:
        return _ValueCheck()
    if data_type != STRING:
        return None
    strings = [value for value in allowed if isinstance(value, str)]
    return _ValueCheck(enumerated=pa.array(strings, pa.string()))
