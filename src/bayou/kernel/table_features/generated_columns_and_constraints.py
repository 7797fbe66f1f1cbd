"""Default values, generated columns and constraints of rows that are written.

Missing columns are computed first. Then constraints are checked (PROTOCOL.md, Generated Columns,
Identity Columns, Default Columns, CHECK Constraints, Column Invariants).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from bayou.errors import (
    ConstraintViolationError,
    EvaluationError,
    PredicateError,
    UnsupportedFeatureError,
)
from bayou.kernel.arrow.arrays import to_scalar
from bayou.kernel.arrow.compute import pc
from bayou.kernel.batch_conversion import conform_to_schema
from bayou.kernel.engine import Engine, ExpressionEvaluator, PredicateEvaluator
from bayou.kernel.expressions.functions import check_exact
from bayou.kernel.expressions.model import Expression, referenced_columns
from bayou.kernel.expressions.sql.parser import parse_expression, parse_predicate
from bayou.kernel.table_features.char_varchar import LengthLimits
from bayou.kernel.table_features.identity_columns import IdentityValues
from bayou.kernel.transaction_state import TransactionState
from bayou.protocol import column_metadata
from bayou.protocol.column_metadata import CURRENT_DEFAULT_KEY, GENERATION_EXPRESSION_KEY
from bayou.protocol.schema import (
    BINARY,
    STRING,
    StructField,
    StructType,
    nested_types,
)


class RowConstraints:
    """Computes missing columns and checks constraints for the rows of one writer."""

    def __init__(self, engine: Engine, state: TransactionState) -> None:
        self._state = state
        self._table = state.table
        self._schema = state.schema
        self._engine = engine
        self._identity = IdentityValues(state)
        self._generated: dict[str, ExpressionEvaluator] = {}
        self._defaults: dict[str, ExpressionEvaluator] = {}
        for field in state.schema:
            sql = field.metadata.get(GENERATION_EXPRESSION_KEY)
            if sql is not None:
                owner = f"generated column {field.name}"
                self._generated[field.name] = self._evaluator(owner, str(sql), field, exact=True)
            sql = field.metadata.get(CURRENT_DEFAULT_KEY)
            if sql is not None:
                owner = f"default of column {field.name}"
                self._defaults[field.name] = self._evaluator(owner, str(sql), field, exact=False)
        self._checks = list(self._conditions())
        self._limits = LengthLimits(self._table, state.schema)
        self._partition_strings = [
            field.name
            for field in self._schema.select(state.partition_columns)
            if field.data_type in (STRING, BINARY)
        ]

    def apply(
        self,
        batch: pa.RecordBatch,
        constants: Mapping[str, pa.Scalar[Any]] | None = None,
        *,
        unchanged_columns: Collection[str] | None = None,
    ) -> pa.RecordBatch:
        """Compute missing columns, check constraints; return rows with exactly the table's columns.

        New rows get default values for missing columns. They must not have values for GENERATED
        ALWAYS identity columns.

        Args:
            constants: values of columns that `batch` doesn't have, such as partition columns.
            unchanged_columns: the columns that an UPDATE doesn't change; None if the rows are new.
                The values of generated columns in `unchanged_columns` aren't checked.
        """
        batch = _with_constants(batch, constants or {})
        input_names = {name.lower() for name in batch.schema.names}
        if unchanged_columns is None:
            self._identity.check_explicit_values(input_names)
            batch = self._with_defaults(batch, input_names)
        missing = [
            f.name
            for f in self._schema
            if f.name.lower() not in input_names
            and (f.name in self._generated or self._identity.is_generated(f.name))
        ]
        input_schema = StructType(tuple(f for f in self._schema if f.name not in missing))
        rows = conform_to_schema(self._table, input_schema, batch)
        generated = {
            name: self._generated[name].eval(rows)
            if name in self._generated
            else self._identity.next_values(name, rows.num_rows)
            for name in missing
        }
        if generated:
            rows = conform_to_schema(self._table, self._schema, _with_columns(rows, generated))
        rows = self._empty_strings_to_null(rows)
        self._check_generated(rows, {*missing, *(unchanged_columns or ())})
        self._limits.check(rows)
        self._check_conditions(rows)
        return rows

    def _empty_strings_to_null(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Replace empty strings in partition columns by null.

        The log stores these strings as null.
        """
        for name in self._partition_strings:
            index = rows.schema.get_field_index(name)
            strings = rows.column(index)
            empty = pc.equal(pc.binary_length(strings), 0)
            row: int = empty.index(to_scalar(True, pa.bool_())).as_py()
            if row < 0:
                continue
            if not self._schema.select([name]).fields[0].nullable:
                raise ConstraintViolationError(
                    f"{self._table}: NOT NULL constraint violated: partition column {name!r} is "
                    f"NOT NULL, but a row has {strings[row].as_py()!r}, which is stored as null "
                    "in the log (DELTA_NOT_NULL_CONSTRAINT_VIOLATED). No rows were written. "
                    "Correct or remove the rows.",
                    table=self._table,
                    constraint=f"NOT NULL {name}",
                )
            nulls = pc.if_else(empty, to_scalar(None, strings.type), strings)
            rows = rows.set_column(index, rows.schema.field(index), nulls)
        return rows

    def _with_defaults(self, batch: pa.RecordBatch, input_names: set[str]) -> pa.RecordBatch:
        missing = [name for name in self._defaults if name.lower() not in input_names]
        if not missing:
            return batch
        rows = pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows)], ["row"])
        return _with_columns(batch, {n: self._defaults[n].eval(rows) for n in missing})

    def _check_generated(self, rows: pa.RecordBatch, exempt: Collection[str]) -> None:
        for name, evaluator in self._generated.items():
            if name in exempt or rows.num_rows == 0:
                continue
            expected = evaluator.eval(rows)
            actual = rows.column(name)
            same = pc.or_(
                pc.fill_null(pc.equal(actual, expected), False),
                pc.and_(pc.is_null(actual), pc.is_null(expected)),
            )
            if pa.types.is_floating(actual.type):
                both_nan = pc.and_(pc.is_nan(actual), pc.is_nan(expected))
                same = pc.or_(same, pc.fill_null(both_nan, False))
            index: int = same.index(False).as_py()
            if index >= 0:
                field = self._schema.select([name]).fields[0]
                sql = field.metadata[GENERATION_EXPRESSION_KEY]
                raise self._violation(
                    f"generated column {name}",
                    f"the generation expression {sql} returns {expected[index].as_py()!r}, but a "
                    f"row has {actual[index].as_py()!r}",
                )

    def _check_conditions(self, rows: pa.RecordBatch) -> None:
        for name, sql, expression, evaluator in self._checks:
            try:
                valid: Any = evaluator.eval(rows)
            except EvaluationError as error:
                raise self._violation(name, f"({sql}) can't be evaluated: {error}") from error
            if valid.true_count == len(valid):
                continue
            index: int = valid.index(False).as_py()
            columns = dict.fromkeys(path[0] for path in referenced_columns(expression))
            values = {
                f.name: rows.column(f.name)[index].as_py()
                for f in (self._schema.get(c) for c in columns)
                if f is not None
            }
            shown = ", ".join(f"{n} = {_short_repr(v)}" for n, v in values.items())
            raise self._violation(
                name, f"({sql}) isn't true for a row with {shown or 'its values'}"
            )

    def _violation(self, constraint: str, reason: str) -> ConstraintViolationError:
        condition = (
            "DELTA_REPLACE_WHERE_MISMATCH"
            if constraint == "replaceWhere"
            else "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
        )
        return ConstraintViolationError(
            f"{self._table}: rows violate {constraint}: {reason} ({condition}). No rows were "
            "written. Correct or remove the rows.",
            table=self._table,
            constraint=constraint,
        )

    def _conditions(self) -> Any:
        for sql in self._state.conditions:
            check = self._condition("replaceWhere", sql, exact=False)
            if any(referenced_columns(check[2])):  # without columns, delta-spark checks no rows
                yield check
        for name, sql in column_metadata.check_constraints(self._state.configuration).items():
            yield self._condition(f"CHECK constraint {name}", sql, exact=True)
        for path, _, field in nested_types(self._schema):
            if field is None:
                continue
            owner = f"invariant of column {'.'.join(path)}"
            try:
                invariant = column_metadata.column_invariant(field)
            except ValueError as error:
                raise self._unsupported(owner, str(error)) from error
            if invariant is not None:
                yield self._condition(owner, invariant, exact=True)

    def _condition(
        self, name: str, sql: str, *, exact: bool
    ) -> tuple[str, str, Expression, PredicateEvaluator]:
        try:
            predicate = parse_predicate(sql)
            if exact:
                check_exact(predicate)
            evaluator = self._engine.expressions.predicate_evaluator(self._schema, predicate)
        except PredicateError as error:
            raise self._unsupported(name, str(error)) from error
        return name, sql, predicate, evaluator

    def _evaluator(
        self, owner: str, sql: str, field: StructField, *, exact: bool
    ) -> ExpressionEvaluator:
        try:
            expression = parse_expression(sql)
            if exact:
                check_exact(expression)
            return self._engine.expressions.evaluator(self._schema, expression, field.data_type)
        except PredicateError as error:
            raise self._unsupported(owner, str(error)) from error

    def _unsupported(self, feature: str, reason: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"{self._table} can't be written: the {feature} isn't supported: {reason}",
            table=self._table,
            features=[feature],
        )


def _with_constants(
    batch: pa.RecordBatch, constants: Mapping[str, pa.Scalar[Any]]
) -> pa.RecordBatch:
    names = {name.lower() for name in batch.schema.names}
    missing = {n: v for n, v in constants.items() if n.lower() not in names}
    repeat: Any = pa.repeat
    return _with_columns(batch, {n: repeat(v, batch.num_rows) for n, v in missing.items()})


def _with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array[Any]]) -> pa.RecordBatch:
    if not columns:
        return batch
    return pa.RecordBatch.from_arrays(
        [*batch.columns, *columns.values()], [*batch.schema.names, *columns]
    )


def _short_repr(value: object) -> str:
    string = repr(value)
    return string if len(string) <= 60 else f"{string[:60]}..."
