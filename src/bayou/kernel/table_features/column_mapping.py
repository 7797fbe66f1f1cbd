"""Logical names, physical names and ids of columns (PROTOCOL.md, Column Mapping).

Users, commands and scans use logical names. Data files, statistics and partition values in the log
use physical names. In mode `id`, columns of data files are matched by field id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

import pyarrow as pa

from bayou.kernel.arrow.types import geo_arrow_metadata, to_arrow_type
from bayou.kernel.engine import FIELD_ID_KEY, VARIANT_KEY
from bayou.protocol.schema import (
    VARIANT,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

ColumnMappingMode: TypeAlias = Literal["none", "name", "id"]

ID_KEY = "delta.columnMapping.id"
PHYSICAL_NAME_KEY = "delta.columnMapping.physicalName"
NESTED_IDS_KEY = "delta.columnMapping.nested.ids"
MODE_KEY = "delta.columnMapping.mode"
_MODES = ("none", "name", "id")


def column_mapping_mode(properties: Mapping[str, str]) -> ColumnMappingMode:
    """Return the column mapping mode in a table's properties; ValueError if it is unknown."""
    mode = properties.get(MODE_KEY, "none").strip().lower()
    if mode not in _MODES:
        raise ValueError(f"{MODE_KEY} is {mode!r}; it must be one of {', '.join(_MODES)}")
    return cast("ColumnMappingMode", mode)


def physical_name(field: StructField) -> str:
    """Return a field's name in data files and in the log.

    In column mapping mode `none`, this is the logical name. The schema of a snapshot then has no
    mapping metadata, because `without_mapping` removes it.
    """
    name = field.metadata.get(PHYSICAL_NAME_KEY)
    return name if isinstance(name, str) else field.name


def nested_field_ids(field: StructField) -> Mapping[str, int]:
    """Return the field ids of the elements, keys and values in a field's arrays and maps.

    The keys of the mapping are paths that start with the physical name of the field, such as
    `col-a.element` and `col-a.value.key` (PROTOCOL.md, Iceberg Compatibility V2). The mapping is
    empty if the field has no such ids.
    """
    ids = field.metadata.get(NESTED_IDS_KEY)
    return ids if isinstance(ids, dict) else {}


