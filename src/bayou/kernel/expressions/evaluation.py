"""Evaluation of expressions over Arrow batches, and the default `ExpressionHandler` of engines.

As in Spark, logic is three-valued, NaN equals NaN and is the maximum, and 0.0 equals -0.0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from bayou.errors import ArgumentError, EvaluationError, PredicateError, SchemaError
from bayou.kernel.arrow.arrays import to_array, to_scalar
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import from_arrow_schema, to_arrow_type
from bayou.kernel.expressions.casts import can_cast, cast, decimals_to_floats
from bayou.kernel.expressions.functions import Macro, find
from bayou.kernel.expressions.functions.regular_expressions import like_to_re2
from bayou.kernel.expressions.literals import arrow_scalar
from bayou.kernel.expressions.model import (
    And,
    Cast,
    Column,
    Comparison,
    Expression,
    Function,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
    referenced_columns,
)
from bayou.kernel.expressions.resolution import resolve, resolve_expression, type_of
from bayou.kernel.expressions.types import comparison_type
from bayou.protocol.schema import VOID, DataType, StructField, StructType

# A pyarrow array or scalar. pyarrow's functions accept both, but their type hints don't.
Datum: TypeAlias = Any


def evaluate(expression: Expression, batch: pa.RecordBatch) -> pa.Array[Any]:
    """Evaluate an expression or a predicate for each row.

    Column names are case-insensitive.
    """
    schema = _schema_of(expression, batch)
    return Evaluator(schema, resolve_expression(expression, schema)).values(batch)


def compare(op: str, left: Datum, right: Datum) -> Datum:
    """Compare arrays or scalars of the same type. Except for `<=>`, a null operand gives null."""
    if op == "<=>":
        equal = pc.fill_null(compare("=", left, right), False)
        return pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))
    if op == "<>":
        return pc.invert(compare("=", left, right))
    result = _COMPARE[op](left, right)
    if not pa.types.is_floating(left.type):
        return result
    # By IEEE 754, comparisons with NaN are false except <>. In Spark, NaN is equal to itself and
    # greater than all other values.
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    match op:
        case "=":
            return pc.or_(result, pc.and_(left_nan, right_nan))
        case "<":
            return pc.or_(result, pc.and_(pc.invert(left_nan), right_nan))
        case "<=":
            return pc.or_(result, pc.and_(right_nan, pc.is_valid(left)))
        case ">":
            return pc.or_(result, pc.and_(left_nan, pc.invert(right_nan)))
        case _:
            return pc.or_(result, pc.and_(left_nan, pc.is_valid(right)))


_COMPARE = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class Evaluator:
    """Evaluates an expression over batches; stateless.

    Args:
        schema: the columns of the batches. Column names in the batches are spelled as in the
            schema.
        expression: the expression, resolved with `resolve_expression` and `schema`.
    """

    __slots__ = ("_expression", "_schema")

    def __init__(self, schema: StructType, expression: Expression) -> None:
        self._schema = schema
        self._expression = expression

    def values(
        self, batch: pa.RecordBatch, selection: pa.BooleanArray | None = None
    ) -> pa.Array[Any]:
        """Return one value for each row.

        Args:
            selection: mask without nulls: true for the rows to evaluate. The values of the other
                rows are undefined. If None, all rows are evaluated.
        """
        values: Any = _as_array(
            self._value(self._expression, batch)
            if selection is None
            else self._on_rows(self._expression, batch, selection),
            batch,
        )
        if isinstance(values, pa.ChunkedArray):  # Arrow divides strings of more than 2 GiB
            values = pa.concat_arrays(values.chunks)
        result: pa.Array[Any] = values
        return result

    def _value(
        self, expression: Expression, batch: pa.RecordBatch, target: pa.DataType | None = None
    ) -> Datum:
        match expression:
            case Column(path):
                return cast_for_comparison(_column(path, batch, self._schema), target)
            case Literal():
                return _constant(expression, target)
            case And(operands):
                return self._all(operands, batch)
            case Or(operands):
                return self._any(operands, batch)
            case Not(operand):
                return pc.invert(self._condition(operand, batch))
            case IsNull(operand):
                return pc.is_null(self._value(operand, batch))
            case Comparison(op, left, right):
                return self._compare(op, left, right, batch)
            case In(operand, values):
                return self._in(operand, values, batch)
            case StartsWith(operand, prefix):
                return pc.starts_with(self._value(operand, batch, pa.string()), prefix)
            case Like(operand, pattern, escape):
                strings = self._value(operand, batch, pa.string())
                return pc.match_substring_regex(strings, like_to_re2(pattern, escape))
            case Cast(operand, data_type, safe):
                source_type = type_of(operand, self._schema)
                values = self._value(operand, batch)
                with _evaluation_errors(f"CAST(... AS {data_type})"):
                    result = cast(values, source_type, data_type, safe=safe)
                return cast_for_comparison(result, target)
            case Function(name, arguments):
                return cast_for_comparison(self._call(name, expression, arguments, batch), target)
            case _:
                raise PredicateError(
                    f"{type(expression).__name__} isn't a supported class of expressions. Use the "
                    "classes of bayou.kernel.expressions.",
                    expression=repr(expression),
                )

    def _condition(self, predicate: Expression, batch: pa.RecordBatch) -> Datum:
        return cast_for_comparison(self._value(predicate, batch), pa.bool_())

    def _all(self, operands: Sequence[Expression], batch: pa.RecordBatch) -> Datum:
        result = self._condition(operands[0], batch)
        for operand in operands[1:]:
            try:
                values = self._condition(operand, batch)
            except EvaluationError:
                # Spark doesn't evaluate operands after a FALSE.
                values = self._on_rows(operand, batch, pc.fill_null(result, True))
            result = pc.and_kleene(result, values)
        return result

    def _any(self, operands: Sequence[Expression], batch: pa.RecordBatch) -> Datum:
        result = self._condition(operands[0], batch)
        for operand in operands[1:]:
            try:
                values = self._condition(operand, batch)
            except EvaluationError:
                values = self._on_rows(operand, batch, pc.invert(pc.fill_null(result, False)))
            result = pc.or_kleene(result, values)
        return result

    def _on_rows(self, expression: Expression, batch: pa.RecordBatch, mask: Datum) -> Datum:
        """Evaluate the rows where `mask` is true; the values of other rows are undefined."""
        try:
            return self._value(expression, batch)
        except EvaluationError:
            rows = _as_array(mask, batch)
            if pc.all(rows).as_py() is not False:
                raise
        masked = batch.filter(rows)
        values = _as_array(self._value(expression, masked), masked)
        position = pc.subtract(pc.cumulative_sum(pc.cast(rows, pa.int64())), 1)
        return values.take(pc.if_else(rows, position, to_scalar(None, pa.int64())))

    def _compare(
        self, op: str, left: Expression, right: Expression, batch: pa.RecordBatch
    ) -> Datum:
        common = comparison_type(type_of(left, self._schema), type_of(right, self._schema))
        assert common is not None  # checked by `resolve`
        if pa.types.is_null(common):
            return to_scalar(True if op == "<=>" else None, pa.bool_())
        return compare(op, self._value(left, batch, common), self._value(right, batch, common))

    def _in(self, operand: Expression, values: tuple[Literal, ...], batch: pa.RecordBatch) -> Datum:
        has_null = any(v.value is None for v in values)
        result: Datum = to_scalar(None if has_null else False, pa.bool_())
        operand_type = type_of(operand, self._schema)
        if operand_type == VOID:
            return to_scalar(None, pa.bool_())
        by_type: dict[pa.DataType, list[pa.Scalar[Any]]] = {}
        for value in values:
            if value.value is None:
                continue
            common = comparison_type(operand_type, type_of(value, self._schema))
            assert common is not None  # checked by `resolve`
            by_type.setdefault(common, []).append(arrow_scalar(value, common))
        column = _as_array(self._value(operand, batch), batch)
        for common, scalars in by_type.items():
            matches: Datum = pc.is_in(
                _without_negative_zero(cast_for_comparison(column, common)),
                value_set=_without_negative_zero(to_array(scalars, common)),
            )
            result = pc.or_kleene(result, matches)
        return pc.if_else(pc.is_null(column), to_scalar(None, pa.bool_()), result)

    def _call(
        self,
        name: str,
        function: Expression,
        arguments: tuple[Expression, ...],
        batch: pa.RecordBatch,
    ) -> Datum:
        definition = find(name)
        assert not isinstance(definition, Macro)  # `resolve` expands macros
        result = to_arrow_type(type_of(function, self._schema))
        if definition.evaluate is None:
            evaluate = self._case if definition.name == "case" else self._coalesce
            return pc.cast(evaluate(arguments, batch), result)
        values = [self._value(argument, batch) for argument in arguments]
        if not all(isinstance(value, pa.Scalar) for value in values):
            with _evaluation_errors(name):
                return definition.evaluate(values, result)
        # All arguments are constants, so the function is evaluated once. It requires at least one
        # array. The first argument that the function doesn't require as a constant becomes one.
        positions = range(len(values))
        position = next((i for i in positions if i not in definition.constants), 0)
        values[position] = pa.repeat(values[position], 1)
        with _evaluation_errors(name):
            return definition.evaluate(values, result)[0]

    def _case(self, arguments: tuple[Expression, ...], batch: pa.RecordBatch) -> Datum:
        remaining: Datum = pa.repeat(to_scalar(True, pa.bool_()), batch.num_rows)
        branches: list[tuple[Datum, Datum]] = []
        for index in range(0, len(arguments) - 1, 2):
            condition = self._on_rows(arguments[index], batch, remaining)
            taken = pc.fill_null(
                _as_array(cast_for_comparison(condition, pa.bool_()), batch), False
            )
            taken = pc.and_(taken, remaining)
            branches.append((taken, self._on_rows(arguments[index + 1], batch, taken)))
            remaining = pc.and_not(remaining, taken)
        result: Datum = to_scalar(None, branches[0][1].type)
        if len(arguments) % 2:
            result = self._on_rows(arguments[-1], batch, remaining)
        for taken, value in reversed(branches):
            result = pc.if_else(taken, value, result)
        return result

    def _coalesce(self, arguments: tuple[Expression, ...], batch: pa.RecordBatch) -> Datum:
        result = self._value(arguments[0], batch)
        for argument in arguments[1:]:
            missing = _as_array(pc.is_null(result), batch)
            result = pc.if_else(missing, self._on_rows(argument, batch, missing), result)
        return result


@contextlib.contextmanager
def _evaluation_errors(name: str) -> Iterator[None]:
    """Context manager that converts Arrow's and Python's errors for values to `EvaluationError`.

    Args:
        name: the function or cast that is evaluated, for error messages.
    """
    try:
        yield
    except (pa.ArrowInvalid, OverflowError) as error:
        reason = str(error).strip().rstrip(".")
        raise EvaluationError(
            f"{name}: {reason}. Exclude the row with a condition (CASE WHEN, AND).",
            expression=name,
        ) from error


def _without_negative_zero(values: Any) -> Any:
    """Replace -0.0 by 0.0, because Arrow's `is_in` treats these two values as different."""
    if pa.types.is_floating(values.type):
        return pc.add(values, to_scalar(0.0, values.type))
    return values


