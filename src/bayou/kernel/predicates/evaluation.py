"""The one evaluator of expressions, over Arrow batches.

Logic has three values; NaN equals itself and is above everything, and 0.0 equals -0.0, as in Spark.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.errors import PredicateError, SchemaError
from bayou.kernel.arrow_types import from_arrow_schema, to_arrow_type
from bayou.kernel.predicates.model import (
    And,
    Column,
    Comparison,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
    referenced_columns,
)
from bayou.kernel.predicates.resolution import arrow_scalar, comparison_type, resolve, type_of
from bayou.protocol.schema import VOID, StructField, StructType

__all__ = ["DefaultExpressionHandler", "compare", "evaluate", "resolve"]

# A pyarrow array or scalar. pyarrow's own types don't take both where its functions do.
Datum: TypeAlias = Any
pc: Any = pyarrow.compute


class DefaultExpressionHandler:
    """Implements `bayou.kernel.engine.ExpressionHandler`; any engine can use it."""

    def evaluate(self, batch: pa.RecordBatch, expression: Expression) -> pa.Array[Any]:
        return evaluate(expression, batch)

    def evaluate_predicate(self, batch: pa.RecordBatch, predicate: Predicate) -> pa.BooleanArray:
        matches: pa.BooleanArray = pc.fill_null(evaluate(predicate, batch).cast(pa.bool_()), False)
        return matches


def evaluate(expression: Expression, batch: pa.RecordBatch) -> pa.Array[Any]:
    """One value a row; a predicate gives true, false or null.

    Names are matched against the batch's without regard to case.

    Raises:
        PredicateError: an unknown column, or types that don't go together; names it.
    """
    schema = _schema_of(expression, batch)
    if isinstance(expression, Predicate) and not isinstance(expression, Column | Literal):
        result = _predicate(resolve(expression, schema), batch, schema)
    else:
        result = _value(expression, batch, schema)
    array: pa.Array[Any] = _as_array(result, batch)
    return array


def compare(op: str, left: Datum, right: Datum) -> Datum:
    """Compare two columns or constants of one type: true, false or, where one is null, null.

    `<=>` is never null.
    """
    if op == "<=>":
        equal = pc.fill_null(compare("=", left, right), False)
        return pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))
    if op == "<>":
        return pc.invert(compare("=", left, right))
    result = _COMPARE[op](left, right)
    if not pa.types.is_floating(left.type):
        return result
    # IEEE says false to every comparison with NaN but <>; Spark has it equal to itself, and top.
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


def _predicate(predicate: Expression, batch: pa.RecordBatch, schema: StructType) -> Datum:
    match predicate:
        case And(operands):
            return reduce(pc.and_kleene, (_predicate(o, batch, schema) for o in operands))
        case Or(operands):
            return reduce(pc.or_kleene, (_predicate(o, batch, schema) for o in operands))
        case Not(operand):
            return pc.invert(_predicate(operand, batch, schema))
        case IsNull(operand):
            return pc.is_null(_value(operand, batch, schema))
        case Comparison(op, left, right):
            common = comparison_type(type_of(left, schema), type_of(right, schema))
            assert common is not None  # resolve checked it
            if pa.types.is_null(common):
                return pa.scalar(True if op == "<=>" else None, pa.bool_())
            return compare(
                op,
                _value(left, batch, schema, common),
                _value(right, batch, schema, common),
            )
        case In(operand, values):
            return _in(operand, values, batch, schema)
        case StartsWith(operand, prefix):
            texts = _value(operand, batch, schema, pa.string())
            return pc.starts_with(texts, prefix)
        case _:
            return _value(predicate, batch, schema, pa.bool_())


def _in(
    operand: Expression, values: tuple[Literal, ...], batch: pa.RecordBatch, schema: StructType
) -> Datum:
    result: Datum = pa.scalar(None if any(v.value is None for v in values) else False, pa.bool_())
    operand_type = type_of(operand, schema)
    by_type: dict[pa.DataType, list[pa.Scalar[Any]]] = {}
    for value in values:
        if value.value is None:
            continue
        common = comparison_type(operand_type, type_of(value, schema))
        assert common is not None  # resolve checked it
        by_type.setdefault(common, []).append(arrow_scalar(value, common))
    if operand_type == VOID:
        return pa.scalar(None, pa.bool_())
    for common, scalars in by_type.items():
        column = _as_array(_value(operand, batch, schema, common), batch)
        found: Datum = pc.is_in(
            _without_negative_zero(column),
            value_set=_without_negative_zero(pa.array(scalars, common)),
        )
        result = pc.or_kleene(result, found)
    missing = pc.is_null(_value(operand, batch, schema))
    return pc.if_else(missing, pa.scalar(None, pa.bool_()), result)


def _without_negative_zero(values: Any) -> Any:
    """`is_in` tells -0.0 from 0.0."""
    return pc.add(values, 0.0) if pa.types.is_float64(values.type) else values


def _value(
    expression: Expression,
    batch: pa.RecordBatch,
    schema: StructType,
    wanted: pa.DataType | None = None,
) -> Datum:
    match expression:
        case Column(path):
            return _cast(_column(path, batch, schema), wanted)
        case Literal():
            return _constant(expression, schema, wanted)
        case Predicate():
            return _predicate(expression, batch, schema)
        case _:
            raise PredicateError(
                f"{type(expression).__name__} isn't an expression that is known.",
                expression=repr(expression),
            )


def _column(path: tuple[str, ...], batch: pa.RecordBatch, schema: StructType) -> Datum:
    field = schema.get(path[0])
    if field is None:
        raise PredicateError(
            f"There is no column {path[0]!r}; there are {', '.join(batch.schema.names)}.",
            expression=".".join(path),
        )
    values: Datum = batch.column(batch.schema.get_field_index(field.name))
    data_type = field.data_type
    for name in path[1:]:
        inner = data_type.get(name) if isinstance(data_type, StructType) else None
        if inner is None:
            raise PredicateError(f"There is no column {'.'.join(path)!r}.", expression=name)
        # struct_field carries the struct's own nulls along.
        values = pc.struct_field(values, inner.name)
        data_type = inner.data_type
    if isinstance(data_type, StructType):
        return values
    return _cast(values, to_arrow_type(data_type))


def _constant(literal: Literal, schema: StructType, wanted: pa.DataType | None) -> Datum:
    if literal.value is None:
        return pa.scalar(None, wanted or pa.null())
    if literal.data_type is None:
        typed = resolve(IsNull(literal), schema)
        assert isinstance(typed, IsNull)
        assert isinstance(typed.operand, Literal)
        literal = typed.operand
    assert literal.data_type is not None
    return arrow_scalar(literal, wanted or to_arrow_type(literal.data_type))


def _cast(values: Datum, wanted: pa.DataType | None) -> Datum:
    """Widen to the type of a comparison; exact, but for decimal and long to double."""
    if wanted is None or values.type == wanted:
        return values
    return pc.cast(values, wanted, safe=not pa.types.is_float64(wanted))


def _as_array(values: Datum, batch: pa.RecordBatch) -> Datum:
    if not isinstance(values, pa.Scalar):
        return values
    scalar: Any = values
    return pa.repeat(scalar, batch.num_rows)


def _schema_of(expression: Expression, batch: pa.RecordBatch) -> StructType:
    """The Delta schema of the batch's columns that the expression may mean."""
    wanted = {path[0].lower() for path in referenced_columns(expression)}
    fields = [field for field in batch.schema if field.name.lower() in wanted]
    if len(fields) < len(wanted):
        fields = list(batch.schema)  # all names, for the error to choose from
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
