"""What a table asks of rows beyond their types: values it makes, and conditions they must meet.

Columns that the rows don't bring get their values: generated ones, identity columns, defaults. Then
every NOT NULL, CHECK constraint, invariant and length limit is checked (PROTOCOL.md, Generated
Columns, Identity Columns, Default Columns, CHECK Constraints, Column Invariants).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute

from bayou.errors import (
    ConstraintViolationError,
    EvaluationError,
    PredicateError,
    UnsupportedFeatureError,
)
from bayou.kernel.engine import Engine, ExpressionEvaluator, PredicateEvaluator
from bayou.kernel.expressions.model import Expression, referenced_columns
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.kernel.schema_enforcement import conform
from bayou.kernel.table_features.char_varchar import LengthLimits
from bayou.kernel.table_features.identity_columns import IdentityValues
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol import column_rules
from bayou.protocol.column_rules import CURRENT_DEFAULT_KEY, GENERATION_EXPRESSION_KEY
from bayou.protocol.schema import (
    BINARY,
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

__all__ = ["RowRules"]

pc: Any = pyarrow.compute


class RowRules:
    """A table's rules, ready for its batches. Identity values aside it holds no state.

    Raises:
        UnsupportedFeatureError: an expression or limit of the table that can't be evaluated.
    """

    def __init__(self, engine: Engine, state: TransactionState) -> None:
        self._state = state
        self._table = state.table
        self._schema = state.schema
        self._engine = engine
        self._identity = IdentityValues(state)
        self._generated: dict[str, ExpressionEvaluator] = {}
        self._defaults: dict[str, ExpressionEvaluator] = {}
        for field in state.schema:
            text = field.metadata.get(GENERATION_EXPRESSION_KEY)
            if text is not None:
                what = f"generated column {field.name}"
                self._generated[field.name] = self._evaluator(what, str(text), field)
            text = field.metadata.get(CURRENT_DEFAULT_KEY)
            if text is not None:
                what = f"default of column {field.name}"
                self._defaults[field.name] = self._evaluator(what, str(text), field)
        self._checks = list(self._conditions())
        self._limits = LengthLimits(self._table, state.schema)
        self._texts_of_partitions = [
            field.name
            for field in self._schema.select(state.partition_columns)
            if field.data_type in (STRING, BINARY)
        ]

    def apply(
        self,
        batch: pa.RecordBatch,
        constants: Mapping[str, pa.Scalar[Any]] | None = None,
        *,
        of_table: Collection[str] | None = None,
    ) -> pa.RecordBatch:
        """Rows of exactly the table's columns that keep every rule.

        Args:
            constants: values of partition columns, of their columns' types.
            of_table: the rows are new versions of rows that the table has, and these of their
                columns have their old values: identity columns keep theirs, and what a generated
                column had before isn't computed again.

        Raises:
            SchemaError: a column that the table doesn't have, or of another type.
            ConstraintViolationError: a row breaks a rule; names column or constraint, and a value.
        """
        batch = _with_constants(batch, constants or {})
        given = {name.lower() for name in batch.schema.names}
        if of_table is None:
            self._identity.refuse_given(given)
            batch = self._with_defaults(batch, given)
        to_make = [
            f.name
            for f in self._schema
            if f.name.lower() not in given
            and (f.name in self._generated or self._identity.makes(f.name))
        ]
        brought = StructType(tuple(f for f in self._schema if f.name not in to_make))
        rows = conform(self._table, brought, batch)
        made = {
            name: self._generated[name].eval(rows)
            if name in self._generated
            else self._identity.next_values(name, rows.num_rows)
            for name in to_make
        }
        if made:
            rows = conform(self._table, self._schema, _with_columns(rows, made))
        rows = self._with_nulls_for_empty(rows)
        self._check_generated(rows, {*to_make, *(of_table or ())})
        self._limits.check(rows)
        self._check_conditions(rows)
        return rows

    def _with_nulls_for_empty(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """An empty text in a partition column is null in the log: rules see it as that."""
        for name in self._texts_of_partitions:
            index = rows.schema.get_field_index(name)
            texts = rows.column(index)
            empty = pc.equal(pc.binary_length(texts), 0)
            row: int = empty.index(True).as_py()
            if row < 0:
                continue
            if not self._schema.select([name]).fields[0].nullable:
                raise ConstraintViolationError(
                    f"Partition column {name!r} of {self._table} may not be null; a row has "
                    f"{texts[row].as_py()!r}, which a table's log can't tell from null. Nothing "
                    "was written; correct the rows, or leave them out.",
                    table=self._table,
                    constraint=f"NOT NULL {name}",
                )
            nulls = pc.if_else(empty, pa.scalar(None, texts.type), texts)
            rows = rows.set_column(index, rows.schema.field(index), nulls)
        return rows

    def _with_defaults(self, batch: pa.RecordBatch, given: set[str]) -> pa.RecordBatch:
        missing = [name for name in self._defaults if name.lower() not in given]
        if not missing:
            return batch
        rows = pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows)], ["row"])
        return _with_columns(batch, {n: self._defaults[n].eval(rows) for n in missing})

    def _check_generated(self, rows: pa.RecordBatch, right: Collection[str]) -> None:
        for name, evaluator in self._generated.items():
            if name in right or rows.num_rows == 0:
                continue
            wanted = evaluator.eval(rows)
            given = rows.column(name)
            same = pc.or_(
                pc.fill_null(pc.equal(given, wanted), False),
                pc.and_(pc.is_null(given), pc.is_null(wanted)),
            )
            if pa.types.is_floating(given.type):
                both = pc.and_(pc.is_nan(given), pc.is_nan(wanted))
                same = pc.or_(same, pc.fill_null(both, False))
            index: int = same.index(False).as_py()
            if index >= 0:
                field = self._schema.select([name]).fields[0]
                text = field.metadata[GENERATION_EXPRESSION_KEY]
                raise self._violation(
                    f"generated column {name}",
                    f"it is always {text}, which gives {wanted[index].as_py()!r} where the data "
                    f"has {given[index].as_py()!r}",
                )

    def _check_conditions(self, rows: pa.RecordBatch) -> None:
        for name, text, expression, evaluator in self._checks:
            try:
                fine: Any = evaluator.eval(rows)
            except EvaluationError as error:
                raise self._violation(name, f"({text}) can't be evaluated: {error}") from error
            if fine.true_count == len(fine):
                continue
            index: int = fine.index(False).as_py()
            columns = dict.fromkeys(path[0] for path in referenced_columns(expression))
            values = {
                f.name: rows.column(f.name)[index].as_py()
                for f in (self._schema.get(c) for c in columns)
                if f is not None
            }
            shown = ", ".join(f"{n} = {_shown(v)}" for n, v in values.items())
            raise self._violation(
                name, f"({text}) isn't true of a row with {shown or 'its values'}"
            )

    def _violation(self, constraint: str, what: str) -> ConstraintViolationError:
        return ConstraintViolationError(
            f"Rows break {constraint} of {self._table}: {what} "
            "(DELTA_VIOLATE_CONSTRAINT_WITH_VALUES). Nothing was written; correct the rows, or "
            "leave them out.",
            table=self._table,
            constraint=constraint,
        )

    def _conditions(self) -> Any:
        for text in self._state.conditions:
            yield self._condition("replaceWhere", text)
        for name, text in column_rules.check_constraints(self._state.configuration).items():
            yield self._condition(f"CHECK constraint {name}", text)
        for path, field in _fields(self._schema, ""):
            try:
                invariant = column_rules.invariant_of(field)
            except ValueError as error:
                raise self._unsupported(f"invariant of column {path}", str(error)) from error
            if invariant is not None:
                yield self._condition(f"invariant of column {path}", invariant)

    def _condition(self, name: str, text: str) -> tuple[str, str, Expression, PredicateEvaluator]:
        try:
            predicate = parse_predicate(text)
            evaluator = self._engine.expressions.predicate_evaluator(self._schema, predicate)
        except PredicateError as error:
            raise self._unsupported(name, str(error)) from error
        return name, text, predicate, evaluator

    def _evaluator(self, what: str, text: str, field: StructField) -> ExpressionEvaluator:
        try:
            expression = parse_expression(text)
            return self._engine.expressions.evaluator(self._schema, expression, field.data_type)
        except PredicateError as error:
            raise self._unsupported(what, str(error)) from error

    def _unsupported(self, what: str, reason: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"{self._table} can't be written: the {what} isn't supported: {reason}",
            table=self._table,
            features=[what],
        )


def _with_constants(
    batch: pa.RecordBatch, constants: Mapping[str, pa.Scalar[Any]]
) -> pa.RecordBatch:
    given = {name.lower() for name in batch.schema.names}
    missing = {n: v for n, v in constants.items() if n.lower() not in given}
    repeat: Any = pa.repeat
    return _with_columns(batch, {n: repeat(v, batch.num_rows) for n, v in missing.items()})


def _with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array[Any]]) -> pa.RecordBatch:
    if not columns:
        return batch
    return pa.RecordBatch.from_arrays(
        [*batch.columns, *columns.values()], [*batch.schema.names, *columns]
    )


def _fields(data_type: DataType, prefix: str) -> list[tuple[str, StructField]]:
    match data_type:
        case StructType(fields):
            found: list[tuple[str, StructField]] = []
            for field in fields:
                found.append((prefix + field.name, field))
                found += _fields(field.data_type, f"{prefix}{field.name}.")
            return found
        case ArrayType():
            return _fields(data_type.element_type, f"{prefix}element.")
        case MapType():
            return [
                *_fields(data_type.key_type, f"{prefix}key."),
                *_fields(data_type.value_type, f"{prefix}value."),
            ]
        case _:
            return []


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