def _column(path: tuple[str, ...], batch: pa.RecordBatch, schema: StructType) -> Datum:
    field = schema.get(path[0])
    position = -1 if field is None else batch.schema.get_field_index(field.name)
    if field is None or position < 0:
        raise PredicateError(
            f"Column {path[0]!r} doesn't exist. The columns are {', '.join(batch.schema.names)}.",
            expression=".".join(path),
        )
    values: Datum = batch.column(position)
    data_type = field.data_type
    for name in path[1:]:
        inner = data_type.get(name) if isinstance(data_type, StructType) else None
        if inner is None:
            raise PredicateError(
                f"Column {'.'.join(path)!r} doesn't exist. Use an existing column or struct field.",
                expression=name,
            )
        # `struct_field` returns null for null structs.
        values = pc.struct_field(values, inner.name)
        data_type = inner.data_type
    if isinstance(data_type, StructType):
        return values
    return cast_for_comparison(values, to_arrow_type(data_type))


def _constant(literal: Literal, target: pa.DataType | None) -> Datum:
    assert literal.data_type is not None  # set by `resolve`
    return arrow_scalar(literal, target or to_arrow_type(literal.data_type))


def cast_for_comparison(values: Datum, target: pa.DataType | None) -> Datum:
    """Cast values to the type in which they are compared.

    A cast to double can round a value. All other casts are lossless.
    """
    if target is None or values.type == target:
        return values
    if pa.types.is_decimal(values.type) and pa.types.is_float64(target):
        return decimals_to_floats(values, target)
    with _evaluation_errors("CAST"):  # a date can be out of range of timestamps
        return pc.cast(values, target, safe=not pa.types.is_float64(target))


