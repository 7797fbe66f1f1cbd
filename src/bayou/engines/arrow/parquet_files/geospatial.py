"""Geometries and geographies in Parquet files: columns with Parquet's geospatial logical types.

In record batches, these columns have the type binary and contain WKB. The metadata of their fields
names the GeoArrow extension type. pyarrow writes Parquet's logical type only if a column has the
extension type. `with_logical_types` casts the columns to this type before they are written.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.types import EXTENSION_METADATA_KEY, EXTENSION_NAME_KEY, GEO_ARROW_WKB


def is_geospatial(field: pa.Field[Any]) -> bool:
    """Whether the metadata of a field names GeoArrow's extension type for WKB."""
    return (field.metadata or {}).get(EXTENSION_NAME_KEY) == GEO_ARROW_WKB.encode()


def with_logical_types(group: pa.Table) -> pa.Table:
    """Return the rows with extension types for all geospatial columns and nested fields."""
    fields = [_stored_field(field) for field in group.schema]
    if all(stored is field for stored, field in zip(fields, group.schema, strict=True)):
        return group
    columns = [
        column if stored is field else column.cast(stored.type)
        for column, field, stored in zip(group.columns, group.schema, fields, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


class _WkbType(pa.ExtensionType):
    """GeoArrow's extension type for WKB; `metadata` contains the type's parameters as JSON."""

    def __init__(self, metadata: bytes) -> None:
        self._metadata = metadata
        super().__init__(pa.binary(), GEO_ARROW_WKB)

    def __arrow_ext_serialize__(self) -> bytes:
        return self._metadata

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> _WkbType:
        return cls(serialized)


def _stored_field(field: pa.Field[Any]) -> pa.Field[Any]:
    """Return a field with extension types for writing.

    A field without geometries and geographies is returned unchanged.
    """
    if is_geospatial(field):
        metadata: Any = dict(field.metadata or {})
        del metadata[EXTENSION_NAME_KEY]
        parameters = metadata.pop(EXTENSION_METADATA_KEY, b"")
        extension: Any = _WkbType(parameters)
        return field.with_type(extension).with_metadata(metadata)
    stored = _stored_type(field.type)
    return field if stored is field.type else field.with_type(stored)


def _stored_type(data_type: Any) -> Any:
    types = pa.types
    if types.is_struct(data_type):
        fields = [data_type.field(i) for i in range(data_type.num_fields)]
        stored = [_stored_field(field) for field in fields]
        unchanged = all(a is b for a, b in zip(stored, fields, strict=True))
        return data_type if unchanged else pa.struct(stored)
    if types.is_list(data_type):
        element = data_type.value_field
        stored_element = _stored_field(element)
        return data_type if stored_element is element else pa.list_(stored_element)
    if types.is_map(data_type):
        value = data_type.item_field
        stored_value = _stored_field(value)
        return data_type if stored_value is value else pa.map_(data_type.key_field, stored_value)
    return data_type
