"""Geometries and geographies in the Arrow form of Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bayou.errors import SchemaError
from bayou.kernel.arrow.compute import pc
from bayou.protocol.schema import GeographyType, GeometryType


def conform_geospatial(
    table: str, array: Any, path: str, data_type: GeometryType | GeographyType
) -> pa.Array[Any]:
    """Return the WKB of structs of `srid` and `wkb`, which Spark uses in Arrow.

    Spark checks the SRIDs of the values, which belong to the type of its column.
    """
    if {f.name for f in array.type} != {"srid", "wkb"}:
        raise SchemaError(
            f"{table}: column {path!r} has type {data_type}, which is binary (WKB) in Arrow, and "
            f"the data has type {array.type}. Convert the data to WKB.",
            table=table,
            column=path,
        )
    wkb: pa.Array[Any] = pc.struct_field(array, "wkb").cast(pa.binary())
    return wkb
