"""What the columns of an updated or inserted row get.

The table's schema behind a merge with schema evolution.

Columns, and fields of structs, come in that a clause puts a value of the source into. Columns that
the table has keep their type, and what is put into them is cast, unless the table widens types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.errors import SchemaError
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.commands.merge.clauses import TARGET
from bayou.kernel.commands.merge.struct_by_name import Place, check_assignable, put_into, struct_of
from bayou.kernel.expressions.evaluation import Evaluation
from bayou.kernel.expressions.model import Column, Expression
from bayou.kernel.transaction.schema_evolution import SchemaMerge
from bayou.protocol.column_rules import GENERATION_EXPRESSION_KEY
from bayou.protocol.schema import DataType, StructField, StructType

__all__ = [
    "Assignment",
    "ColumnValue",
    "Fields",
    "Given",
    "Kept",
    "Made",
    "NewRows",
    "Nothing",
    "expressions_of",
    "grown_schema",
    "update_values",
]


pc: Any = pyarrow.compute


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A column, or a field of a struct, and its new value.

    Attributes:
        path: names in the table's schema as it will be.
        value: an expression over joined rows, resolved, and its type.
        keeps_fields: of a struct, fields stay that the value doesn't have.
    """

    path: tuple[str, ...]
    value: Expression
    data_type: DataType
    keeps_fields: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """The value of an expression, of a type that goes into the column."""

    expression: Expression
    data_type: DataType
    keeps_fields: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """What the target has."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """NULL."""


@dataclass(frozen=True, slots=True)
class Made:
    """What the table makes of it (generated, identity or default columns)."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A struct, field by field; never NULL itself."""

    children: tuple[ColumnValue, ...]


ColumnValue: TypeAlias = Given | Kept | Nothing | Made | Fields


def update_values(
    table: str,
    before: StructType,
    after: StructType,
    assignments: Sequence[Assignment],
    *,
    growing: bool,
) -> tuple[ColumnValue, ...]:
    """The values of an updated row, one for each column of the table as it will be.

    Args:
        before: the table's schema as it is.
        growing: see `check_assignable`.

    Raises:
        SchemaError: a column is set twice, or a field of what isn't a struct, or a type doesn't go.
    """
    return tuple(_update_values(table, before, after, assignments, "", growing=growing))


def _update_values(
    table: str,
    before: StructType | None,
    after: StructType,
    assignments: Sequence[Assignment],
    prefix: str,
    *,
    growing: bool,
) -> Iterator[ColumnValue]:
    depth = prefix.count("\0")
    for field in after:
        name = _shown(prefix, field)
        here = [a for a in assignments if a.path[depth].lower() == field.name.lower()]
        old = None if before is None else before.get(field.name)
        if not here:
            if not prefix and GENERATION_EXPRESSION_KEY in field.metadata:
                yield Made()
            else:
                yield Nothing() if old is None else Kept()
            continue
        whole = [a for a in here if len(a.path) == depth + 1]
        if whole and len(here) > 1:
            paths = ", ".join(".".join(a.path) for a in here)
            raise SchemaError(
                f"Column {name!r} of {table} is set more than once: {paths} "
                "(DELTA_CONFLICT_SET_COLUMN).",
                table=table,
                column=name,
            )
        if whole:
            yield given(table, name, whole[0], field.data_type, growing=growing)
        elif isinstance(field.data_type, StructType):
            inner = None if old is None else old.data_type
            yield Fields(
                tuple(
                    _update_values(
                        table,
                        inner if isinstance(inner, StructType) else None,
                        field.data_type,
                        here,
                        f"{prefix}{field.name}\0",
                        growing=growing,
                    )
                )
            )
        else:
            raise SchemaError(
                f"{'.'.join(here[0].path)!r} can't be set: column {name!r} of {table} is a "
                f"{field.data_type}, only fields of structs can be set by themselves "
                "(DELTA_UNSUPPORTED_UPDATE_NON_STRUCT_FIELD).",
                table=table,
                column=name,
            )


def given(
    table: str, name: str, assignment: Assignment, wanted: DataType, *, growing: bool
) -> Given:
    """The value of a whole column.

    Raises:
        SchemaError: its type doesn't go.
    """
    check_assignable(Place(table, name, wanted), assignment.data_type, growing=growing)
    return Given(assignment.value, assignment.data_type, assignment.keeps_fields)


