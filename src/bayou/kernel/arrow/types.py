"""Conversion of Delta types to Arrow types and back.

See PROTOCOL.md, Delta Data Type to Parquet Type Mappings.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from bayou.errors import SchemaError
from bayou.json_decoding import decode_json
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    GeographyType,
    GeometryType,
    MapType,
    PrimitiveType,
    SchemaJsonError,
    StructField,
    StructType,
    data_type_from_json,
)

VARIANT_EXTENSION = "arrow.parquet.variant"
"""Name of Arrow's extension type for variants, with the storage `struct<metadata, value>`."""

GEO_ARROW_WKB = "geoarrow.wkb"
"""Name of GeoArrow's extension type for geometries and geographies as WKB."""

EXTENSION_NAME_KEY = b"ARROW:extension:name"
EXTENSION_METADATA_KEY = b"ARROW:extension:metadata"

_VARIANT_NAMES = frozenset({VARIANT_EXTENSION, "parquet.variant"})  # the second name is older

_TO_ARROW: dict[DataType, pa.DataType] = {
    STRING: pa.string(),
    LONG: pa.int64(),
    INTEGER: pa.int32(),
    SHORT: pa.int16(),
    BYTE: pa.int8(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    BOOLEAN: pa.bool_(),
    BINARY: pa.binary(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    VOID: pa.null(),
}

_FROM_ARROW: dict[pa.DataType, DataType] = {
    **{arrow: delta for delta, arrow in _TO_ARROW.items() if delta is not VOID},
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
    pa.date64(): DATE,
    pa.float16(): FLOAT,
    pa.uint8(): SHORT,
    pa.uint16(): INTEGER,
    pa.uint32(): LONG,
    pa.uint64(): DecimalType(20, 0),
}


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a table or struct, with the same names, order and nullability."""
    return pa.schema([_to_arrow_field(f) for f in schema])


def to_arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a Delta type.

    `timestamp` is `timestamp[us, UTC]`, `timestamp_ntz` is `timestamp[us]`, void is `null`.
    Geometries and geographies are `binary` in the format WKB. The child field of a list is named
    `element`.
    """
    match data_type:
        case StructType(fields):
            return pa.struct([_to_arrow_field(f) for f in fields])
        case ArrayType():
            return pa.list_(
                pa.field("element", to_arrow_type(data_type.element_type), data_type.contains_null)
            )
        case MapType():
            value: Any = pa.field(
                "value", to_arrow_type(data_type.value_type), data_type.value_contains_null
            )
            return pa.map_(to_arrow_type(data_type.key_type), value)
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case PrimitiveType("variant"):
            return pa.struct(
                [pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)]
            )
        case GeometryType() | GeographyType():
            return pa.binary()
        case _:
            return _TO_ARROW[data_type]


def geo_arrow_metadata(data_type: DataType) -> dict[bytes | str, bytes | str]:
    """Return the Arrow field metadata that marks a geometry or geography as GeoArrow WKB.

    For other types, the result is empty.
    """
    match data_type:
        case GeometryType(crs):
            parameters = {"crs": crs}
        case GeographyType(crs, algorithm):
            parameters = {"crs": crs, "edges": algorithm.lower()}
        case _:
            return {}
    return {
        EXTENSION_NAME_KEY: GEO_ARROW_WKB.encode(),
        EXTENSION_METADATA_KEY: msgspec.json.encode(parameters),
    }


def with_schema(batch: pa.RecordBatch, schema: pa.Schema, *, table: str = "") -> pa.RecordBatch:
    """Return a batch with the field names, nullability and metadata of `schema`.

    Columns and nested fields are matched by position. The columns aren't copied.

    Args:
        table: the table's path for error messages.

    Raises:
        SchemaError: the type of a column differs from its type in `schema`.
    """
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    for actual, expected in zip(batch.schema, schema, strict=True):
        if not _same_layout(actual.type, expected.type):
            raise SchemaError(
                f"{f'{table}: ' if table else ''}column {actual.name!r} has the Arrow type "
                f"{actual.type}. Cast it to {expected.type}.",
                table=table,
                column=expected.name,
            )
    return pa.record_batch(_RelabeledBatch(batch, schema))


def from_arrow_schema(schema: pa.Schema, *, table: str = "", void: bool = False) -> StructType:
    """Return the Delta schema for data of an Arrow schema.

    - Unsigned integers become the next wider signed type (uint64: decimal(20,0)).
    - Timestamps of any unit become timestamps in microseconds.
    - Dictionaries become their value type.
    - Arrow's variant type becomes variant, and GeoArrow's WKB type becomes geometry or geography.
      An extension type that isn't registered in pyarrow is recognized by the field's metadata.
    - Other extension types become their storage type.

    Args:
        table: the table's path for error messages.
        void: whether Arrow's type `null` becomes the type void instead of an error.

    Raises:
        SchemaError: a column has a type that Delta doesn't support (time, duration, null, ...).
    """
    return StructType(tuple(_from_arrow_field(f, table, "", void) for f in schema))


def from_arrow_type(
    arrow_type: pa.DataType, *, table: str = "", column: str = "", void: bool = False
) -> DataType:
    """Return the Delta type of an Arrow type. Raises the errors of `from_arrow_schema`."""
    types: Any = pa.types
    kind: Any = arrow_type
    # Extension types that are written in Python may be unhashable.
    delta_type = None if isinstance(kind, pa.BaseExtensionType) else _FROM_ARROW.get(kind)
    if delta_type is not None:
        return delta_type

    def inner(of: pa.DataType, step: str = "") -> DataType:
        return from_arrow_type(of, table=table, column=column + step, void=void)

    if void and types.is_null(kind):
        return VOID
    if types.is_timestamp(kind):
        return TIMESTAMP if kind.tz else TIMESTAMP_NTZ
    if types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return DecimalType(kind.precision, kind.scale)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return inner(kind.value_type)
    if types.is_struct(kind):
        return StructType(tuple(_from_arrow_field(f, table, f"{column}.", void) for f in kind))
    if types.is_map(kind):
        return MapType(
            key_type=inner(kind.key_type, ".key"),
            value_type=_from_inner_field(kind.item_field, table, f"{column}.value", void),
            value_contains_null=kind.item_field.nullable,
        )
    if (
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    ):
        return ArrayType(
            element_type=_from_inner_field(kind.value_field, table, f"{column}.element", void),
            contains_null=kind.value_field.nullable,
        )
    if types.is_fixed_size_binary(kind):
        return BINARY
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name in _VARIANT_NAMES:
            return VARIANT
        if kind.extension_name == GEO_ARROW_WKB:
            serialized: Any = getattr(kind, "__arrow_ext_serialize__", bytes)
            return _from_geo_arrow(serialized(), table, column)
        return inner(kind.storage_type)
    name = (f"Column {column!r}" if column else "A column") + (f" of {table}" if table else "")
    raise SchemaError(
        f"{name} can't have Arrow's type {arrow_type}: Delta has no equivalent type. "
        + (
            "The column has only nulls. Cast it to another type, or remove it."
            if types.is_null(kind)
            else "Cast the column to another type."
        ),
        table=table,
        column=column,
    )


def _same_layout(one: Any, other: Any) -> bool:
    if not pa.types.is_nested(one):
        return bool(one == other)
    return (
        one.id == other.id
        and one.num_fields == other.num_fields
        and (not pa.types.is_fixed_size_list(one) or one.list_size == other.list_size)
        and all(_same_layout(one.field(i).type, other.field(i).type) for i in range(one.num_fields))
    )


class _RelabeledBatch:
    """Exports the columns of `batch` with the schema `schema`, by Arrow's PyCapsule interface."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch: Any = batch
        self._schema = schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        _, columns = self._batch.__arrow_c_array__()
        return self._schema.__arrow_c_schema__(), columns


def _to_arrow_field(field: StructField) -> pa.Field[Any]:
    return pa.field(field.name, to_arrow_type(field.data_type), field.nullable)


def _from_arrow_field(field: pa.Field[Any], table: str, prefix: str, void: bool) -> StructField:
    name = prefix + field.name
    return StructField(
        name=field.name,
        data_type=_from_inner_field(field, table, name, void),
        nullable=field.nullable,
    )


def _from_inner_field(field: pa.Field[Any], table: str, column: str, void: bool) -> DataType:
    """Return the Delta type of an Arrow field.

    A variant, geometry or geography is recognized by the field's metadata if its extension type
    isn't registered in pyarrow.
    """
    metadata = field.metadata or {}
    extension = metadata.get(EXTENSION_NAME_KEY, b"").decode()
    if extension in _VARIANT_NAMES:
        return VARIANT
    if extension == GEO_ARROW_WKB:
        return _from_geo_arrow(metadata.get(EXTENSION_METADATA_KEY, b""), table, column)
    return from_arrow_type(field.type, table=table, column=column, void=void)


def _from_geo_arrow(parameters: bytes, table: str, column: str) -> GeometryType | GeographyType:
    """Return the Delta type for GeoArrow's JSON metadata, such as `{"crs": "EPSG:3857"}`.

    The type is a geography if `edges` isn't `planar`. The default CRS is `OGC:CRS84`.
    """
    try:
        decoded = decode_json(parameters or b"{}", dict[str, Any])
    except msgspec.DecodeError:
        decoded = {}
    crs: Any = decoded.get("crs") or "OGC:CRS84"
    if isinstance(crs, dict):  # PROJJSON
        identifier: Any = crs.get("id", {})
        crs = f"{identifier.get('authority')}:{identifier.get('code')}"
    edges = str(decoded.get("edges", "planar")).upper()
    name = f"geometry({crs})" if edges == "PLANAR" else f"geography({crs}, {edges})"
    try:
        data_type = data_type_from_json(name)
    except SchemaJsonError:
        data_type = BINARY
    if isinstance(data_type, GeometryType | GeographyType):
        return data_type
    raise SchemaError(
        f"{f'Column {column!r}' if column else 'A column'}{f' of {table}' if table else ''}: the "
        f"coordinate reference system {str(crs)[:80]!r} or the edge type {edges.lower()!r} isn't "
        "supported. Use an authority and a code, such as EPSG:3857, and an edge type such as "
        "planar or spherical.",
        table=table,
        column=column,
    )
