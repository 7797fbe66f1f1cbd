"""Infers a JSON Schema from records."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TIMESTAMP = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3]):\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)


def inferred_schema(records: Iterable[dict[str, Any]], title: str) -> dict[str, Any]:
    """Return a JSON Schema with the types that the fields have in the records.

    No field is required, and additional fields are allowed. If all strings in a field are dates or
    all are timestamps, the field has the format `date` or `date-time`. A field with values of
    several types allows all of these types.

    Args:
        title: the title of the schema.
    """
    shape = _Shape()
    for record in records:
        shape.add(record)
    return {"$schema": _DIALECT, "title": title, **shape.schema()}


@dataclass(slots=True)
class _Shape:
    """The types, string formats and nested fields that were found in the values of one field."""

    types: dict[str, None] = field(default_factory=dict)
    formats: set[str] = field(default_factory=set)
    properties: dict[str, _Shape] = field(default_factory=dict)
    items: _Shape | None = None

    def add(self, value: Any) -> None:
        match value:
            case None:
                self.types["null"] = None
            case bool():
                self.types["boolean"] = None
            case int():
                self.types["integer"] = None
            case float():
                self.types["number"] = None
            case str():
                self.types["string"] = None
                self.formats.add(_format(value))
            case list():
                self.types["array"] = None
                self.items = self.items or _Shape()
                for element in value:
                    self.items.add(element)
            case dict():
                self.types["object"] = None
                for name, inner in value.items():
                    self.properties.setdefault(name, _Shape()).add(inner)

    def schema(self) -> dict[str, Any]:
        kinds = [t for t in self.types if not (t == "integer" and "number" in self.types)]
        if not kinds or kinds == ["null"]:
            return {}
        schema: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else sorted(kinds)}
        if len(self.formats) == 1 and "" not in self.formats:
            schema["format"] = next(iter(self.formats))
        if self.properties:
            schema["properties"] = {n: s.schema() for n, s in self.properties.items()}
        if self.items is not None and (items := self.items.schema()):
            schema["items"] = items
        return schema


def _format(value: str) -> str:
    """Return the JSON Schema format of a string: "date" or "date-time", or "" for other strings."""
    try:
        if _TIMESTAMP.match(value):
            datetime.fromisoformat(value).astimezone(UTC)
            return "date-time"
        if _DATE.match(value):
            date.fromisoformat(value)
            return "date"
    except (ValueError, OverflowError):
        pass
    return ""
