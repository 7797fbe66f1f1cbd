"""Geometries and geographies in Spark, since Spark 4.1.

In Arrow, Spark represents a geometry or geography as a struct of a spatial reference identifier
(`srid`) and `wkb`. The kernel represents it as binary (WKB).
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyspark.sql.types as spark_types

from bayou.kernel.arrow.compute import pc
from bayou.protocol.schema import GeographyType, GeometryType


def arrow_type(data_type: GeometryType | GeographyType) -> pa.DataType:
    """Return the Arrow type that Spark uses for a geometry or geography."""
    column = {"name": "g", "type": str(data_type), "nullable": True, "metadata": {}}
    schema = spark_types.StructType.fromJson({"type": "struct", "fields": [column]})
    srid = str(schema.fields[0].dataType.srid)  # type: ignore[attr-defined]
    kind = b"geometry" if isinstance(data_type, GeometryType) else b"geography"
    metadata: Any = {kind: b"true", b"srid": srid.encode()}
    return pa.struct(
        [
            pa.field("srid", pa.int32(), nullable=False),
            pa.field("wkb", pa.binary(), nullable=False, metadata=metadata),
        ]
    )


def is_geospatial(data_type: Any) -> bool:
    """Whether an Arrow type is one that Spark uses for geometries or geographies."""
    return pa.types.is_struct(data_type) and _srid(data_type) is not None


def has_geospatial(data_type: Any) -> bool:
    """Whether an Arrow type is or contains one that Spark uses for geometries or geographies."""
    if is_geospatial(data_type):
        return True
    return any(has_geospatial(data_type.field(i).type) for i in range(data_type.num_fields))


def to_spark_values(array: Any, target: Any) -> pa.Array[Any]:
    """Convert an array from the kernel's representation to Spark's Arrow type `target`.

    Geometries and geographies within structs, arrays and map values are also converted.
    """
    if is_geospatial(target):
        return _with_srid(array, target)
    if not has_geospatial(target):
        converted: pa.Array[Any] = array if array.type.equals(target) else array.cast(target)
        return converted
    if pa.types.is_struct(target):
        children = [
            to_spark_values(array.field(i), target.field(i).type) for i in range(target.num_fields)
        ]
        mask = pc.is_null(array) if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if pa.types.is_map(target):
        items = to_spark_values(array.items, target.item_type)
        fields = [target.key_field, target.item_field]
        entries = pa.StructArray.from_arrays(
            [array.keys.cast(target.key_type), items], fields=fields
        )
        return _with_child(array, target, entries)
    return _with_child(array, target, to_spark_values(array.values, target.value_type))


def _with_srid(array: Any, target: Any) -> pa.Array[Any]:
    srid = pa.repeat(pa.scalar(_srid(target), pa.int32()), len(array))
    # Both fields are required, but a null struct may have any values.
    wkb = pc.fill_null(array, b"") if array.null_count else array
    mask = pc.is_null(array) if array.null_count else None
    return pa.StructArray.from_arrays([srid, wkb], fields=list(target), mask=mask)


def _srid(data_type: Any) -> int | None:
    index = data_type.get_field_index("wkb")
    metadata = (data_type.field(index).metadata or {}) if index >= 0 else {}
    if b"geometry" in metadata or b"geography" in metadata:
        return int(metadata[b"srid"])
    return None


def _with_child(array: Any, target: Any, child: Any) -> pa.Array[Any]:
    result: pa.Array[Any] = pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], offset=array.offset, children=[child]
    )
    return result
