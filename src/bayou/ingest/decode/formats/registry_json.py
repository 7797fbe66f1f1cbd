"""Reads JSON values with the JSON Schema of a schema registry.

A value consists of the registry's header and JSON. The JSON is validated against the writer's
schema, including the schemas that it references. `bayou.ingest.decode.json_schema` converts the
schema to columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bayou.errors import BayouError
from bayou.ingest.decode.exact_json import decode_exact_json
from bayou.ingest.decode.formats.schema_registry import Registry, split_header
from bayou.ingest.decode.json_schema import record_columns, record_validator
from bayou.ingest.decode.nesting import check_json_nesting
from bayou.protocol.schema import StructType


@dataclass(frozen=True, slots=True)
class _Schema:
    text: str
    validator: Any


class JsonSchemaReader:
    """Reads JSON values, each with the JSON Schema of its writer."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._schemas: dict[int, _Schema] = {}
        self._columns: dict[int, StructType] = {}
        self._refused: dict[int, str] = {}

    def read(self, value: bytes) -> tuple[Any, StructType]:
        """Return a decoded value, and the columns of its schema.

        For values with the same schema, the columns are the same object.

        Raises:
            ValueError: the value can't be read, or doesn't match its schema.
            KafkaError: the registry doesn't answer.
        """
        number, record = self._record(value)
        columns = self._columns.get(number)
        if columns is None:
            try:
                columns = record_columns(self._schemas[number].text)
            except ValueError as error:
                raise self._refusal(number, f": {error}") from error
            self._columns[number] = columns
        return record, columns

    def record(self, value: bytes) -> Any:
        """Return the decoded value. It can be any value, not only a record.

        Raises the same errors as `read`.
        """
        return self._record(value)[1]

    def _record(self, value: bytes) -> tuple[int, Any]:
        header = split_header(value)
        if header is None:
            raise ValueError("doesn't start with a schema registry's header")
        number, body = header
        schema = self._schema(number)
        check_json_nesting(body)
        try:
            record = decode_exact_json(body)
            plain = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"not valid JSON: {error}") from error
        if not schema.validator.is_valid(plain):
            problem = next(iter(schema.validator.iter_errors(plain)))
            raise ValueError(f"schema: {problem.message}")
        return number, record

    def _schema(self, number: int) -> _Schema:
        known = self._schemas.get(number)
        if number in self._refused:
            raise ValueError(self._refused[number])
        if known is None:
            response = self._registry.schema(number)
            try:
                text = msgspec.json.encode(_Bundle(self._registry).of(response)).decode()
                known = _Schema(text, record_validator(text))
            except BayouError:
                raise
            except Exception as error:  # the library raises various exceptions for invalid schemas
                reason = str(error).strip().partition("\n")[0]
                raise self._refusal(number, f" isn't a JSON Schema: {reason}") from error
            self._schemas[number] = known
        return known

    def _refusal(self, number: int, reason: str) -> ValueError:
        """Return the error for an unusable schema, and cache it for later values of the schema.

        Args:
            number: the id of the schema in the registry.
            reason: the end of the error message, which begins with `schema ID of the registry`.
        """
        self._refused[number] = f"schema {number} of the registry{reason}"
        return ValueError(self._refused[number])


class _Bundle:
    """Combines a schema and its referenced schemas in one JSON Schema document.

    A referenced schema becomes a member of `$defs`. Each `$ref` becomes a JSON pointer to a place
    in the document.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._keys: dict[tuple[str, int], str] = {}
        self._definitions: dict[str, Any] = {}

    def of(self, response: Mapping[str, Any]) -> Any:
        document = self._local(response, "")
        if self._definitions and isinstance(document, dict):
            document["$defs"] = {**document.get("$defs", {}), **self._definitions}
        return document

    def _local(self, response: Mapping[str, Any], place: str) -> Any:
        """Return a schema whose references are JSON pointers to places in the combined document.

        Args:
            response: the registry's response for the schema.
            place: the JSON pointer to the schema in the combined document.
        """
        names = {r["name"]: self._add(r["subject"], r["version"]) for r in response["references"]}
        document = msgspec.json.decode(response["schema"])
        if isinstance(document, dict):
            document.pop("$id", None)  # pointers are relative to the whole document
        return _rewritten(document, names, place)

    def _add(self, subject: str, version: int) -> str:
        key = self._keys.get((subject, version))
        if key is None:
            key = self._keys[subject, version] = f"registry-{len(self._keys) + 1}"
            referenced = self._registry.version(subject, version)
            definition = self._local(referenced, f"/$defs/{key}")
            if isinstance(definition, dict):
                definition.pop("$schema", None)
            self._definitions[key] = definition
        return key


def _rewritten(node: Any, names: Mapping[str, str], place: str) -> Any:
    if isinstance(node, list):
        return [_rewritten(item, names, place) for item in node]
    if not isinstance(node, dict):
        return node
    result = {key: _rewritten(value, names, place) for key, value in node.items()}
    reference = node.get("$ref")
    if isinstance(reference, str):
        base, _, fragment = reference.partition("#")
        target = f"/$defs/{names[base]}" if base in names else place
        if (base in names or not base) and (not fragment or fragment.startswith("/")):
            result["$ref"] = f"#{target}{fragment}"
    return result
