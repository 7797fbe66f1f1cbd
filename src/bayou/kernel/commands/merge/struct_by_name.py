"""Casts of the values that MERGE and UPDATE assign; struct fields are matched by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bayou.errors import EvaluationError, SchemaError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.casts import can_cast, cast
from bayou.kernel.expressions.types import is_numeric
from bayou.kernel.transaction.schema_evolution import is_stored_form
from bayou.protocol.schema import VOID, ArrayType, DataType, MapType, StructType


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """Name and type of a column, or of a field, element, key or value inside a column."""

    table: str
    column: str
    data_type: DataType

    def inside(self, name: str, data_type: DataType) -> TargetColumn:
        """Return a struct field, array element, map key or map value of this column."""
        return TargetColumn(self.table, f"{self.column}.{name}", data_type)


def check_assignable(target: TargetColumn, value_type: DataType, *, schema_evolution: bool) -> None:
    """Check that values of a type can be assigned to a column.

    Args:
        schema_evolution: whether missing struct fields become NULL. If False, they are an error.
    """
    match value_type, target.data_type:
        case _, target_type if (
            value_type == VOID
            or _same(value_type, target_type)
            or is_stored_form(target_type, value_type)
        ):
            return
        case StructType(), StructType() as target_type:
            unknown = [f.name for f in value_type if target_type.get(f.name) is None]
            missing = [f.name for f in target_type if value_type.get(f.name) is None]
            if unknown or (missing and not schema_evolution):
                reason = (
                    f"has {', '.join(map(repr, unknown))}, which the column doesn't have"
                    if unknown
                    else f"lacks {', '.join(map(repr, missing))}"
                )
                raise SchemaError(
                    f"{target.table}: cannot cast the struct for column {target.column!r}, because "
                    f"the struct {reason} (DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION). All nested "
                    "columns must match: assign a struct with the column's fields, or set the "
                    "fields one by one.",
                    table=target.table,
                    column=target.column,
                )
            for field in value_type:
                column_field = target_type.get(field.name)
                assert column_field is not None  # checked above
                inner = target.inside(column_field.name, column_field.data_type)
                check_assignable(inner, field.data_type, schema_evolution=schema_evolution)
        case ArrayType(), ArrayType() as target_type:
            inner = target.inside("element", target_type.element_type)
            check_assignable(inner, value_type.element_type, schema_evolution=schema_evolution)
        case MapType(), MapType() as target_type:
            inner = target.inside("key", target_type.key_type)
            check_assignable(inner, value_type.key_type, schema_evolution=schema_evolution)
            inner = target.inside("value", target_type.value_type)
            check_assignable(inner, value_type.value_type, schema_evolution=schema_evolution)
        case _, target_type if not can_cast(value_type, target_type):
            raise SchemaError(
                f"{target.table}: data type mismatch: cannot cast {value_type} to {target_type}, "
                f"the type of column {target.column!r} "
                "(DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION). Use another expression.",
                table=target.table,
                column=target.column,
            )
        case _:
            pass


def cast_to_column(
    target: TargetColumn,
    values: Any,
    value_type: DataType,
    original: tuple[Any, DataType] | None = None,
) -> Any:
    """Convert values to the type of a column; `check_assignable` must have accepted the types.

    Args:
        original: the column's old values and their type. Struct fields that `value_type` lacks keep
            their old values. If `original` is None, these fields become NULL.
    """
    target_type = target.data_type
    if (original is None and _same(value_type, target_type)) or is_stored_form(
        target_type, value_type
    ):
        return values  # the fields of a variant may have any order: `conform_variants` orders them
    match value_type, target_type:
        case StructType(), StructType():
            return _struct(target, values, value_type, original)
        case ArrayType(), ArrayType():
            inner = target.inside("element", target_type.element_type)
            elements = cast_to_column(inner, values.flatten(), value_type.element_type)
            field: Any = pa.field("element", elements.type)
            return pa.ListArray.from_arrays(
                _offsets(values), elements, type=pa.list_(field), mask=_null_mask(values)
            )
        case MapType(), MapType():
            return _map(target, values, value_type, target_type)
        case _ if value_type == VOID:
            return _nulls(len(values), target_type)
        case _:
            try:
                return pc.cast(cast(values, value_type, target_type), to_arrow_type(target_type))
            except EvaluationError as error:
                condition = (
                    "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"
                    if is_numeric(value_type) and is_numeric(target_type)
                    else "CAST_INVALID_INPUT"
                )
                raise EvaluationError(
                    f"{target.table}: a value can't be cast to the type of column "
                    f"{target.column!r} ({condition}). {error.message}",
                    expression=error.expression,
                ) from error


def struct_of(
    target_type: StructType, children: list[Any], length: int, missing: Any | None = None
) -> Any:
    """Build a struct column from its fields.

    Args:
        missing: mask that is true for rows whose struct is NULL; None if no struct is NULL.
    """
    fields = [
        pa.field(f.name, child.type, True) for f, child in zip(target_type, children, strict=True)
    ]
    if not fields:
        return pa.nulls(length, pa.struct([]))
    return pa.StructArray.from_arrays(children, fields=fields, mask=missing)


def _struct(
    target: TargetColumn, values: Any, value_type: StructType, original: tuple[Any, DataType] | None
) -> Any:
    target_type = target.data_type
    assert isinstance(target_type, StructType)
    old_values: Any
    old_values, old_type = (None, None) if original is None else original
    if not isinstance(old_type, StructType):
        old_values = old_type = None
    children = []
    for field in target_type:
        inner = target.inside(field.name, field.data_type)
        value_field = value_type.get(field.name)
        before = None if old_type is None else old_type.get(field.name)
        old = (
            None if before is None else (pc.struct_field(old_values, before.name), before.data_type)
        )
        if value_field is not None:
            child = pc.struct_field(values, value_field.name)
            children.append(cast_to_column(inner, child, value_field.data_type, old))
        elif old is not None:
            children.append(cast_to_column(inner, *old))
        else:
            children.append(_nulls(len(values), field.data_type))
    missing = values.is_null()
    if old_type is not None and _has_more_fields(old_type, value_type):
        missing = pc.and_(missing, old_values.is_null())
    return struct_of(target_type, children, len(values), missing)


def _has_more_fields(before: StructType, value_type: StructType) -> bool:
    """Whether the old struct has fields that the value's struct doesn't have."""
    for field in before:
        other = value_type.get(field.name)
        if other is None:
            return True
        one, two = field.data_type, other.data_type
        if (
            isinstance(one, StructType)
            and isinstance(two, StructType)
            and _has_more_fields(one, two)
        ):
            return True
    return False


def _map(target: TargetColumn, values: Any, value_type: MapType, target_type: MapType) -> Any:
    as_list: Any = pa.Array.from_buffers(
        pa.list_(pa.struct([pa.field("key", values.type.key_type, False), values.type.item_field])),
        len(values),
        values.buffers()[:2],
        offset=values.offset,
        children=[pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"])],
    )
    flat = as_list.flatten()
    keys = cast_to_column(
        target.inside("key", target_type.key_type), flat.field(0), value_type.key_type
    )
    items = cast_to_column(
        target.inside("value", target_type.value_type), flat.field(1), value_type.value_type
    )
    item: Any = pa.field("value", items.type)
    map_type: Any = pa.map_(keys.type, item)
    from_arrays: Any = pa.MapArray.from_arrays
    return from_arrays(_offsets(as_list), keys, items, map_type, mask=_null_mask(values))


def _offsets(lists: Any) -> Any:
    """Return the start offset of each list in `lists.flatten()`, followed by the end offset."""
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(lists), 0))
    return pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])


def _nulls(count: int, data_type: DataType) -> Any:
    arrow_type: Any = to_arrow_type(data_type)
    return pa.nulls(count, arrow_type)


def _null_mask(values: Any) -> Any:
    return values.is_null() if values.null_count else None


def _same(one: DataType, other: DataType) -> bool:
    """Whether two types differ at most in nullability; names are case-sensitive."""
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
