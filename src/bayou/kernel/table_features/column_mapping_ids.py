"""Ids and physical names of columns that come to a table (PROTOCOL.md, Column Mapping)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bayou.errors import TablePropertyError
from bayou.kernel.table_features.column_mapping import column_mapping_mode
from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType

__all__ = ["MAX_COLUMN_ID", "with_column_ids"]

MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
_ID = "delta.columnMapping.id"
_PHYSICAL_NAME = "delta.columnMapping.physicalName"


def with_column_ids(
    table: str,
    schema: StructType,
    configuration: Mapping[str, str],
    before: Mapping[str, str] | None,
) -> tuple[StructType, dict[str, str]]:
    """The schema with an id and a physical name for each field that has none, and the properties.

    Fields of a table that turns mapping on keep their names as physical ones: its files have them.

    Args:
        configuration: properties that the table is to have.
        before: those that it has; None for a new table.

    Raises:
        TablePropertyError: the table's mode can't become the other.
    """
    try:
        mode = column_mapping_mode(configuration)
        old = mode if before is None else column_mapping_mode(before)
    except ValueError as error:
        raise TablePropertyError(
            f"{table}: {error}.", table=table, key="delta.columnMapping.mode"
        ) from error
    if old != mode and (old, mode) != ("none", "name"):
        raise TablePropertyError(
            f"{table}: delta.columnMapping.mode can't be changed from {old!r} to {mode!r}; only "
            "from 'none' to 'name'.",
            table=table,
            key="delta.columnMapping.mode",
        )
    if mode == "none":
        return schema, dict(configuration)
    largest = max(_largest(schema), int((before or {}).get(MAX_COLUMN_ID, "0")))
    giver = _Giver(largest, keep_names=before is not None and old == "none")
    given = giver.struct(schema)
    return given, {**configuration, MAX_COLUMN_ID: str(giver.last)}


class _Giver:
    """Gives out ids above one."""

    def __init__(self, last: int, *, keep_names: bool) -> None:
        self.last = last
        self._keep_names = keep_names

    def struct(self, schema: StructType) -> StructType:
        return StructType(tuple(self._field(f) for f in schema))

    def _field(self, field: StructField) -> StructField:
        metadata: dict[str, Any] = dict(field.metadata)
        if not isinstance(metadata.get(_ID), int):
            self.last += 1
            metadata[_ID] = self.last
        if not isinstance(metadata.get(_PHYSICAL_NAME), str):
            name = field.name if self._keep_names else f"col-{uuid.uuid4()}"
            metadata[_PHYSICAL_NAME] = name
        return replace(field, data_type=self._type(field.data_type), metadata=metadata)

    def _type(self, data_type: DataType) -> DataType:
        match data_type:
            case StructType():
                return self.struct(data_type)
            case ArrayType():
                return replace(data_type, element_type=self._type(data_type.element_type))
            case MapType():
                key = self._type(data_type.key_type)
                return replace(data_type, key_type=key, value_type=self._type(data_type.value_type))
            case _:
                return data_type


def _largest(data_type: DataType) -> int:
    match data_type:
        case StructType(fields):
            own = [f.metadata.get(_ID) for f in fields]
            ids = [i for i in own if isinstance(i, int)]
            return max([0, *ids, *(_largest(f.data_type) for f in fields)])
        case ArrayType():
            return _largest(data_type.element_type)
        case MapType():
            return max(_largest(data_type.key_type), _largest(data_type.value_type))
        case _:
            return 0
