"""Conversion of Delta schemas to Iceberg schemas, partition specs and name mappings, all as JSON.

The field id of a column is its column mapping id. The ids of array elements, map keys and map
values are in the column's metadata `delta.columnMapping.nested.ids` (PROTOCOL.md, Iceberg
Compatibility V2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from bayou.errors import UniversalFormatError
from bayou.kernel.table_features.column_mapping import (
    ID_KEY,
    NESTED_IDS_KEY,
    nested_field_ids,
    physical_name,
)
from bayou.kernel.table_features.iceberg_compat import (
    ROW_COMMIT_VERSION_FIELD_ID,
    ROW_ID_FIELD_ID,
)
from bayou.protocol.properties import ROW_COMMIT_VERSION_COLUMN, ROW_ID_COLUMN
from bayou.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    GeographyType,
    GeometryType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from bayou.protocol.type_widening import is_widened_from_float

Json: TypeAlias = dict[str, Any]

FIRST_PARTITION_FIELD_ID = 1000
"""Id of the first partition field (Iceberg spec, Partition Evolution)."""

_COMMENT = "comment"
_PRIMITIVES = {
    "string": "string",
    "long": "long",
    "integer": "int",
    "short": "int",
    "byte": "int",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
_PRIMITIVES_OF_V3 = {"variant": "variant"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsColumn:
    """A column that can have statistics: a top-level column, or a field in a struct column.

    Attributes:
        path: physical names from the top-level column to the field.
        was_float: whether the column was widened from float to double.
    """

    path: tuple[str, ...]
    field_id: int
    data_type: DataType
    was_float: bool = False


def to_iceberg_schema(table: str, schema: StructType, format_version: int) -> Json:
    """Return the JSON of the Iceberg schema of a Delta schema, without `schema-id`.

    Raises:
        UniversalFormatError: a column has no id, the Iceberg format version doesn't support the
            column's type, or two columns have the same full name.
    """
    converted = _Converter(table, format_version).struct(schema)
    names = Counter(_full_names(converted, ""))
    name, count = next(iter(names.most_common(1)), ("", 0))
    if count > 1:
        raise UniversalFormatError(
            f"{table}: the Iceberg metadata can't be written, because Iceberg doesn't distinguish "
            f"the column {name!r} from a nested field with this path. Rename the column, or unset "
            "delta.universalFormat.enabledFormats.",
            table=table,
        )
    return converted


def to_partition_fields(
    table: str, schema: StructType, partition_columns: Sequence[str]
) -> list[Json]:
    """Return the fields of the partition spec: an identity transform of each partition column."""
    fields = []
    for number, name in enumerate(partition_columns):
        field = schema.get(name)
        assert field is not None  # checked when the table was loaded
        fields.append(
            {
                "name": field.name,
                "transform": "identity",
                "source-id": _field_id(table, field),
                "field-id": FIRST_PARTITION_FIELD_ID + number,
            }
        )
    return fields


def to_name_mapping(table: str, schema: StructType, configuration: Mapping[str, str]) -> list[Json]:
    """Return the name mapping (`schema.name-mapping.default`).

    Readers use the name mapping for data files without field ids. The mapping has the physical name
    of each column, and of the two row tracking columns if the table has them. In format version 2,
    row tracking columns have no field ids. If one column of a file has no field id, pyiceberg needs
    the names of all columns.
    """
    row_tracking = [
        {"field-id": field_id, "names": [name]}
        for table_property, field_id in (
            (ROW_ID_COLUMN, ROW_ID_FIELD_ID),
            (ROW_COMMIT_VERSION_COLUMN, ROW_COMMIT_VERSION_FIELD_ID),
        )
        if (name := configuration.get(table_property.key)) is not None
    ]
    return [*(_mapped_field(table, field) for field in schema), *row_tracking]


def max_field_id(iceberg_schema: Json) -> int:
    """Return the largest field id in a schema."""
    return max(_field_ids(iceberg_schema), default=0)


def iceberg_types(iceberg_schema: Json) -> dict[int, str]:
    """Return the type of each column and struct field that has a primitive type, by field id."""
    return dict(_primitive_types(iceberg_schema))


def statistics_columns(table: str, schema: StructType) -> Iterator[StatisticsColumn]:
    """Yield the columns whose statistics are converted: leaf columns outside of arrays and maps."""
    yield from _statistics_columns(table, schema, ())


def _statistics_columns(
    table: str, schema: StructType, parent: tuple[str, ...]
) -> Iterator[StatisticsColumn]:
    for field in schema:
        path = (*parent, physical_name(field))
        match field.data_type:
            case StructType():
                yield from _statistics_columns(table, field.data_type, path)
            case ArrayType() | MapType():
                pass
            case data_type:
                yield StatisticsColumn(
                    path=path,
                    field_id=_field_id(table, field),
                    data_type=data_type,
                    was_float=is_widened_from_float(field),
                )


class _Converter:
    def __init__(self, table: str, format_version: int) -> None:
        self._table = table
        self._format_version = format_version

    def struct(self, schema: StructType) -> Json:
        return {"type": "struct", "fields": [self._field(field) for field in schema]}

    def _field(self, field: StructField) -> Json:
        converted: Json = {
            "id": _field_id(self._table, field),
            "name": field.name,
            "required": not field.nullable,
            "type": self._type(field.data_type, field, physical_name(field)),
        }
        comment = field.metadata.get(_COMMENT)
        if isinstance(comment, str):
            converted["doc"] = comment
        return converted

    def _type(self, data_type: DataType, field: StructField, path: str) -> Any:
        match data_type:
            case StructType():
                return self.struct(data_type)
            case ArrayType():
                inner = f"{path}.element"
                return {
                    "type": "list",
                    "element-id": _nested_id(self._table, field, inner),
                    "element": self._type(data_type.element_type, field, inner),
                    "element-required": not data_type.contains_null,
                }
            case MapType():
                key, value = f"{path}.key", f"{path}.value"
                return {
                    "type": "map",
                    "key-id": _nested_id(self._table, field, key),
                    "key": self._type(data_type.key_type, field, key),
                    "value-id": _nested_id(self._table, field, value),
                    "value": self._type(data_type.value_type, field, value),
                    "value-required": not data_type.value_contains_null,
                }
            case DecimalType():
                return f"decimal({data_type.precision}, {data_type.scale})"
            case PrimitiveType():
                name = _PRIMITIVES.get(data_type.name)
                if name is None and self._format_version >= 3:
                    name = _PRIMITIVES_OF_V3.get(data_type.name)
                if name is not None:
                    return name
            case GeometryType() if self._format_version >= 3:
                return f"geometry({data_type.crs})"
            case GeographyType() if self._format_version >= 3:
                return f"geography({data_type.crs}, {data_type.algorithm.lower()})"
            case _:
                pass
        raise UniversalFormatError(
            f"{self._table}: column {field.name!r} has the type {data_type}, but version "
            f"{self._format_version} of Iceberg's format has no such type. Remove the column, or "
            "unset delta.universalFormat.enabledFormats.",
            table=self._table,
        )


def _mapped_field(table: str, field: StructField) -> Json:
    name = physical_name(field)
    mapped = _mapping(table, field, field.data_type, name, field_id=_field_id(table, field))
    return {**mapped, "names": [name]}


def _mapping(
    table: str, field: StructField, data_type: DataType, path: str, *, field_id: int
) -> Json:
    mapped: Json = {"field-id": field_id, "names": [path.rpartition(".")[2]]}
    match data_type:
        case StructType(fields):
            mapped["fields"] = [_mapped_field(table, inner) for inner in fields]
        case ArrayType():
            steps = {"element": data_type.element_type}
            mapped["fields"] = _nested_mappings(table, field, steps, path)
        case MapType():
            steps = {"key": data_type.key_type, "value": data_type.value_type}
            mapped["fields"] = _nested_mappings(table, field, steps, path)
        case _:
            pass
    return mapped


def _nested_mappings(
    table: str, field: StructField, steps: Mapping[str, DataType], path: str
) -> list[Json]:
    mappings = []
    for step, data_type in steps.items():
        inner = f"{path}.{step}"
        field_id = _nested_id(table, field, inner)
        mappings.append(_mapping(table, field, data_type, inner, field_id=field_id))
    return mappings


def _field_id(table: str, field: StructField) -> int:
    field_id = field.metadata.get(ID_KEY)
    if isinstance(field_id, int):
        return field_id
    raise UniversalFormatError(
        f"{table}: column {field.name!r} has no {ID_KEY}. Iceberg metadata requires this id. "
        "Enable delta.enableIcebergCompatV2, which enables column mapping.",
        table=table,
    )


def _nested_id(table: str, field: StructField, path: str) -> int:
    nested_id = nested_field_ids(field).get(path)
    if isinstance(nested_id, int):
        return nested_id
    raise UniversalFormatError(
        f"{table}: {NESTED_IDS_KEY} of column {field.name!r} has no id for {path!r}. Iceberg "
        "metadata requires this id. Run REORG TABLE ... APPLY (UPGRADE UNIFORM "
        "(ICEBERG_COMPAT_VERSION = 2)).",
        table=table,
    )


def _full_names(data_type: Any, prefix: str) -> Iterator[str]:
    """Yield the full name of each field: the names from the top-level column on, joined by dots."""
    if not isinstance(data_type, dict):
        return
    for field in data_type.get("fields", ()):
        yield f"{prefix}{field['name']}"
        yield from _full_names(field["type"], f"{prefix}{field['name']}.")
    for step in ("element", "key", "value"):
        if step in data_type:
            yield f"{prefix}{step}"
            yield from _full_names(data_type[step], f"{prefix}{step}.")


def _field_ids(data_type: Any) -> Iterator[int]:
    if not isinstance(data_type, dict):
        return
    for field in data_type.get("fields", ()):
        yield field["id"]
        yield from _field_ids(field["type"])
    for step in ("element", "key", "value"):
        if step in data_type:
            yield data_type[f"{step}-id"]
            yield from _field_ids(data_type[step])


def _primitive_types(data_type: Any) -> Iterator[tuple[int, str]]:
    if not isinstance(data_type, dict):
        return
    for field in data_type.get("fields", ()):
        if isinstance(field["type"], str):
            yield field["id"], field["type"]
        yield from _primitive_types(field["type"])
    for step in ("element", "key", "value"):
        if step in data_type:
            yield from _primitive_types(data_type[step])
