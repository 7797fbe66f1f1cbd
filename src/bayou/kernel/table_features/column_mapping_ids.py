"""Assignment of ids and physical names to columns and nested fields (PROTOCOL.md, Column Mapping).

From Iceberg compatibility version 2 on, the elements of arrays and the keys and values of maps have
ids, too (PROTOCOL.md, Iceberg Compatibility V2).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bayou.errors import TablePropertyError
from bayou.kernel.table_features.column_mapping import (
    ID_KEY,
    MODE_KEY,
    NESTED_IDS_KEY,
    PHYSICAL_NAME_KEY,
    column_mapping_mode,
    nested_field_ids,
    without_mapping,
)
from bayou.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    nested_types,
)

MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"


def with_column_ids(
    table: str,
    schema: StructType,
    configuration: Mapping[str, str],
    before: Mapping[str, str] | None,
    *,
    nested_ids: bool = False,
) -> tuple[StructType, dict[str, str]]:
    """Assign an id and a physical name to each field that has none.

    Return the new schema and the new table properties. If column mapping is being enabled on an
    existing table, the physical names are the logical names, because the existing data files have
    these names. In column mapping mode `none`, nothing is changed.

    Args:
        configuration: the table's properties after the change.
        before: the table's properties before the change; None for a new table.
        nested_ids: whether the elements of arrays, and the keys and values of maps, also get ids.
    """
    try:
        mode = column_mapping_mode(configuration)
        old = mode if before is None else column_mapping_mode(before)
    except ValueError as error:
        raise TablePropertyError(f"{table}: {error}.", table=table, key=MODE_KEY) from error
    if old != mode and (old, mode) != ("none", "name"):
        raise TablePropertyError(
            f"{table}: delta.columnMapping.mode can't be changed from {old!r} to {mode!r}. Only a "
            "change from 'none' to 'name' is supported.",
            table=table,
            key=MODE_KEY,
        )
    if mode == "none":
        return schema, dict(configuration)
    max_id = max(_max_id(schema), int((before or {}).get(MAX_COLUMN_ID, "0")))
    assigner = _IdAssigner(
        max_id, keep_names=before is not None and old == "none", nested_ids=nested_ids
    )
    with_ids = assigner.struct(schema)
    return with_ids, {**configuration, MAX_COLUMN_ID: str(assigner.max_id)}


def with_ids_of(schema: StructType, replaced: StructType) -> StructType:
    """Return `schema` with ids and physical names of the table's previous schema, `replaced`.

    As in delta-spark, a field gets the id and the physical name of the field with the same path and
    type in `replaced`. A reader that still has the replaced schema, such as a stream, can then read
    the new data files.
    """
    by_name = {field.name.lower(): field for field in replaced}
    return StructType(tuple(_with_ids_of(f, by_name.get(f.name.lower())) for f in schema))


def _with_ids_of(field: StructField, replaced: StructField | None) -> StructField:
    if replaced is None:
        return field
    old, new = (without_mapping(StructType((f,))).fields[0] for f in (replaced, field))
    kept: dict[str, Any] = {}
    if old.data_type == new.data_type:
        keys = (ID_KEY, PHYSICAL_NAME_KEY, NESTED_IDS_KEY)
        kept = {key: replaced.metadata[key] for key in keys if key in replaced.metadata}
    data_type = _with_nested_ids_of(field.data_type, replaced.data_type)
    return replace(field, data_type=data_type, metadata={**kept, **field.metadata})


def _with_nested_ids_of(data_type: DataType, replaced: DataType) -> DataType:
    match data_type, replaced:
        case StructType(), StructType():
            return with_ids_of(data_type, replaced)
        case ArrayType(), ArrayType():
            element = _with_nested_ids_of(data_type.element_type, replaced.element_type)
            return replace(data_type, element_type=element)
        case MapType(), MapType():
            return replace(
                data_type,
                key_type=_with_nested_ids_of(data_type.key_type, replaced.key_type),
                value_type=_with_nested_ids_of(data_type.value_type, replaced.value_type),
            )
        case _:
            return data_type


class _IdAssigner:
    """Assigns physical names, and ids greater than `max_id`, to the fields of a schema."""

    def __init__(self, max_id: int, *, keep_names: bool, nested_ids: bool) -> None:
        self.max_id = max_id
        self._keep_names = keep_names
        self._nested_ids = nested_ids

    def struct(self, schema: StructType) -> StructType:
        return StructType(tuple(self._field(f) for f in schema))

    def _field(self, field: StructField) -> StructField:
        metadata: dict[str, Any] = dict(field.metadata)
        if not isinstance(metadata.get(ID_KEY), int):
            metadata[ID_KEY] = self._next_id()
        if not isinstance(metadata.get(PHYSICAL_NAME_KEY), str):
            name = field.name if self._keep_names else f"col-{uuid.uuid4()}"
            metadata[PHYSICAL_NAME_KEY] = name
        if self._nested_ids:
            ids = dict(nested_field_ids(field))
            for path in nested_paths(metadata[PHYSICAL_NAME_KEY], field.data_type):
                if not isinstance(ids.get(path), int):
                    ids[path] = self._next_id()
            if ids:
                metadata[NESTED_IDS_KEY] = ids
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

    def _next_id(self) -> int:
        self.max_id += 1
        return self.max_id


def nested_paths(parent: str, data_type: DataType) -> Iterator[str]:
    """Yield the paths of array elements, map keys and map values, such as `col-a.value.element`.

    Paths through the fields of a struct are left out: the ids of these fields are in their own
    metadata.

    Args:
        parent: path of the column, or of the array or map, that has the type `data_type`.
    """
    match data_type:
        case ArrayType():
            yield f"{parent}.element"
            yield from nested_paths(f"{parent}.element", data_type.element_type)
        case MapType():
            yield f"{parent}.key"
            yield from nested_paths(f"{parent}.key", data_type.key_type)
            yield f"{parent}.value"
            yield from nested_paths(f"{parent}.value", data_type.value_type)
        case _:
            return


def _max_id(schema: StructType) -> int:
    fields = [field for _, _, field in nested_types(schema) if field is not None]
    ids = [i for f in fields for i in (f.metadata.get(ID_KEY), *nested_field_ids(f).values())]
    return max((i for i in ids if isinstance(i, int)), default=0)
