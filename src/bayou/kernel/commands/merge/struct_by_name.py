"""Values put into columns as MERGE and UPDATE do it: structs by name, the rest cast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import EvaluationError, SchemaError
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.casts import can_cast, cast
from bayou.kernel.expressions.types import is_numeric
from bayou.kernel.transaction.schema_evolution import is_variant
from bayou.protocol.schema import VOID, ArrayType, DataType, MapType, StructType

__all__ = ["Place", "check_assignable", "put_into", "struct_of"]

pc: Any = pyarrow.compute


@dataclass(frozen=True, slots=True)
class Place:
    """A column of a table, or what is inside of one, and its type."""

    table: str
    column: str
    data_type: DataType

    def inside(self, name: str, data_type: DataType) -> Place:
        """A field of a struct, the element of an array, ..."""
        return Place(self.table, f"{self.column}.{name}", data_type)


def check_assignable(place: Place, given: DataType, *, growing: bool) -> None:
    """Check that values of a type can be put somewhere.

    Args:
        growing: fields that a struct lacks are NULL (schema evolution); else it must have them all.

    Raises:
        SchemaError: a field that the column doesn't have, one that is missing, or a type that
            isn't cast.
    """
    match given, place.data_type:
        case _, wanted if given == VOID or _same(given, wanted) or is_variant(wanted, given):
            return
        case StructType(), StructType() as wanted:
            unknown = [f.name for f in given if wanted.get(f.name) is None]
            missing = [f.name for f in wanted if given.get(f.name) is None]
            if unknown or (missing and not growing):
                what = (
                    f"has {', '.join(map(repr, unknown))}, which the column hasn't"
                    if unknown
                    else f"lacks {', '.join(map(repr, missing))}"
                )
                raise SchemaError(
                    f"A struct can't be put into column {place.column!r} of {place.table}: it "
                    f"{what} (DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION).",
                    table=place.table,
                    column=place.column,
                )
            for field in given:
                target = wanted.get(field.name)
                assert target is not None  # checked above
                inner = place.inside(target.name, target.data_type)
                check_assignable(inner, field.data_type, growing=growing)
        case ArrayType(), ArrayType() as wanted:
            inner = place.inside("element", wanted.element_type)
            check_assignable(inner, given.element_type, growing=growing)
        case MapType(), MapType() as wanted:
            inner = place.inside("key", wanted.key_type)
            check_assignable(inner, given.key_type, growing=growing)
            inner = place.inside("value", wanted.value_type)
            check_assignable(inner, given.value_type, growing=growing)
        case _, wanted if not can_cast(given, wanted):
            raise SchemaError(
                f"Column {place.column!r} of {place.table} has type {wanted}; a value of type "
                f"{given} can't be cast to it (DATATYPE_MISMATCH).",
                table=place.table,
                column=place.column,
            )
        case _:
            pass


def put_into(
    place: Place, values: Any, given: DataType, original: tuple[Any, DataType] | None = None
) -> Any:
    """Values as a column of the table holds them; `check_assignable` has passed the types.

    Args:
        values: an array of `given`.
        original: what was in the column before, whose fields stay that `given` doesn't have; None
            to make them NULL.

    Raises:
        EvaluationError: a value that can't be cast; names the column.
    """
    wanted = place.data_type
    if (original is None and _same(given, wanted)) or is_variant(wanted, given):
        return values  # the order of a variant's two fields is seen to where rows are checked
    match given, wanted:
        case StructType(), StructType():
            return _struct(place, values, given, original)
        case ArrayType(), ArrayType():
            inner = place.inside("element", wanted.element_type)
            elements = put_into(inner, values.flatten(), given.element_type)
            field: Any = pa.field("element", elements.type)
            return pa.ListArray.from_arrays(
                _offsets(values), elements, type=pa.list_(field), mask=_null_mask(values)
            )
        case MapType(), MapType():
            return _map(place, values, given, wanted)
        case _ if given == VOID:
            return _nulls(len(values), wanted)
        case _:
            try:
                return pc.cast(cast(values, given, wanted), to_arrow_type(wanted))
            except EvaluationError as error:
                condition = (
                    "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"
                    if is_numeric(given) and is_numeric(wanted)
                    else "CAST_INVALID_INPUT"
                )
                raise EvaluationError(
                    f"A value can't be put into column {place.column!r} of {place.table} "
                    f"({condition}): {error.message}",
                    expression=error.expression,
                ) from error


def struct_of(
    wanted: StructType, children: list[Any], length: int, missing: Any | None = None
) -> Any:
    """A struct column out of its fields, each of its field's type.

    Args:
        missing: true where the struct itself is NULL.
    """
    fields = [pa.field(f.name, child.type, True) for f, child in zip(wanted, children, strict=True)]
    if not fields:
        return pa.nulls(length, pa.struct([]))
    return pa.StructArray.from_arrays(children, fields=fields, mask=missing)


def _struct(
    place: Place, values: Any, given: StructType, original: tuple[Any, DataType] | None
) -> Any:
    wanted = place.data_type
    assert isinstance(wanted, StructType)
    kept: Any
    kept, kept_type = (None, None) if original is None else original
    if not isinstance(kept_type, StructType):
        kept = kept_type = None
    children = []
    for field in wanted:
        inner = place.inside(field.name, field.data_type)
        source = given.get(field.name)
        before = None if kept_type is None else kept_type.get(field.name)
        old = None if before is None else (pc.struct_field(kept, before.name), before.data_type)
        if source is not None:
            child = pc.struct_field(values, source.name)
            children.append(put_into(inner, child, source.data_type, old))
        elif old is not None:
            children.append(put_into(inner, *old))
        else:
            children.append(_nulls(len(values), field.data_type))
    missing = values.is_null()
    if kept_type is not None and _has_more(kept_type, given):
        missing = pc.and_(missing, kept.is_null())
    return struct_of(wanted, children, len(values), missing)


def _has_more(before: StructType, given: StructType) -> bool:
    """Whether fields of structs are there that the given ones don't have."""
    for field in before:
        other = given.get(field.name)
        if other is None:
            return True
        one, two = field.data_type, other.data_type
        if isinstance(one, StructType) and isinstance(two, StructType) and _has_more(one, two):
            return True
    return False