def physical_path(schema: StructType, logical_path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the physical path of a column or a nested field.

    The names `element`, `key` and `value` in paths through arrays and maps stay unchanged.

    Raises:
        KeyError: the schema doesn't contain the path; the error's argument is the path.
    """
    names: list[str] = []
    level: DataType | None = schema
    for step in logical_path:
        match level:
            case StructType():
                field = next((f for f in level if f.name == step), None)
                if field is None:
                    raise KeyError(logical_path)
                names.append(physical_name(field))
                level = field.data_type
                continue
            case ArrayType() if step == "element":
                level = level.element_type
            case MapType() if step == "key":
                level = level.key_type
            case MapType() if step == "value":
                level = level.value_type
            case _:
                raise KeyError(logical_path)
        names.append(step)
    return tuple(names)


def logical_path(schema: StructType, physical: tuple[str, ...]) -> tuple[str, ...]:
    """Return the logical path of a column, or of a field in a struct, from its physical path.

    Fields in arrays and maps aren't supported.

    Raises:
        KeyError: the schema doesn't contain the path, or the path leads through an array or map.
            The error's argument is the path.
    """
    names: list[str] = []
    level: DataType = schema
    for step in physical:
        fields = level.fields if isinstance(level, StructType) else ()
        field = next((f for f in fields if physical_name(f) == step), None)
        if field is None:
            raise KeyError(physical)
        names.append(field.name)
        level = field.data_type
    return tuple(names)


def to_physical_schema(schema: StructType, mode: ColumnMappingMode) -> StructType:
    """Return the schema with physical names at every level."""
    return schema if mode == "none" else _physical_struct(schema)


def without_mapping(schema: StructType) -> StructType:
    """Return a schema without column mapping metadata, which readers ignore in mode `none`."""
    return cast("StructType", _without_mapping(schema))


def physical_field(field: StructField, mode: ColumnMappingMode) -> pa.Field[Any]:
    """Return the nullable Arrow field to request from a data file."""
    return pa.field(
        field.name if mode == "none" else physical_name(field),
        physical_arrow_type(field.data_type, mode),
        metadata={**_required_id(field, mode), **_type_metadata(field.data_type)} or None,
    )


def physical_write_schema(schema: StructType, mode: ColumnMappingMode) -> pa.Schema:
    """Return the Arrow schema of new data files, with physical names, field ids and nullability."""
    return pa.schema([_write_field(f, mode) for f in schema])


def physical_stats_schema(stats_schema: pa.Schema, schema: StructType) -> pa.Schema:
    """Rename columns to physical names in a schema of statistics (`numRecords`, ...)."""
    fields: list[pa.Field[Any]] = [
        f.with_type(_physical_stats(f.type, schema)) for f in stats_schema
    ]
    return pa.schema(fields)


def physical_arrow_type(data_type: DataType, mode: ColumnMappingMode) -> pa.DataType:
    """Return the Arrow type to request from a data file for a logical type.

    All nested fields are nullable, because a file that is older than a field doesn't contain it.
    """
    match data_type:
        case StructType(fields):
            return pa.struct([physical_field(f, mode) for f in fields])
        case ArrayType():
            return pa.list_(_nested_field("element", data_type.element_type, mode))
        case MapType():
            value: Any = _nested_field("value", data_type.value_type, mode)
            return pa.map_(physical_arrow_type(data_type.key_type, mode), value)
        case _:
            return to_arrow_type(data_type)


def _write_field(
    field: StructField, mode: ColumnMappingMode, *, optional: bool = False
) -> pa.Field[Any]:
    """Return the Arrow field to write to Parquet.

    Args:
        optional: whether an enclosing field is nullable; this field is then nullable, too.
    """
    mapped = mode != "none"
    name = physical_name(field) if mapped else field.name
    metadata = _type_metadata(field.data_type)
    if mapped:
        metadata.update(_id_metadata(field.metadata.get(ID_KEY)))
    nullable = field.nullable or optional
    nested = _NestedFields(ids=nested_field_ids(field) if mapped else {}, mode=mode)
    data_type = nested.write_type(field.data_type, name, optional=nullable)
    return pa.field(name, data_type, nullable, metadata=metadata or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NestedFields:
    """Creates the Arrow types of a column's arrays and maps, with the ids of their fields.

    Attributes:
        ids: ids of elements, keys and values by path, such as `col-a.element`.
    """

    ids: Mapping[str, int]
    mode: ColumnMappingMode

    def write_type(self, data_type: DataType, path: str, *, optional: bool) -> pa.DataType:
        match data_type:
            case StructType(fields):
                return pa.struct([_write_field(f, self.mode, optional=optional) for f in fields])
            case ArrayType():
                element = data_type.element_type
                return pa.list_(self._field("element", element, path, data_type.contains_null))
            case MapType():
                value_nullable = data_type.value_contains_null
                key: Any = self._field("key", data_type.key_type, path, nullable=False)
                value: Any = self._field("value", data_type.value_type, path, value_nullable)
                return pa.map_(key, value)
            case _:
                return to_arrow_type(data_type)

    def _field(self, name: str, data_type: DataType, parent: str, nullable: bool) -> pa.Field[Any]:
        path = f"{parent}.{name}"
        return pa.field(
            name,
            self.write_type(data_type, path, optional=nullable),
            nullable,
            metadata={**_id_metadata(self.ids.get(path)), **geo_arrow_metadata(data_type)} or None,
        )


def _nested_field(name: str, data_type: DataType, mode: ColumnMappingMode) -> pa.Field[Any]:
    metadata = _type_metadata(data_type) or None
    return pa.field(name, physical_arrow_type(data_type, mode), metadata=metadata)


def _id_metadata(field_id: object) -> dict[bytes | str, bytes | str]:
    return {FIELD_ID_KEY: str(field_id).encode()} if isinstance(field_id, int) else {}


def _required_id(field: StructField, mode: ColumnMappingMode) -> dict[bytes | str, bytes | str]:
    if mode != "id":
        return {}
    metadata = _id_metadata(field.metadata.get(ID_KEY))
    if metadata:
        return metadata
    raise ValueError(
        f"column {field.name!r} has no {ID_KEY} in its metadata, but delta.columnMapping.mode is id"
    )


def _type_metadata(data_type: DataType) -> dict[bytes | str, bytes | str]:
    return {VARIANT_KEY: b"true"} if data_type == VARIANT else geo_arrow_metadata(data_type)


def _physical_stats(data_type: Any, schema: StructType) -> pa.DataType:
    if not pa.types.is_struct(data_type):
        return cast("pa.DataType", data_type)
    by_name = {f.name: f for f in schema}
    fields: list[pa.Field[Any]] = []
    for child in data_type:
        field = by_name[child.name]
        inner = field.data_type if isinstance(field.data_type, StructType) else StructType()
        fields.append(
            child.with_name(physical_name(field)).with_type(_physical_stats(child.type, inner))
        )
    return pa.struct(fields)


def _physical_struct(schema: StructType) -> StructType:
    return StructType(
        tuple(
            replace(f, name=physical_name(f), data_type=_physical_type(f.data_type)) for f in schema
        )
    )


def _physical_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            return _physical_struct(data_type)
        case ArrayType():
            return replace(data_type, element_type=_physical_type(data_type.element_type))
        case MapType():
            return replace(
                data_type,
                key_type=_physical_type(data_type.key_type),
                value_type=_physical_type(data_type.value_type),
            )
        case _:
            return data_type


def _without_mapping(data_type: DataType) -> DataType:
    match data_type:
        case StructType(fields):
            return StructType(
                tuple(
                    replace(
                        f,
                        data_type=_without_mapping(f.data_type),
                        metadata={
                            key: value
                            for key, value in f.metadata.items()
                            if key not in (ID_KEY, PHYSICAL_NAME_KEY, NESTED_IDS_KEY)
                        },
                    )
                    for f in fields
                )
            )
        case ArrayType():
            return replace(data_type, element_type=_without_mapping(data_type.element_type))
        case MapType():
            return replace(
                data_type,
                key_type=_without_mapping(data_type.key_type),
                value_type=_without_mapping(data_type.value_type),
            )
        case _:
            return data_type
