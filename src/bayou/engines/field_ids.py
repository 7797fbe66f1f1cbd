"""Check of Parquet field ids for tables with column mapping by id (PROTOCOL.md, Column Mapping)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from bayou.errors import SchemaError
from bayou.kernel.engine import FIELD_ID_KEY


def check_field_ids(file_schema: pa.Schema, requested: pa.Schema, path: str) -> None:
    """Raise `SchemaError` if a file has no field ids, but a requested column has a field id."""
    if not len(file_schema) or _has_id(file_schema):
        return
    for field in requested:
        if FIELD_ID_KEY in (field.metadata or {}):
            raise SchemaError(
                f"{path}: column {field.name!r} is matched by field id, but the file has no "
                f"field ids. The column's id is {(field.metadata or {})[FIELD_ID_KEY].decode()}. "
                "Rewrite the file with a writer that supports column mapping by id.",
                table=path,
                column=field.name,
            )


def _has_id(fields: Iterable[pa.Field[Any]]) -> bool:
    return any(FIELD_ID_KEY in (f.metadata or {}) or _has_id(_children(f.type)) for f in fields)


def _children(data_type: Any) -> list[pa.Field[Any]]:
    if not pa.types.is_nested(data_type):
        return []
    return [data_type.field(i) for i in range(data_type.num_fields)]