def _map(place: Place, values: Any, given: MapType, wanted: MapType) -> Any:
    as_list: Any = pa.Array.from_buffers(
        pa.list_(pa.struct([pa.field("key", values.type.key_type, False), values.type.item_field])),
        len(values),
        values.buffers()[:2],
        offset=values.offset,
        children=[pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])],
    )
    flat = as_list.flatten()
    keys = put_into(place.inside("key", wanted.key_type), flat.field(0), given.key_type)
    items = put_into(place.inside("value", wanted.value_type), flat.field(1), given.value_type)
    item: Any = pa.field("value", items.type)
    map_type: Any = pa.map_(keys.type, item)
    made: Any = pa.MapArray.from_arrays
    return made(_offsets(as_list), keys, items, map_type, mask=_null_mask(values))


def _offsets(lists: Any) -> Any:
    """Where each row's elements begin among those that `flatten` gives."""
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(lists), 0))
    return pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])


def _nulls(count: int, data_type: DataType) -> Any:
    arrow_type: Any = to_arrow_type(data_type)
    return pa.nulls(count, arrow_type)


def _null_mask(values: Any) -> Any:
    return values.is_null() if values.null_count else None


def _same(one: DataType, other: DataType) -> bool:
    """Equal but for what may be null; names count, with their case."""
    match one, other:
        case StructType(), StructType():
            return one.names == other.names and all(
                _same(a.data_type, b.data_type) for a, b in zip(one, other, strict=True)
            )
        case ArrayType(), ArrayType():
            return _same(one.element_type, other.element_type)
        case MapType(), MapType():
            return _same(one.key_type, other.key_type) and _same(one.value_type, other.value_type)
        case _:
            return one == other
