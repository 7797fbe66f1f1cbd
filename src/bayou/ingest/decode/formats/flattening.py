"""Nested objects as columns of their own: `place.city` becomes `place_city`.

Arrays, and objects without fields of a known name, stay what they are.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from bayou.ingest.decode.json_schema import is_json_text
from bayou.protocol.schema import MapType, StructField, StructType

__all__ = ["flat_columns", "flattened", "takes_objects"]


def flat_columns(columns: StructType, separator: str) -> StructType:
    """The columns of flattened records."""
    return StructType(tuple(_fields(columns, separator, "")))


def flattened(
    record: Mapping[str, Any],
    separator: str,
    whole: Container[str],
    masks: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """A record without nested objects.

    Args:
        whole: names of the columns that take objects as they are, see `takes_objects`. Beside any
            other column of its name an object is taken apart: where one record has a number there,
            those with objects are what they were.
        masks: by the name of a column in lower case; `drop` of an object leaves out all its
            fields, of which none would have this name.

    Raises:
        ValueError: two fields get one name, or an object has a mask for texts.
    """
    found: dict[str, Any] = {}
    waiting = [("", record)]
    while waiting:
        prefix, part = waiting.pop()
        for name, value in part.items():
            path = prefix + name
            if isinstance(value, dict) and value and path not in whole:
                mask = masks.get(path.lower())
                if mask is None:
                    waiting.append((path + separator, value))
                elif mask != "drop":
                    raise ValueError(f"field {path!r} is an object, and {mask} is for texts")
            elif path in found:
                raise ValueError(f"two fields are called {path!r} once objects are flattened")
            else:
                found[path] = value
    return found


def takes_objects(field: StructField) -> bool:
    """Whether a column of flattened records holds objects: as JSON text, or as a map."""
    return is_json_text(field) or isinstance(field.data_type, StructType | MapType)


def _fields(columns: StructType, separator: str, prefix: str) -> Iterator[StructField]:
    for field in columns:
        if isinstance(field.data_type, StructType):
            yield from _fields(field.data_type, separator, prefix + field.name + separator)
        else:
            yield replace(field, name=prefix + field.name)
