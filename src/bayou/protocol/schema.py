"""Table schemas and their JSON form (PROTOCOL.md, Schema Serialization Format)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import msgspec

from bayou.json_decoding import decode_json


class SchemaJsonError(ValueError):
    """A schema that PROTOCOL.md doesn't allow; the kernel adds the table's path to the message."""


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without parameters (`long`, `string`, `timestamp_ntz`, ...)."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType:
    """`decimal(precision,scale)`: 1 <= precision <= 38, and 0 <= scale <= precision."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not (1 <= self.precision <= 38 and 0 <= self.scale <= self.precision):
            raise SchemaJsonError(
                f"decimal({self.precision},{self.scale}) isn't a decimal type: "
                "the precision must be between 1 and 38, and the scale between 0 and the precision"
            )

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class GeometryType:
    """Geometries in a coordinate reference system, with Cartesian edges; values are WKB.

    Not in PROTOCOL.md; delta-spark and Delta Kernel have the type since Delta Lake 4.3.

    Attributes:
        crs: the coordinate reference system, such as `OGC:CRS84` or `EPSG:3857`.
    """

    crs: str = "OGC:CRS84"

    def __str__(self) -> str:
        return f"geometry({self.crs})"


@dataclass(frozen=True, slots=True)
class GeographyType:
    """Geometries on an ellipsoid; values are WKB.

    Attributes:
        crs: the coordinate reference system, such as `OGC:CRS84`.
        algorithm: interpolation of edges: `SPHERICAL`, `VINCENTY`, `THOMAS`, `ANDOYER` or `KARNEY`.
    """

    crs: str = "OGC:CRS84"
    algorithm: str = "SPHERICAL"

    def __str__(self) -> str:
        return f"geography({self.crs}, {self.algorithm})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType:
    """An array of `element_type`."""

    element_type: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        return f"array<{self.element_type}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapType:
    """A map from `key_type` (never null) to `value_type`."""

    key_type: DataType
    value_type: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        return f"map<{self.key_type},{self.value_type}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class StructField:
    """A column of a table, or a field of a struct.

    Attributes:
        metadata: JSON values by key (PROTOCOL.md, Column Metadata).
    """

    name: str
    data_type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def with_data_type(self, data_type: DataType) -> StructField:
        """Return a copy of the field with another type."""
        return replace(self, data_type=data_type)


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct of fields: a table's schema, or the type of a struct column."""

    fields: tuple[StructField, ...] = ()

    def __str__(self) -> str:
        return f"struct<{','.join(f'{f.name}:{f.data_type}' for f in self.fields)}>"

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields, in order."""
        return tuple(f.name for f in self.fields)

    def get(self, name: str) -> StructField | None:
        """Return the field with a name; None if there is none.

        If no field has exactly this name, case is ignored, and the first matching field is
        returned.
        """
        folded = None
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
            if folded is None and candidate.name.lower() == name.lower():
                folded = candidate
        return folded

    def find(self, path: Sequence[str]) -> tuple[tuple[str, ...], DataType] | None:
        """Find a column or nested field by its path, ignoring case.

        Return the path as spelled in the schema, and the field's type; None if there is no such
        field.
        """
        names: list[str] = []
        level: DataType = self
        for step in path:
            child = level.get(step) if isinstance(level, StructType) else None
            if child is None:
                return None
            names.append(child.name)
            level = child.data_type
        return tuple(names), level

    def select(self, names: tuple[str, ...] | list[str]) -> StructType:
        """Return a struct of the fields with exactly these names; KeyError if one is missing."""
        by_name = {f.name: f for f in self.fields}
        return StructType(tuple(by_name[n] for n in names))

    def to_json(self) -> str:
        """Encode the schema as JSON, for `metaData.schemaString`."""
        return msgspec.json.encode(data_type_to_json(self)).decode()

    @classmethod
    def from_json(cls, json: str | bytes) -> StructType:
        """Parse `metaData.schemaString`.

        Raises:
            SchemaJsonError: `json` isn't JSON, or isn't a struct of known types.
        """
        try:
            value: Any = decode_json(json, object)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SchemaJsonError(f"schema isn't valid JSON: {error}") from error
        result = data_type_from_json(value)
        if not isinstance(result, StructType):
            raise SchemaJsonError(f"a schema must be a struct, not {result}")
        return result


DataType: TypeAlias = (
    PrimitiveType | DecimalType | GeometryType | GeographyType | ArrayType | MapType | StructType
)

STRING = PrimitiveType("string")
LONG = PrimitiveType("long")
INTEGER = PrimitiveType("integer")
SHORT = PrimitiveType("short")
BYTE = PrimitiveType("byte")
FLOAT = PrimitiveType("float")
DOUBLE = PrimitiveType("double")
BOOLEAN = PrimitiveType("boolean")
BINARY = PrimitiveType("binary")
DATE = PrimitiveType("date")
TIMESTAMP = PrimitiveType("timestamp")
TIMESTAMP_NTZ = PrimitiveType("timestamp_ntz")
VOID = PrimitiveType("void")
VARIANT = PrimitiveType("variant")

_PRIMITIVES = {
    t.name: t
    for t in (
        STRING,
        LONG,
        INTEGER,
        SHORT,
        BYTE,
        FLOAT,
        DOUBLE,
        BOOLEAN,
        BINARY,
        DATE,
        TIMESTAMP,
        TIMESTAMP_NTZ,
        VOID,
        VARIANT,
    )
}
PRIMITIVE_NAMES = frozenset(_PRIMITIVES)

_MAX_DEPTH = 100
"""Maximum nesting of types; deeper nesting would exceed the interpreter's stack."""

