"""The types of `deltalake.schema`, each with a conversion to a type of `bayou.protocol.schema`."""

from __future__ import annotations

import json as json_module
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from bayou.errors import ArgumentError, ArgumentTypeError
from bayou.protocol import schema as protocol
from bayou.protocol.column_metadata import column_invariants

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ArrayType",
    "Field",
    "MapType",
    "PrimitiveType",
    "Schema",
    "StructType",
    "VariantType",
]


class _Type(ABC):
    """A data type. Two objects are equal if they represent the same type of PROTOCOL.md."""

    type: str

    @abstractmethod
    def kernel(self) -> protocol.DataType:
        """Return the equivalent type from `bayou.protocol.schema`."""

    def to_json(self) -> str:
        """Return the type as JSON, in the format of PROTOCOL.md."""
        return _json(protocol.data_type_to_json(self.kernel()))

    @classmethod
    def from_json(cls, json: str) -> Self:
        """Create a type from JSON in the format of PROTOCOL.md."""
        return cls._checked(_parsed(json_module.loads(json)))

    def to_arrow(self) -> Any:
        """Return the equivalent Arrow type; for a schema, the equivalent `pyarrow.Schema`."""
        from bayou.kernel.arrow.types import to_arrow_type

        return to_arrow_type(self.kernel())

    @classmethod
    def from_arrow(cls, type: Any) -> Self:
        """Create a type from an Arrow type, or from an object that exports an Arrow type."""
        import pyarrow as pa

        from bayou.kernel.arrow.types import from_arrow_type

        arrow: Any = type
        if not isinstance(arrow, pa.DataType):
            arrow = pa.DataType._import_from_c_capsule(arrow.__arrow_c_schema__())  # noqa: SLF001
        return cls._checked(from_arrow_type(arrow, column="type"))

    def __arrow_c_schema__(self) -> object:
        return self.to_arrow().__arrow_c_schema__()

    def __eq__(self, other: object) -> bool:
        return self.kernel() == other.kernel() if isinstance(other, _Type) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.kernel())

    @classmethod
    def _checked(cls, kernel: protocol.DataType) -> Self:
        found = _wrapped(kernel)
        if isinstance(found, StructType) and issubclass(cls, Schema):
            found = Schema(found.fields)
        if not isinstance(found, cls):
            raise ArgumentTypeError(
                f"type: {kernel} isn't a {cls.__name__}. Use {type(found).__name__}.",
                argument="type",
            )
        return found


class PrimitiveType(_Type):
    """A type without nested types; `type` is its name, such as `long` or `decimal(10,2)`."""

    def __init__(self, data_type: str) -> None:
        self._kernel = _parsed(data_type)
        self.type = str(self._kernel)

    def kernel(self) -> protocol.DataType:
        return self._kernel

    def __repr__(self) -> str:
        return f'PrimitiveType("{self.type}")'


class VariantType(_Type):
    """The type `variant`."""

    type = "variant"

    def kernel(self) -> protocol.DataType:
        return protocol.VARIANT

    def __repr__(self) -> str:
        return "VariantType()"


class ArrayType(_Type):
    """An array; `element_type` may be the name of a type."""

    type = "array"

    def __init__(self, element_type: DataType | str, contains_null: bool = True) -> None:
        self.element_type = _checked_type(element_type)
        self.contains_null = contains_null

    def kernel(self) -> protocol.DataType:
        return protocol.ArrayType(
            element_type=self.element_type.kernel(), contains_null=self.contains_null
        )

    def __repr__(self) -> str:
        return f"ArrayType({self.element_type!r}, contains_null={self.contains_null})"


class MapType(_Type):
    """A map; `key_type` and `value_type` may be names of types."""

    type = "map"

    def __init__(
        self,
        key_type: DataType | str,
        value_type: DataType | str,
        value_contains_null: bool = True,
    ) -> None:
        self.key_type = _checked_type(key_type)
        self.value_type = _checked_type(value_type)
        self.value_contains_null = value_contains_null

    def kernel(self) -> protocol.DataType:
        return protocol.MapType(
            key_type=self.key_type.kernel(),
            value_type=self.value_type.kernel(),
            value_contains_null=self.value_contains_null,
        )

    def __repr__(self) -> str:
        return (
            f"MapType({self.key_type!r}, {self.value_type!r}, "
            f"value_contains_null={self.value_contains_null})"
        )


