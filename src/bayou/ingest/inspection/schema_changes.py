"""Lists the columns of a schema, and compares two schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bayou.protocol.schema import ArrayType, DataType, MapType, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """A column that only one of two schemas has, or whose type or nullability differs.

    Attributes:
        column: path of the column, such as `place.city` or `lines.element.sku`.
        before: SQL type in the first schema, such as `int not null`; None if the column isn't in
            the first schema.
        after: SQL type in the second schema; None if the column isn't in the second schema.
    """

    column: str
    before: str | None
    after: str | None


def schema_rows(schema: StructType) -> list[dict[str, Any]]:
    """Return a row for each column and each nested column.

    A row has the keys `column` (the column's path), `type` and `nullable`.
    """
    return [
        {"column": path, "type": kind, "nullable": nullable}
        for path, kind, nullable in _leaves(schema, "")
    ]


def compare_schemas(before: StructType, after: StructType) -> tuple[SchemaChange, ...]:
    """Return the columns that differ between two schemas.

    The columns of `before` come first, in their order. Then come the columns that only `after` has.
    """
    old = {
        path: _type_with_nullability(kind, nullable) for path, kind, nullable in _leaves(before, "")
    }
    new = {
        path: _type_with_nullability(kind, nullable) for path, kind, nullable in _leaves(after, "")
    }
    return tuple(
        SchemaChange(column=path, before=old.get(path), after=new.get(path))
        for path in (*old, *(p for p in new if p not in old))
        if old.get(path) != new.get(path)
    )


def _leaves(schema: StructType, prefix: str) -> Iterator[tuple[str, str, bool]]:
    for field in schema:
        path = f"{prefix}{field.name}"
        yield path, _type_name(field.data_type), field.nullable
        yield from _nested(field.data_type, path)


def _nested(kind: DataType, path: str) -> Iterator[tuple[str, str, bool]]:
    match kind:
        case StructType():
            yield from _leaves(kind, f"{path}.")
        case ArrayType(element_type=StructType() as element):
            yield from _leaves(element, f"{path}.element.")
        case MapType(value_type=StructType() as value):
            yield from _leaves(value, f"{path}.value.")
        case _:
            pass


def _type_name(kind: DataType) -> str:
    match kind:
        case StructType():
            return "struct"
        case ArrayType(element_type=StructType()):
            return "array<struct>"
        case MapType(value_type=StructType()):
            return f"map<{kind.key_type},struct>"
        case _:
            return str(kind)


def _type_with_nullability(kind: str, nullable: bool) -> str:
    return kind if nullable else f"{kind} not null"
