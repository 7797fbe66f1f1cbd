"""Logical and physical names of columns (PROTOCOL.md, Column Mapping).

Everything above the files speaks logical names. Data files, statistics and partition values in the
log speak physical ones; field ids decide in data files where the mode is `id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias, cast

import pyarrow as pa

from bayou.kernel.arrow_types import to_arrow_type
from bayou.kernel.engine import FIELD_ID_KEY
from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType

__all__ = [
    "ColumnMappingMode",
    "column_mapping_mode",
    "physical_arrow_type",
    "physical_field_metadata",
    "physical_name",
    "physical_path",
    "to_physical_schema",
    "without_mapping",
]

ColumnMappingMode: TypeAlias = Literal["none", "name", "id"]

ID_KEY = "delta.columnMapping.id"
PHYSICAL_NAME_KEY = "delta.columnMapping.physicalName"
MODE_KEY = "delta.columnMapping.mode"
_MODES = ("none", "name", "id")


def column_mapping_mode(properties: Mapping[str, str]) -> ColumnMappingMode:
    """The mode that a table's properties name, `none` where they don't.

    Raises:
        ValueError: an unknown mode.
    """
    mode = properties.get(MODE_KEY, "none").strip().lower()
    if mode not in _MODES:
        raise ValueError(f"{MODE_KEY} is {mode!r}; it must be one of {', '.join(_MODES)}")
    return cast("ColumnMappingMode", mode)


def physical_name(field: StructField) -> str:
    """The field's name in data files and in the log; its own name where the table has no mapping.

    A snapshot's schema has no mapping metadata where the mode is `none` (see `without_mapping`),
    so the mode needn't be known here.
    """
    name = field.metadata.get(PHYSICAL_NAME_KEY)
    return name if isinstance(name, str) else field.name


def physical_path(schema: StructType, logical_path: tuple[str, ...]) -> tuple[str, ...]:
    """The physical field path of a field: of a column, or of one nested in it.

    Steps through arrays and maps are `element`, `key` and `value`, and stay what they are.

    Raises:
        KeyError: the schema has no such field; its argument is the path.
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


def to_physical_schema(schema: StructType, mode: ColumnMappingMode) -> StructType:
    """The schema under its physical names, nested too; types, nullability and metadata stay."""
    return schema if mode == "none" else _physical_struct(schema)


def without_mapping(schema: StructType) -> StructType:
    """The schema without mapping metadata, which means nothing where the mode is `none`."""
    return cast("StructType", _without_mapping(schema))


def physical_field_metadata(
    field: StructField, mode: ColumnMappingMode
) -> dict[bytes | str, bytes | str] | None:
    """Arrow metadata that makes an engine look for the field by its id; None where by name.

    Raises:
        ValueError: the mode is `id` and the field has no id.
    """
    if mode != "id":
        return None
    field_id = field.metadata.get(ID_KEY)
    if isinstance(field_id, int):
        return {FIELD_ID_KEY: str(field_id).encode()}
    raise ValueError(f"column {field.name!r} has no {ID_KEY}, though the mode is id")


def physical_arrow_type(data_type: DataType, mode: ColumnMappingMode) -> pa.DataType:
    """The Arrow type in which a data file is asked for values of a logical type.

    Names are physical, ids where the mode is `id`. Every nested field is nullable, because a file
    may be older than a field.

    Raises:
        ValueError: the mode is `id` and a nested field has no id.
    """
    match data_type:
        case StructType(fields):
            return pa.struct(
                [
                    pa.field(
                        f.name if mode == "none" else physical_name(f),
                        physical_arrow_type(f.data_type, mode),
                        metadata=physical_field_metadata(f, mode),
                    )
                    for f in fields
                ]
            )
        case ArrayType():
            return pa.list_(
                pa.field("element", physical_arrow_type(data_type.element_type, mode), True)
            )
        case MapType():
            value: Any = pa.field("value", physical_arrow_type(data_type.value_type, mode), True)
            return pa.map_(physical_arrow_type(data_type.key_type, mode), value)
        case _:
            return to_arrow_type(data_type)


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
                            if key not in (ID_KEY, PHYSICAL_NAME_KEY)
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