class Field:
    """A column or a field of a struct; `type` may be the name of a type."""

    def __init__(
        self,
        name: str,
        type: DataType | str,
        *,
        nullable: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.type = _checked_type(type)
        self.nullable = nullable
        self.metadata = dict(metadata or {})

    def kernel(self) -> protocol.StructField:
        """Return the equivalent field from `bayou.protocol.schema`."""
        return protocol.StructField(
            name=self.name,
            data_type=self.type.kernel(),
            nullable=self.nullable,
            metadata=self.metadata,
        )

    def to_json(self) -> str:
        """Return the field as JSON, in the format of PROTOCOL.md."""
        return _json(protocol.data_type_to_json(self._struct())["fields"][0])

    @classmethod
    def from_json(cls, json: str) -> Field:
        """Create a field from JSON in the format of PROTOCOL.md."""
        return StructType.from_json(f'{{"type":"struct","fields":[{json}]}}').fields[0]

    def to_arrow(self) -> pa.Field[Any]:
        """Return the equivalent `pyarrow.Field`."""
        from bayou.kernel.arrow.types import to_arrow_schema

        return to_arrow_schema(self._struct()).field(0)

    @classmethod
    def from_arrow(cls, field: Any) -> Field:
        """Create a field from an Arrow field, or from an object that exports an Arrow field."""
        import pyarrow as pa

        arrow: Any = field
        if not isinstance(arrow, pa.Field):
            arrow = pa.Field._import_from_c_capsule(arrow.__arrow_c_schema__())  # noqa: SLF001
        return Schema.from_arrow(pa.schema([arrow])).fields[0]

    def __arrow_c_schema__(self) -> object:
        field: Any = self.to_arrow()
        return field.__arrow_c_schema__()

    def __eq__(self, other: object) -> bool:
        return self.kernel() == other.kernel() if isinstance(other, Field) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.kernel())

    def __repr__(self) -> str:
        metadata = f", metadata={self.metadata}" if self.metadata else ""
        return f"Field({self.name}, {self.type!r}, nullable={self.nullable}{metadata})"

    def _struct(self) -> protocol.StructType:
        return protocol.StructType((self.kernel(),))


class StructType(_Type):
    """A struct of fields."""

    type = "struct"

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = list(fields)

    def kernel(self) -> protocol.StructType:
        return protocol.StructType(tuple(field.kernel() for field in self.fields))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fields!r})"


class Schema(StructType):
    """The schema of a table."""

    @property
    def invariants(self) -> list[tuple[str, str]]:
        """For each column with an invariant, the column's name and the invariant's SQL."""
        return list(column_invariants(self.kernel()).items())

    def to_arrow(self, as_large_types: bool = False) -> pa.Schema:
        """Return the equivalent `pyarrow.Schema`."""
        from bayou.kernel.arrow.types import to_arrow_schema

        check_no_large_types(as_large_types)
        return to_arrow_schema(self.kernel())

    @classmethod
    def from_arrow(cls, type: Any) -> Schema:
        """Create a schema from an Arrow schema, or from an object that exports an Arrow schema."""
        import pyarrow as pa

        from bayou.kernel.arrow.types import from_arrow_schema

        return schema_of(from_arrow_schema(pa.schema(type)))


DataType: TypeAlias = PrimitiveType | MapType | StructType | ArrayType | VariantType


def schema_of(kernel: protocol.StructType) -> Schema:
    """Convert a schema of `bayou.protocol.schema` to a `Schema`."""
    return Schema([_wrapped_field(field) for field in kernel])


def check_no_large_types(as_large_types: bool) -> None:
    """Raise `ArgumentError` if `as_large_types` is true: Bayou returns no large Arrow types."""
    if as_large_types:
        raise ArgumentError(
            "as_large_types: Bayou doesn't use large Arrow types. Remove the argument; Polars "
            "and other libraries read the standard types.",
            argument="as_large_types",
        )


def _wrapped(kernel: protocol.DataType) -> DataType:
    match kernel:
        case protocol.StructType():
            return StructType([_wrapped_field(field) for field in kernel])
        case protocol.ArrayType():
            return ArrayType(_wrapped(kernel.element_type), kernel.contains_null)
        case protocol.MapType():
            return MapType(
                _wrapped(kernel.key_type), _wrapped(kernel.value_type), kernel.value_contains_null
            )
        case protocol.VARIANT:
            return VariantType()
        case _:
            return PrimitiveType(str(kernel))


def _wrapped_field(field: protocol.StructField) -> Field:
    return Field(
        field.name, _wrapped(field.data_type), nullable=field.nullable, metadata=field.metadata
    )


def _checked_type(value: DataType | str) -> DataType:
    if isinstance(value, str):
        return _wrapped(_parsed(value))
    if not isinstance(value, _Type):
        raise ArgumentTypeError(
            f"type: {value!r} isn't a type. Give the name of a type, or a type of "
            "bayou.deltalake.schema.",
            argument="type",
        )
    return value


def _parsed(value: Any) -> protocol.DataType:
    try:
        return protocol.data_type_from_json(value)
    except protocol.SchemaJsonError as error:
        raise ArgumentError(f"type: {error}.", argument="type") from error


def _json(value: object) -> str:
    return json_module.dumps(value, separators=(",", ":"), ensure_ascii=False)
