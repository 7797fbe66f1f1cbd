"""SET: new values of columns, out of the old ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import PredicateError, SchemaError
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.engine import Engine, ExpressionEvaluator
from bayou.kernel.expressions.model import Column, Expression, Literal, referenced_columns
from bayou.kernel.expressions.sql.parser import parse_expression
from bayou.kernel.table_features.constraints import RowRules
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol.column_rules import (
    CURRENT_DEFAULT_KEY,
    GENERATION_EXPRESSION_KEY,
    identity_of,
)
from bayou.protocol.schema import DataType, StructField, StructType

__all__ = ["Assignments", "generated_from"]

pc: Any = pyarrow.compute


class Assignments:
    """What columns are set to, ready for batches. Holds no state; safe in threads.

    Generated columns that depend on what is set are computed anew, unless they are set themselves.

    Args:
        values: by column, a dotted path for a field of a struct: SQL text or an expression over
            the table's columns; the text `DEFAULT` is the column's default.

    Raises:
        SchemaError: an unknown column, one that is set twice (a struct and a field of it), or an
            identity column.
        PredicateError: an expression that can't be understood, or isn't of the column's type.
    """

    def __init__(
        self, engine: Engine, state: TransactionState, values: Mapping[str, Expression | str]
    ) -> None:
        self._state = state
        self._rules = RowRules(engine, state)
        self._values: dict[tuple[str, ...], ExpressionEvaluator] = {}
        for target, value in values.items():
            path, fields = _field(state, target)
            if identity_of(fields[0]) is not None:
                raise SchemaError(
                    f"Identity column {fields[0].name!r} of {state.table} can't be updated "
                    "(DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED).",
                    table=state.table,
                    column=fields[0].name,
                )
            clash = next((p for p in self._values if _overlap(p, path)), None)
            if clash is not None:
                raise SchemaError(
                    f"Column {'.'.join(path)!r} of {state.table} is set twice: "
                    f"{'.'.join(clash)!r} is set too.",
                    table=state.table,
                    column=".".join(path),
                )
            with _naming(state.table, path):
                expression = _expression(value, fields)
            with _naming(state.table, path):
                self._values[path] = engine.expressions.evaluator(
                    state.schema, expression, fields[-1].data_type
                )
        self._made = generated_from(state.schema, {path[0] for path in self._values})

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """New versions of rows: exactly the table's columns, rules kept.

        Args:
            rows: with the table's columns; others are passed over.

        Raises:
            EvaluationError: an expression fails for a row.
            ConstraintViolationError: a new version breaks a rule.
        """
        columns: dict[str, pa.Array[Any]] = {
            f.name: rows.column(f.name) for f in self._state.schema if f.name not in self._made
        }
        for path, evaluator in self._values.items():
            with _naming(self._state.table, path):
                value = evaluator.eval(rows)
            field = self._state.schema.get(path[0])
            assert field is not None  # it was looked up
            columns[field.name] = _placed(columns[field.name], field.data_type, path[1:], value)
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        kept = [name for name in columns if all(path[0] != name for path in self._values)]
        return self._rules.apply(batch, of_table=kept)


def generated_from(schema: StructType, changed: set[str]) -> frozenset[str]:
    """Generated columns that aren't set, and depend on a column that is."""
    folded = {name.lower() for name in changed}
    made: set[str] = set()
    for field in schema:
        text = field.metadata.get(GENERATION_EXPRESSION_KEY)
        if text is None or field.name in changed:
            continue
        used = referenced_columns(parse_expression(str(text)))
        if any(path[0].lower() in folded for path in used):
            made.add(field.name)
    return frozenset(made)


def _field(state: TransactionState, target: str) -> tuple[tuple[str, ...], list[StructField]]:
    """The path of a column or nested field as the schema spells it, and the fields along it."""
    level: DataType = state.schema
    whole = state.schema.get(target)
    if whole is not None:  # a name with a dot, say
        return (whole.name,), [whole]
    try:
        column = parse_expression(target)
    except PredicateError:
        column = Literal(None)
    fields: list[StructField] = []
    for name in column.path if isinstance(column, Column) else (target,):
        field = level.get(name) if isinstance(level, StructType) else None
        if field is None:
            raise SchemaError(
                f"{state.table} has no column {target!r} that could be set; it has "
                f"{', '.join(state.schema.names)}.",
                table=state.table,
                column=target,
            )
        fields.append(field)
        level = field.data_type
    return tuple(f.name for f in fields), fields


@contextmanager
def _naming(table: str, path: tuple[str, ...]) -> Iterator[None]:
    """Errors of an expression say which column was to be set to it."""
    try:
        yield
    except PredicateError as error:
        column = ".".join(path)
        raise type(error)(
            f"Column {column!r} of {table} can't be set so: {error.message}",
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


def _placed(
    column: pa.Array[Any], data_type: DataType, path: tuple[str, ...], value: pa.Array[Any]
) -> pa.Array[Any]:
    """A column with new values of a nested field; a struct that was null is one then."""
    if not path:
        return value
    assert isinstance(data_type, StructType)  # the path was looked up
    children: list[pa.Array[Any]] = []
    for field in data_type:
        child: pa.Array[Any] = pc.struct_field(column, field.name)
        if field.name == path[0]:
            child = _placed(child, field.data_type, path[1:], value)
        children.append(child)
    fields = [pa.field(f.name, to_arrow_type(f.data_type), f.nullable) for f in data_type]
    return pa.StructArray.from_arrays(children, fields=fields)