def _as_array(values: Datum, batch: pa.RecordBatch) -> Datum:
    if not isinstance(values, pa.Scalar):
        return values
    scalar: Any = values
    return pa.repeat(scalar, batch.num_rows)


def _schema_of(expression: Expression, batch: pa.RecordBatch) -> StructType:
    names = {path[0].lower() for path in referenced_columns(expression)}
    fields = [field for field in batch.schema if field.name.lower() in names]
    if len(fields) < len(names):
        fields = list(batch.schema)  # the error message suggests a similar name
    try:
        return StructType(
            tuple(
                StructField(name=field.name, data_type=VOID)
                if pa.types.is_null(field.type)
                else from_arrow_schema(pa.schema([field])).fields[0]
                for field in fields
            )
        )
    except SchemaError as error:
        raise PredicateError(error.message, expression=error.column or "") from error


class DefaultExpressionHandler:
    """Default implementation of `ExpressionHandler`: creates evaluators over Arrow batches."""

    def evaluator(
        self, schema: StructType, expression: Expression, output_type: DataType
    ) -> DefaultExpressionEvaluator:
        return DefaultExpressionEvaluator(schema, expression, output_type)

    def predicate_evaluator(
        self, schema: StructType, predicate: Predicate
    ) -> DefaultPredicateEvaluator:
        return DefaultPredicateEvaluator(schema, predicate)

    def create_selection_vector(
        self, values: Sequence[bool], start: int, end: int
    ) -> pa.BooleanArray:
        if not 0 <= start <= end <= len(values):
            raise ArgumentError(
                f"start, end: the range {start} to {end} is invalid for {len(values)} values. Pass "
                f"0 <= start <= end <= {len(values)}.",
                argument="start" if not 0 <= start <= len(values) else "end",
            )
        selection: Any = to_array(values[start:end], pa.bool_())
        if selection.null_count:
            raise ArgumentError(
                "values: a selection vector can't contain None. Use False for excluded rows.",
                argument="values",
            )
        vector: pa.BooleanArray = selection
        return vector