_MAX_EXCERPT = 100


def nested_types(
    data_type: DataType, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], DataType, StructField | None]]:
    """Yield (path, type, field) for each type nested at any depth in `data_type`, parents first.

    Each path starts with the argument `path`. Its other elements are the names of struct fields,
    `element` for array elements, and `key` and `value` for map entries. For array elements, map
    keys and map values, the field is None.
    """
    children: list[tuple[str, DataType, StructField | None]] = []
    match data_type:
        case StructType(fields):
            children = [(f.name, f.data_type, f) for f in fields]
        case ArrayType():
            children = [("element", data_type.element_type, None)]
        case MapType():
            children = [("key", data_type.key_type, None), ("value", data_type.value_type, None)]
        case _:
            pass
    for name, child, child_field in children:
        yield (*path, name), child, child_field
        yield from nested_types(child, (*path, name))


def data_type_from_json(value: Any) -> DataType:
    """Create a type from decoded JSON; raise SchemaJsonError if the type is unknown."""
    return _type_from_json(value, _MAX_DEPTH)


def _type_from_json(value: Any, depth: int) -> DataType:
    if isinstance(value, str):
        return _primitive_from_name(value)
    if not isinstance(value, dict):
        raise SchemaJsonError(f"a type must be a name or an object, not {_excerpt(value)}")
    if depth == 0:
        raise SchemaJsonError(f"types are nested more than {_MAX_DEPTH} levels deep")
    try:
        match value["type"]:
            case "struct":
                fields = value["fields"]
                if not isinstance(fields, list):
                    raise SchemaJsonError(
                        f"the fields of a struct must be a list, not {_excerpt(fields)}"
                    )
                return StructType(tuple(_field_from_json(f, depth - 1) for f in fields))
            case "array":
                return ArrayType(
                    element_type=_type_from_json(value["elementType"], depth - 1),
                    contains_null=bool(value.get("containsNull", True)),
                )
            case "map":
                return MapType(
                    key_type=_type_from_json(value["keyType"], depth - 1),
                    value_type=_type_from_json(value["valueType"], depth - 1),
                    value_contains_null=bool(value.get("valueContainsNull", True)),
                )
            case str() as name:
                return _primitive_from_name(name)
            case other:
                raise SchemaJsonError(f"unknown type {_excerpt(other)}")
    except KeyError as error:
        raise SchemaJsonError(
            f"the JSON of type {_excerpt(value.get('type'))} lacks the key {error.args[0]!r}"
        ) from error


