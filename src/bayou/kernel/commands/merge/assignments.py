"""Column values of updated and inserted rows, and the table's schema after schema evolution.

With schema evolution, source columns and struct fields that a clause assigns are added to the
table. Existing columns keep their types, and assigned values are cast to these types. If the table
has type widening, an existing column may instead be widened to the type of its source column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.errors import SchemaError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.commands.merge.clauses import TARGET
from bayou.kernel.commands.merge.struct_by_name import (
    TargetColumn,
    cast_to_column,
    check_assignable,
    struct_of,
)
from bayou.kernel.expressions.evaluation import Evaluator
from bayou.kernel.expressions.model import Column, Expression
from bayou.kernel.transaction.schema_evolution import SchemaMerge
from bayou.protocol.column_metadata import GENERATION_EXPRESSION_KEY, without_defaults
from bayou.protocol.schema import DataType, StructField, StructType
from bayou.protocol.type_widening import WideningRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Assignment of a value to a column or nested field.

    Attributes:
        path: path of the column or nested field in the table's schema after the merge.
        value: resolved expression over joined rows.
        data_type: type of `value`.
        keeps_fields: what happens if the column is a struct and the assigned struct lacks some of
            its fields. If True, these fields keep their current values. If False, they become NULL.
    """

    path: tuple[str, ...]
    value: Expression
    data_type: DataType
    keeps_fields: bool = False


@dataclass(frozen=True, slots=True)
class Assigned:
    """A column value that an expression computes, cast to the column's type."""

    expression: Expression
    data_type: DataType
    keeps_fields: bool


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A column value that doesn't change: the current value in the target row."""


@dataclass(frozen=True, slots=True)
class Null:
    """The column value NULL."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A column value that the table generates (generated, identity and default columns)."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A column value that is a non-null struct, with a `ColumnValue` for each field."""

    children: tuple[ColumnValue, ...]


ColumnValue: TypeAlias = Assigned | Unchanged | Null | Generated | Fields


def update_values(
    table: str,
    before: StructType,
    after: StructType,
    assignments: Sequence[Assignment],
    *,
    schema_evolution: bool,
) -> tuple[ColumnValue, ...]:
    """Return how an UPDATE clause computes a row: one `ColumnValue` for each column of `after`.

    Args:
        before, after: the table's schema before and after the merge.
        schema_evolution: whether an assigned struct may lack fields of its column. If False, a
            struct that lacks a field is an error.
    """
    return tuple(
        _update_values(table, before, after, assignments, "", schema_evolution=schema_evolution)
    )


def _update_values(
    table: str,
    before: StructType | None,
    after: StructType,
    assignments: Sequence[Assignment],
    prefix: str,
    *,
    schema_evolution: bool,
) -> Iterator[ColumnValue]:
    depth = prefix.count("\0")
    for field in after:
        name = _dotted(prefix, field)
        of_field = [a for a in assignments if a.path[depth].lower() == field.name.lower()]
        old = None if before is None else before.get(field.name)
        if not of_field:
            if not prefix and GENERATION_EXPRESSION_KEY in field.metadata:
                yield Generated()
            else:
                yield Null() if old is None else Unchanged()
            continue
        whole = [a for a in of_field if len(a.path) == depth + 1]
        if whole and len(of_field) > 1:
            paths = ", ".join(".".join(a.path) for a in of_field)
            raise SchemaError(
                f"{table}: column {name!r} is set more than once. There is a conflict from these "
                f"SET columns: {paths} (DELTA_CONFLICT_SET_COLUMN). Set it once in each clause.",
                table=table,
                column=name,
            )
        if whole:
            yield assigned_value(
                table, name, whole[0], field.data_type, schema_evolution=schema_evolution
            )
        elif isinstance(field.data_type, StructType):
            inner = None if old is None else old.data_type
            yield Fields(
                tuple(
                    _update_values(
                        table,
                        inner if isinstance(inner, StructType) else None,
                        field.data_type,
                        of_field,
                        f"{prefix}{field.name}\0",
                        schema_evolution=schema_evolution,
                    )
                )
            )
        else:
            raise SchemaError(
                f"{table}: {'.'.join(of_field[0].path)!r} can't be set, because column {name!r} "
                f"has type {field.data_type} and isn't a struct "
                "(DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT). Set the whole column.",
                table=table,
                column=name,
            )


def assigned_value(
    table: str, name: str, assignment: Assignment, data_type: DataType, *, schema_evolution: bool
) -> Assigned:
    """Return the value that an assignment gives to a column of type `data_type`."""
    check_assignable(
        TargetColumn(table, name, data_type),
        assignment.data_type,
        schema_evolution=schema_evolution,
    )
    return Assigned(assignment.value, assignment.data_type, assignment.keeps_fields)