class DefaultExpressionEvaluator:
    """Default implementation of `ExpressionEvaluator`: computes a value for each row of a batch."""

    __slots__ = ("_evaluation", "_type")

    def __init__(self, schema: StructType, expression: Expression, output_type: DataType) -> None:
        resolved = resolve_expression(expression, schema)
        data_type = type_of(resolved, schema)
        if data_type != output_type:
            if not can_cast(data_type, output_type):
                raise PredicateError(
                    f"data type mismatch: the expression has type {data_type}, which can't be "
                    f"cast to {output_type} (DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION). Use a "
                    "value of another type.",
                    expression=repr(expression),
                )
            resolved = Cast(resolved, output_type)
        self._evaluation = Evaluator(schema, resolved)
        self._type = to_arrow_type(output_type)

    def eval(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        values: pa.Array[Any] = self._evaluation.values(batch)
        if values.type != self._type:  # Arrow can't cast null structs with non-nullable fields
            values = pc.cast(values, self._type)
        return values


class DefaultPredicateEvaluator:
    """Default implementation of `PredicateEvaluator`: selects the rows that match a predicate."""

    __slots__ = ("_evaluation",)

    def __init__(self, schema: StructType, predicate: Predicate) -> None:
        self._evaluation = Evaluator(schema, resolve(predicate, schema))

    def eval(
        self, batch: pa.RecordBatch, selection: pa.BooleanArray | None = None
    ) -> pa.BooleanArray:
        if selection is not None and len(selection) != batch.num_rows:
            raise ArgumentError(
                f"selection: {len(selection)} values for {batch.num_rows} rows. Pass one value for "
                "each row.",
                argument="selection",
            )
        if selection is not None and selection.null_count:
            selection = pc.fill_null(selection, False)
        values = self._evaluation.values(batch, selection)
        matches: pa.BooleanArray = pc.fill_null(pc.cast(values, pa.bool_()), False)
        return matches if selection is None else pc.and_(matches, selection)
