"""The SET clause of an UPDATE: assignments of new column values, computed from the old values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from bayou.errors import PredicateError, SchemaError
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.engine import Engine, ExpressionEvaluator
from bayou.kernel.expressions.model import Column, Expression, Literal, referenced_columns
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.kernel.table_features.generated_columns_and_constraints import RowConstraints
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.column_metadata import (
    CURRENT_DEFAULT_KEY,
    GENERATION_EXPRESSION_KEY,
    identity_column,
)
from bayou.protocol.schema import ArrayType, DataType, MapType, StructField, StructType


class Assignments:
    """Applies the SET clause of an UPDATE to record batches; stateless and thread-safe.

    A generated column that isn't assigned is recomputed if it depends on an assigned column.

    Args:
        values: new values by column name, or by dotted path of a nested field. A value is an SQL
            string or an `Expression` over the table's columns. The SQL string `DEFAULT` assigns
            the column's default.

    Attributes:
        columns: the assigned and the recomputed columns.
    """

    def __init__(
        self, engine: Engine, state: TransactionState, values: Mapping[str, Expression | str]
    ) -> None:
        self._state = state
        self._rules = RowConstraints(engine, state)
        self._values: dict[tuple[str, ...], ExpressionEvaluator] = {}
        resolved = assigned_fields(state, values)
        for (path, fields), value in zip(resolved.items(), values.values(), strict=True):
            with _column_in_errors(state.table, path):
                expression = _expression(value, fields)
                self._values[path] = engine.expressions.evaluator(
                    state.schema, expression, fields[-1].data_type
                )
        self._generated = generated_from(state.schema, {path[0] for path in self._values})
        self.columns = self._generated.union(path[0] for path in self._values)

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the updated rows with exactly the table's columns; check the constraints."""
        columns: dict[str, pa.Array[Any]] = {
            f.name: rows.column(f.name) for f in self._state.schema if f.name not in self._generated
        }
        for path, evaluator in self._values.items():
            with _column_in_errors(self._state.table, path):
                value = evaluator.eval(rows)
            field = self._state.schema.get(path[0])
            assert field is not None  # __init__ resolved it
            columns[field.name] = _set_field(columns[field.name], field.data_type, path[1:], value)
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        unchanged = [name for name in columns if all(path[0] != name for path in self._values)]
        return self._rules.apply(batch, unchanged_columns=unchanged)


def assigned_fields(
    state: TransactionState, columns: Iterable[str]
) -> dict[tuple[str, ...], list[StructField]]:
    """Resolve the columns and nested fields (dotted paths) that an UPDATE sets.

    Returns:
        A dictionary in the order of `columns`. A key is a path, spelled as in the schema. Its value
        is the list of fields on the path, from the top-level column to the field itself.
    """
    resolved: dict[tuple[str, ...], list[StructField]] = {}
    for target in columns:
        path, fields = _field(state, target)
        if identity_column(fields[0]) is not None:
            raise SchemaError(
                f"{state.table}: identity column {fields[0].name!r} can't be updated "
                "(DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED). Remove it from the SET clause.",
                table=state.table,
                column=fields[0].name,
            )
        conflict = next((other for other in resolved if _overlap(other, path)), None)
        if conflict is not None:
            raise SchemaError(
                f"{state.table}: {'.'.join(path)!r} and {'.'.join(conflict)!r} set the same "
                "column. There is a conflict from these SET columns (DELTA_CONFLICT_SET_COLUMN). "
                "Set each column once.",
                table=state.table,
                column=".".join(path),
            )
        resolved[path] = fields
    return resolved


def generated_from(schema: StructType, changed: set[str]) -> frozenset[str]:
    """Return the generated columns that depend on changed columns and aren't changed themselves."""
    folded = {name.lower() for name in changed}
    generated: set[str] = set()
    for field in schema:
        sql = field.metadata.get(GENERATION_EXPRESSION_KEY)
        if sql is None or field.name in changed:
            continue
        used = referenced_columns(parse_expression(str(sql)))
        if any(path[0].lower() in folded for path in used):
            generated.add(field.name)
    return frozenset(generated)


def _field(state: TransactionState, target: str) -> tuple[tuple[str, ...], list[StructField]]:
    """Resolve a column or nested field.

    Returns the path, spelled as in the schema, and the fields on the path from the top-level column
    to the field itself.
    """
    try:
        column = parse_expression(target)
    except PredicateError:
        column = Literal(None)
    # A name with a dot needs no backticks, unless the table also has a struct with such a field.
    for path in (column.path if isinstance(column, Column) else (target,), (target,)):
        level: DataType = state.schema
        fields: list[StructField] = []
        for name in path:
            field = level.get(name) if isinstance(level, StructType) else None
            if field is None:
                break
            fields.append(field)
            level = field.data_type
        else:
            return tuple(f.name for f in fields), fields
        if fields and not isinstance(level, StructType | ArrayType | MapType):
            raise SchemaError(
                f"{state.table}: {target!r} can't be updated: "
                f"{'.'.join(f.name for f in fields)!r} has the type {level}, which has no fields "
                "(INVALID_EXTRACT_BASE_FIELD_TYPE). Set the whole column.",
                table=state.table,
                column=target,
            )
        if fields and not isinstance(level, StructType):
            raise SchemaError(
                f"{state.table}: {target!r} can't be updated: updating nested fields is only "
                f"supported for StructType, and {'.'.join(f.name for f in fields)!r} has the type "
                f"{level} (DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT). Set the whole column.",
                table=state.table,
                column=target,
            )
        if fields and isinstance(level, StructType):
            raise SchemaError(
                f"{state.table}: {target!r} can't be updated: No such struct field "
                f"{path[len(fields)]!r} in {', '.join(level.names)} (FIELD_NOT_FOUND). Use one of "
                "these fields.",
                table=state.table,
                column=target,
            )
    raise SchemaError(
        f"{state.table}: the table has no column {target!r} to update "
        "(UNRESOLVED_COLUMN.WITH_SUGGESTION). Its columns are "
        f"{', '.join(state.schema.names)}.",
        table=state.table,
        column=target,
    )


@contextmanager
def _column_in_errors(table: str, path: tuple[str, ...]) -> Iterator[None]:
    """Context manager that adds the column's name to the message of an evaluation error."""
    try:
        yield
    except PredicateError as error:
        column = ".".join(path)
        raise type(error)(
            f"{table}: the value of column {column!r} is invalid: {error.message}",
            expression=error.expression,
        ) from error


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _expression(value: Expression | str, fields: list[StructField]) -> Expression:
    if isinstance(value, Expression):
        return value
    if value.strip().upper() != "DEFAULT":
        return parse_expression(value)
    default = fields[0].metadata.get(CURRENT_DEFAULT_KEY) if len(fields) == 1 else None
    return Literal(None) if default is None else parse_expression(str(default))


def _set_field(
    column: pa.Array[Any], data_type: DataType, path: tuple[str, ...], value: pa.Array[Any]
) -> pa.Array[Any]:
    """Return a column with new values of a nested field; null structs become non-null."""
    if not path:
        return value
    assert isinstance(data_type, StructType)  # `_field` resolved the path
    children: list[pa.Array[Any]] = []
    for field in data_type:
        child: pa.Array[Any] = pc.struct_field(column, field.name)
        if field.name == path[0]:
            child = _set_field(child, field.data_type, path[1:], value)
        children.append(child)
    fields = [pa.field(f.name, to_arrow_type(f.data_type), f.nullable) for f in data_type]
    return pa.StructArray.from_arrays(children, fields=fields)