def expressions_of(schema: StructType, values: Sequence[ColumnValue]) -> Iterator[Expression]:
    """What the values rest on, columns of the target that stay among it.

    Args:
        schema: the table as it will be.
    """
    for field, value in zip(schema, values, strict=True):
        match value:
            case Given():
                yield value.expression
                if value.keeps_fields:
                    yield Column((f"{TARGET}.{field.name}",))
            case Kept() | Fields():
                yield Column((f"{TARGET}.{field.name}",))
                if isinstance(value, Fields):
                    yield from _inner_expressions(value)
            case _:
                pass


def _inner_expressions(value: Fields) -> Iterator[Expression]:
    for child in value.children:
        if isinstance(child, Given):
            yield child.expression
        elif isinstance(child, Fields):
            yield from _inner_expressions(child)


class NewRows:
    """Makes updated and inserted rows. Holds no state.

    Args:
        joined: schema of the joined rows.
        schema: the table's as it will be.
    """

    __slots__ = ("_joined", "_schema", "_table")

    def __init__(self, table: str, joined: StructType, schema: StructType) -> None:
        self._table = table
        self._joined = joined
        self._schema = schema

    def of(self, values: Sequence[ColumnValue], rows: pa.RecordBatch) -> pa.RecordBatch:
        """New rows, without the columns that are `Made`.

        Args:
            rows: joined rows with the columns that `expressions_of` names; those of the target may
                have fields already that come to the schema.

        Raises:
            EvaluationError: a value that an expression can't take or a column can't hold.
        """
        columns: dict[str, Any] = {}
        for field, value in zip(self._schema, values, strict=True):
            if isinstance(value, Made):
                continue
            at = rows.schema.get_field_index(f"{TARGET}.{field.name}")
            kept = None if at < 0 else rows.column(at)
            place = Place(self._table, field.name, field.data_type)
            columns[field.name] = self._column(place, value, rows, kept)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _column(self, place: Place, value: ColumnValue, rows: pa.RecordBatch, kept: Any) -> Any:
        match value:
            case Given(expression, data_type, keeps_fields):
                found = Evaluation(self._joined, expression).values(rows)
                before = (kept, place.data_type) if keeps_fields and kept is not None else None
                return put_into(place, found, data_type, before)
            case Kept():
                return kept
            case Fields(children):
                assert isinstance(place.data_type, StructType)  # only those have them
                made = [
                    self._column(
                        place.inside(field.name, field.data_type), v, rows, _field(kept, field)
                    )
                    for field, v in zip(place.data_type, children, strict=True)
                ]
                return struct_of(place.data_type, made, rows.num_rows)
            case _:
                nothing: Any = to_arrow_type(place.data_type)
                return pa.nulls(rows.num_rows, nothing)


def _field(kept: Any, field: StructField) -> Any:
    """What a struct had in a field, None where it isn't there."""
    if kept is None or kept.type.get_field_index(field.name) < 0:
        return None
    return pc.struct_field(kept, field.name)


def _shown(prefix: str, field: StructField) -> str:
    return f"{prefix}{field.name}".replace("\0", ".")


def grown_schema(
    table: str,
    target: StructType,
    source: StructType,
    assigned: Sequence[tuple[str, ...]],
    *,
    all_columns: bool,
    widens: bool = False,
) -> StructType:
    """The schema of the target with what clauses bring of the source.

    Args:
        assigned: paths that clauses assign to by name.
        all_columns: a clause takes all of the source's columns.
        widens: columns take wider types of the source (`delta.enableTypeWidening`).

    Raises:
        SchemaError: a new column of nothing but nulls, without a type.
    """
    paths = [tuple(name.lower() for name in path) for path in assigned]
    brought = _brought(source, (), paths, all_columns=all_columns)
    return SchemaMerge(table=table, widens=widens, casts=True).merged(target, brought)


def _brought(
    fields: StructType,
    prefix: tuple[str, ...],
    assigned: Sequence[tuple[str, ...]],
    *,
    all_columns: bool,
) -> StructType:
    kept: list[StructField] = []
    for field in fields:
        path = (*prefix, field.name.lower())
        below = any(other[: len(path)] == path for other in assigned)
        if path in assigned:
            kept.append(field)
        elif isinstance(field.data_type, StructType) and (below or all_columns):
            inner = _brought(field.data_type, path, assigned, all_columns=all_columns)
            kept.append(field.with_data_type(inner))
        elif all_columns:
            kept.append(field)
    return StructType(tuple(kept))