def expressions_of(schema: StructType, values: Sequence[ColumnValue]) -> Iterator[Expression]:
    """Yield the expressions that are needed to compute `values`.

    For an unchanged column, this is a reference to the target's column.
    """
    for field, value in zip(schema, values, strict=True):
        match value:
            case Assigned():
                yield value.expression
                if value.keeps_fields:
                    yield Column((f"{TARGET}.{field.name}",))
            case Unchanged() | Fields():
                yield Column((f"{TARGET}.{field.name}",))
                if isinstance(value, Fields):
                    yield from _inner_expressions(value)
            case _:
                pass


def _inner_expressions(value: Fields) -> Iterator[Expression]:
    for child in value.children:
        if isinstance(child, Assigned):
            yield child.expression
        elif isinstance(child, Fields):
            yield from _inner_expressions(child)


class NewRows:
    """Computes the values of updated and inserted rows from joined rows; stateless."""

    __slots__ = ("_joined", "_schema", "_table")

    def __init__(self, table: str, joined: StructType, schema: StructType) -> None:
        self._table = table
        self._joined = joined
        self._schema = schema

    def of(self, values: Sequence[ColumnValue], rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return a new row for each joined row, without the columns whose value is `Generated`.

        Args:
            values: one value for each column of the table after the merge.
            rows: joined rows with the columns that `expressions_of(schema, values)` references.
                Structs of the target may lack the fields that schema evolution adds.
        """
        columns: dict[str, Any] = {}
        for field, value in zip(self._schema, values, strict=True):
            if isinstance(value, Generated):
                continue
            index = rows.schema.get_field_index(f"{TARGET}.{field.name}")
            old = None if index < 0 else rows.column(index)
            target = TargetColumn(self._table, field.name, field.data_type)
            columns[field.name] = self._column(target, value, rows, old)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _column(
        self, target: TargetColumn, value: ColumnValue, rows: pa.RecordBatch, old: Any
    ) -> Any:
        match value:
            case Assigned(expression, data_type, keeps_fields):
                values = Evaluator(self._joined, expression).values(rows)
                original = (old, target.data_type) if keeps_fields and old is not None else None
                return cast_to_column(target, values, data_type, original)
            case Unchanged():
                return old
            case Fields(children):
                assert isinstance(target.data_type, StructType)  # see `_update_values`
                fields = [
                    self._column(
                        target.inside(field.name, field.data_type), v, rows, _field(old, field)
                    )
                    for field, v in zip(target.data_type, children, strict=True)
                ]
                return struct_of(target.data_type, fields, rows.num_rows)
            case _:
                arrow_type: Any = to_arrow_type(target.data_type)
                return pa.nulls(rows.num_rows, arrow_type)


def _field(struct: Any, field: StructField) -> Any:
    """Return a field of a struct column; None if `struct` is None or lacks the field."""
    if struct is None or struct.type.get_field_index(field.name) < 0:
        return None
    return pc.struct_field(struct, field.name)


def _dotted(prefix: str, field: StructField) -> str:
    return f"{prefix}{field.name}".replace("\0", ".")


def evolved_schema(
    table: str,
    target: StructType,
    source: StructType,
    assigned: Sequence[tuple[str, ...]],
    *,
    all_columns: bool,
    widening: WideningRule | None = None,
) -> StructType:
    """Return the target's schema, extended by the source columns that clauses assign.

    The new columns don't get the default values of the source columns.

    Args:
        assigned: paths that clauses assign by name.
        all_columns: whether a clause assigns all source columns.
        widening: rule that decides which columns are widened to the types of their source columns.
            If None, no column is widened.
    """
    paths = [tuple(name.lower() for name in path) for path in assigned]
    added = _assigned_columns(source, (), paths, all_columns=all_columns)
    return SchemaMerge(table=table, widening=widening, casts=True).merged(target, added)


def _assigned_columns(
    fields: StructType,
    prefix: tuple[str, ...],
    assigned: Sequence[tuple[str, ...]],
    *,
    all_columns: bool,
) -> StructType:
    selected: list[StructField] = []
    for field in fields:
        path = (*prefix, field.name.lower())
        is_prefix = any(other[: len(path)] == path for other in assigned)
        if path in assigned:
            selected.append(field)
        elif isinstance(field.data_type, StructType) and (is_prefix or all_columns):
            inner = _assigned_columns(field.data_type, path, assigned, all_columns=all_columns)
            selected.append(field.with_data_type(inner))
        elif all_columns:
            selected.append(field)
    return without_defaults(StructType(tuple(selected)))