def data_type_to_json(data_type: DataType) -> Any:
    """Return the JSON of a type as Python objects; the inverse of `data_type_from_json`."""
    match data_type:
        case StructType(fields):
            return {
                "type": "struct",
                "fields": [
                    {
                        "name": f.name,
                        "type": data_type_to_json(f.data_type),
                        "nullable": f.nullable,
                        "metadata": dict(f.metadata),
                    }
                    for f in fields
                ],
            }
        case ArrayType():
            return {
                "type": "array",
                "elementType": data_type_to_json(data_type.element_type),
                "containsNull": data_type.contains_null,
            }
        case MapType():
            return {
                "type": "map",
                "keyType": data_type_to_json(data_type.key_type),
                "valueType": data_type_to_json(data_type.value_type),
                "valueContainsNull": data_type.value_contains_null,
            }
        case _:
            return str(data_type)


def _field_from_json(value: Any, depth: int) -> StructField:
    if not isinstance(value, dict):
        raise SchemaJsonError(f"a field must be an object, not {_excerpt(value)}")
    if not isinstance(value["name"], str):
        raise SchemaJsonError(f"a field's name must be a string, not {_excerpt(value['name'])}")
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise SchemaJsonError(
            f"the metadata of field {_excerpt(value['name'])} must be an object, not "
            f"{_excerpt(metadata)}"
        )
    return StructField(
        name=value["name"],
        data_type=_type_from_json(value["type"], depth),
        nullable=bool(value.get("nullable", True)),
        metadata=metadata,
    )


def _excerpt(value: Any) -> str:
    try:
        full = repr(value)
    except RecursionError:
        full = f"a deeply nested {type(value).__name__}"
    return full if len(full) <= _MAX_EXCERPT else f"{full[:_MAX_EXCERPT]}..."


def _primitive_from_name(name: str) -> DataType:
    known = _PRIMITIVES.get(name)
    if known is not None:
        return known
    if name == "decimal":
        return DecimalType(10, 0)
    geospatial = _geospatial_from_name(name)
    if geospatial is not None:
        return geospatial
    if name.startswith("decimal(") and name.endswith(")"):
        parts = name[len("decimal(") : -1].split(",")
        try:
            numbers = [int(p) for p in parts]
        except ValueError as error:
            raise SchemaJsonError(f"unknown type {_excerpt(name)}") from error
        if len(numbers) == 2:
            return DecimalType(numbers[0], numbers[1])
    raise SchemaJsonError(f"unknown type {_excerpt(name)}")


_CRS = r"\s*(?P<crs>\w+:-?\w+)\s*"
_ALGORITHM = r"\s*(?P<algorithm>[A-Za-z]+)\s*"
_GEOMETRY = re.compile(rf"geometry(?:\({_CRS}\))?")
_GEOGRAPHY = re.compile(rf"geography(?:\((?:{_CRS},)?{_ALGORITHM}\))?")
_GEOGRAPHY_CRS = re.compile(rf"geography\({_CRS}\)")
EDGE_ALGORITHMS = ("SPHERICAL", "VINCENTY", "THOMAS", "ANDOYER", "KARNEY")


def _geospatial_from_name(name: str) -> GeometryType | GeographyType | None:
    """Parse `geometry(crs)` or `geography(crs, algorithm)`; the parameters are optional."""
    if match := _GEOMETRY.fullmatch(name):
        return GeometryType() if match["crs"] is None else GeometryType(match["crs"])
    if match := _GEOGRAPHY_CRS.fullmatch(name):
        return GeographyType(match["crs"])
    if match := _GEOGRAPHY.fullmatch(name):
        default = GeographyType()
        algorithm = (match["algorithm"] or default.algorithm).upper()
        if algorithm in EDGE_ALGORITHMS:
            return GeographyType(match["crs"] or default.crs, algorithm)
    return None
