"""Flattens nested objects to top-level columns: `place.city` becomes `place_city`.

Arrays, and objects without known field names (maps), aren't flattened.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from bayou.ingest.decode.json_schema import is_json_text
from bayou.protocol.schema import MapType, StructField, StructType


def flat_columns(columns: StructType, separator: str) -> StructType:
    """Convert columns to flat columns: the fields of structs become top-level columns."""
    return StructType(tuple(_fields(columns, separator, "")))


def flattened(
    record: Mapping[str, Any],
    separator: str,
    whole: Container[str],
    masks: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Flatten the nested objects of a record.

    Args:
        whole: names of flat columns that store objects; see `takes_objects`. Objects in these
            columns aren't flattened.
        masks: the mask of each flat column. The keys are lowercase column names. An object with the
            mask `drop` is removed.

    Raises:
        ValueError: two fields have the same flattened name, or an object has a mask other than
            `drop`.
    """
    flat: dict[str, Any] = {}
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
                    raise ValueError(f"field {path!r} is an object, but {mask} needs a string")
            elif path in flat:
                raise ValueError(f"two fields have the name {path!r} after flattening")
            else:
                flat[path] = value
    return flat


def takes_objects(field: StructField) -> bool:
    """Whether a flat column can store objects: as a struct, as a map or as JSON in a string."""
    return is_json_text(field) or isinstance(field.data_type, StructType | MapType)


def _fields(columns: StructType, separator: str, prefix: str) -> Iterator[StructField]:
    for field in columns:
        if isinstance(field.data_type, StructType):
            yield from _fields(field.data_type, separator, prefix + field.name + separator)
        else:
            yield replace(field, name=prefix + field.name)
