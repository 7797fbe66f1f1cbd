"""Checks of geospatial columns, and conversion of Spark's geometries and geographies to WKB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from bayou.errors import SchemaError
from bayou.kernel.arrow.compute import pc
from bayou.protocol.schema import (
    GeographyType,
    GeometryType,
    StructField,
    StructType,
    nested_types,
)


def geospatial_columns(schema: StructType) -> list[str]:
    """Return the names of the columns that are or contain geometries or geographies."""
    return [field.name for field in schema if any(_geospatial_types(field))]


def check_geospatial_columns(table: str, schema: StructType) -> None:
    """Check that each geometry and geography has a fixed coordinate reference system."""
    for field in schema:
        for data_type in _geospatial_types(field):
            if data_type.crs.upper() == "SRID:ANY":
                raise SchemaError(
                    f"{table}: column {field.name!r} has the type {data_type}, whose values may "
                    "be in different coordinate reference systems "
                    "(DELTA_GEOSPATIAL_SRID_NOT_SUPPORTED). Use a type with a fixed coordinate "
                    "reference system, such as geometry(4326).",
                    table=table,
                    column=field.name,
                )


def _geospatial_types(field: StructField) -> Iterator[GeometryType | GeographyType]:
    for _, data_type, _ in nested_types(StructType((field,))):
        if isinstance(data_type, GeometryType | GeographyType):
            yield data_type


def conform_geospatial(
    table: str, array: Any, path: str, data_type: GeometryType | GeographyType
) -> pa.Array[Any]:
    """Convert Spark's Arrow type of geometries, a struct of `srid` and `wkb`, to WKB.

    The SRIDs are dropped. Spark has already checked that the SRID of each value equals the SRID of
    the column.
    """
    if {f.name for f in array.type} != {"srid", "wkb"}:
        raise SchemaError(
            f"{table}: column {path!r} has type {data_type}, which is binary (WKB) in Arrow, but "
            f"the data has type {array.type}. Convert the data to WKB.",
            table=table,
            column=path,
        )
    wkb: pa.Array[Any] = pc.struct_field(array, "wkb").cast(pa.binary())
    return wkb
