"""Parquet field ids, for tables whose columns are found by them (PROTOCOL.md, Column Mapping)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from bayou.errors import SchemaError
from bayou.kernel.engine import FIELD_ID_KEY

__all__ = ["check_field_ids"]


def check_field_ids(file_schema: pa.Schema, wanted: pa.Schema, path: str) -> None:
    """Refuse a file without any field id where a column is to be found by one.

    Raises:
        SchemaError: such a file; names it.
    """
    if not len(file_schema) or _has_id(file_schema):
        return
    for field in wanted:
        if FIELD_ID_KEY in (field.metadata or {}):
            raise SchemaError(
                f"{path} has no field ids, and column {field.name!r} is to be found by its id, "
                f"{(field.metadata or {})[FIELD_ID_KEY].decode()}: the file's writer doesn't know "
                "column mapping by id",
                table=path,
                column=field.name,
            )


def _has_id(fields: Iterable[pa.Field[Any]]) -> bool:
    return any(FIELD_ID_KEY in (f.metadata or {}) or _has_id(_children(f.type)) for f in fields)


def _children(data_type: Any) -> list[pa.Field[Any]]:
    if not pa.types.is_nested(data_type):
        return []
    return [data_type.field(i) for i in range(data_type.num_fields)]
