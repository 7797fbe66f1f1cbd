"""Converts a filter of pyarrow, DuckDB or Polars to a predicate of the kernel for data skipping.

The predicate is TRUE for all rows for which the filter is TRUE, and possibly for more rows. The
library that passed the filter then filters the rows. Parts of a filter that can't be converted
safely are left out. The libraries evaluate some filters differently from Spark:

- pyarrow compares floats as in IEEE 754: `NOT x > 5` is TRUE for NaN. DuckDB and Polars order NaN
  last, as Spark does. Many writers ignore NaN when they compute a file's statistics. Therefore
  comparisons that are TRUE for NaN aren't converted, for any of the libraries.
- pyarrow's `is_in` is FALSE for NULL, so `NOT is_in` is TRUE for NULL. In Spark, both IN and NOT IN
  are NULL for NULL. Therefore `NOT is_in` is converted to `NOT IN (...) OR IS NULL`.
- The libraries convert constants to the column's type, or the column to the constant's type.
  Comparisons with a constant that the column's type can't represent exactly aren't converted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from bayou.api.datasets.pushdown.filter_calls import Call, Constant, FieldPath, FilterNode
from bayou.kernel import Predicate
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.model import (
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
    conjunction,
)
from bayou.kernel.expressions.types import kind_of
from bayou.protocol.schema import BOOLEAN, DOUBLE, STRING, DataType, StructType

_COMPARISONS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal_missing": "<=>",
}
"""SQL comparison operators by function name. `equal_missing` is from Polars, the other names are
from pyarrow."""

_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEVER = Literal(False, BOOLEAN)
_EXACT_INTEGERS = 1 << 53
"""Limit below which doubles represent all integers exactly."""


def skipping_predicate(
    node: FilterNode, schema: StructType, *, nan_is_largest: bool
) -> Predicate | None:
    """Return a predicate that is TRUE for all rows for which the filter is TRUE.

    Args:
        schema: schema of the table.
        nan_is_largest: whether the library of the filter orders NaN above all numbers, as Spark
            does. If False, the library compares floats as in IEEE 754.

    Returns:
        None if no part of the filter can be converted.
    """
    return _Conversion(schema, nan_is_largest=nan_is_largest).true_for(node)


class _Conversion:
    """Converts the nodes of a filter to predicates.

    A method returns None if a node can't be converted. AND and OR treat None as TRUE, because any
    row may match the node.
    """

    def __init__(self, schema: StructType, *, nan_is_largest: bool) -> None:
        self._schema = schema
        self._nan_is_largest = nan_is_largest

    def true_for(self, node: FilterNode) -> Predicate | None:
        """Return a predicate that is TRUE for all rows for which the node is TRUE."""
        match node:
            case Constant(scalar=scalar):
                return None if _may_be(scalar, True) else _NEVER
            case FieldPath():
                return self._boolean(node, value=True)
            case Call(name="and" | "and_kleene", arguments=operands):
                return _all(map(self.true_for, operands))
            case Call(name="or" | "or_kleene", arguments=operands):
                return _any(map(self.true_for, operands))
            case Call(name="invert", arguments=(operand,)):
                return self.false_for(operand)
            case Call(name="if_else", arguments=(condition, then, otherwise)):
                return self._if_else(condition, self.true_for(then), self.true_for(otherwise))
            case Call():
                return self._leaf(node, negated=False)

    def false_for(self, node: FilterNode) -> Predicate | None:
        """Return a predicate that is TRUE for all rows for which the node is FALSE."""
        match node:
            case Constant(scalar=scalar):
                return None if _may_be(scalar, False) else _NEVER
            case FieldPath():
                return self._boolean(node, value=False)
            case Call(name="and" | "and_kleene", arguments=operands):
                return _any(map(self.false_for, operands))
            case Call(name="or" | "or_kleene", arguments=operands):
                return _all(map(self.false_for, operands))
            case Call(name="invert", arguments=(operand,)):
                return self.true_for(operand)
            case Call(name="if_else", arguments=(condition, then, otherwise)):
                return self._if_else(condition, self.false_for(then), self.false_for(otherwise))
            case Call():
                return self._leaf(node, negated=True)

    def _if_else(
        self, condition: FilterNode, then: Predicate | None, otherwise: Predicate | None
    ) -> Predicate | None:
        return _any(
            (
                _all((self.true_for(condition), then)),
                _all((self.false_for(condition), otherwise)),
            )
        )

    def _leaf(self, call: Call, *, negated: bool) -> Predicate | None:
        match call:
            case Call(name=name, arguments=(FieldPath() as path, Constant(scalar=scalar))) if (
                name in _COMPARISONS
            ):
                return self._comparison(_COMPARISONS[name], path, scalar, negated=negated)
            case Call(name=name, arguments=(Constant(scalar=scalar), FieldPath() as path)) if (
                name in _COMPARISONS
            ):
                op = _COMPARISONS[name]
                return self._comparison(_FLIPPED.get(op, op), path, scalar, negated=negated)
            case Call(name="is_null", arguments=(FieldPath() as path,), options=options):
                or_nan = _is_set(options.get("nan_is_null"))
                return self._null_test(path, is_null=not negated, or_nan=or_nan)
            case Call(name="is_valid", arguments=(FieldPath() as path,)):
                return self._null_test(path, is_null=negated, or_nan=False)
            case Call(name="is_in", arguments=(FieldPath() as path,), options=options):
                return self._is_in(path, options, negated=negated)
            case Call(name="starts_with", arguments=(FieldPath() as path,), options=options):
                return self._starts_with(path, options, negated=negated)
            case _:
                return None

    def _boolean(self, path: FieldPath, *, value: bool) -> Predicate | None:
        if self._type_of(path) != BOOLEAN:
            return None
        return Comparison("=", Column(path.names), Literal(value, BOOLEAN))

    def _comparison(
        self, op: str, path: FieldPath, scalar: Any, *, negated: bool
    ) -> Predicate | None:
        data_type = self._type_of(path)
        column = Column(path.names)
        if data_type is None:
            return None
        if not scalar.is_valid:
            if op != "<=>":
                return _NEVER  # the comparison is NULL for every row
            return Not(IsNull(column)) if negated else IsNull(column)
        literal = exact_literal(scalar, data_type)
        if literal is None:
            return None
        if op == "<=>":
            if not negated:
                op = "="
            elif _is_float(data_type):
                return None
            else:
                return Or((Comparison("<>", column, literal), IsNull(column)))
        elif negated and self._nan_is_largest:
            op, negated = _NEGATED[op], False
        if _is_float(data_type) and self._holds_for_nan(op, negated=negated):
            return None
        return Comparison(_NEGATED[op] if negated else op, column, literal)

    def _holds_for_nan(self, op: str, *, negated: bool) -> bool:
        """Whether the library of the filter evaluates `NaN op number` as TRUE.

        Args:
            negated: whether to evaluate `NOT NaN op number` instead.
        """
        if self._nan_is_largest:
            return op in (">", ">=", "<>")
        return (op == "<>") != negated

    def _null_test(self, path: FieldPath, *, is_null: bool, or_nan: bool) -> Predicate | None:
        data_type = self._type_of(path)
        if data_type is None or (is_null and or_nan and _is_float(data_type)):
            return None
        test = IsNull(Column(path.names))
        return test if is_null else Not(test)

    def _is_in(
        self, path: FieldPath, options: dict[str, Any] | Any, *, negated: bool
    ) -> Predicate | None:
        data_type = self._type_of(path)
        values = options.get("value_set")
        if data_type is None or values is None:
            return None
        column = Column(path.names)
        literals = [exact_literal(value, data_type) for value in values.values if value.is_valid]
        known = tuple(literal for literal in literals if literal is not None)
        if len(known) < len(literals):
            return None
        has_null = len(literals) < len(values.values)
        if negated:
            if _is_float(data_type):
                return None
            absent: Predicate | None = Not(In(column, known)) if known else None
            return None if absent is None else Or((absent, IsNull(column)))
        matches: Predicate = In(column, known) if known else _NEVER
        return Or((matches, IsNull(column))) if has_null else matches

    def _starts_with(
        self, path: FieldPath, options: dict[str, Any] | Any, *, negated: bool
    ) -> Predicate | None:
        pattern = options.get("pattern")
        if self._type_of(path) != STRING or pattern is None or _is_set(options.get("ignore_case")):
            return None
        prefix = pattern.as_py()
        if isinstance(prefix, bytes):
            prefix = prefix.decode()
        test = StartsWith(Column(path.names), prefix)
        return Not(test) if negated else test

    def _type_of(self, path: FieldPath) -> DataType | None:
        """Return the type of a column or field; None if it doesn't exist."""
        container: DataType = self._schema
        for name in path.names:
            field = container.get(name) if isinstance(container, StructType) else None
            if field is None or field.name != name:
                return None
            container = field.data_type
        return container


def _all(operands: Iterable[Predicate | None]) -> Predicate | None:
    return conjunction(operand for operand in operands if operand is not None)


def _any(operands: Iterable[Predicate | None]) -> Predicate | None:
    known: list[Predicate] = []
    for operand in operands:
        if operand is None:
            return None
        known.append(operand)
    return known[0] if len(known) == 1 else Or(tuple(known))


def _may_be(scalar: Any, value: object) -> bool:
    """Whether the library of the filter may evaluate a constant as the boolean `value`.

    For NULL, the result is False. For a constant that isn't a boolean, the result is True, because
    the library may convert the constant to either boolean.
    """
    return scalar.is_valid and (not pa.types.is_boolean(scalar.type) or scalar.as_py() is value)


def _is_set(option: Any) -> bool:
    return option is not None and bool(option.as_py())


def _is_float(data_type: DataType) -> bool:
    return kind_of(data_type) == "float"


def exact_literal(scalar: Any, data_type: DataType) -> Literal | None:
    """Return a constant as a literal of a column's type.

    Returns:
        None if the type can't represent the constant exactly, or if the constant is NaN.
    """
    kind = kind_of(data_type)
    if kind is None or kind == "void" or kind not in _kinds_for(scalar.type):
        return None
    arrow_type = to_arrow_type(data_type)
    try:
        if pa.types.is_floating(scalar.type):
            return _float_literal(scalar.as_py(), data_type, kind)
        if kind == "float":
            return _float_literal_of_integer(scalar.as_py(), data_type)
        if kind == "decimal" and pa.types.is_integer(scalar.type):
            return Literal(pa.scalar(Decimal(scalar.as_py()), arrow_type).as_py(), data_type)
        value = scalar.cast(arrow_type).as_py()
        if kind in ("string", "binary", "boolean", "date") or scalar.type == arrow_type:
            return Literal(value, data_type)
        back = pa.scalar(value, arrow_type).cast(scalar.type)
        return Literal(value, data_type) if back.equals(scalar) else None
    except (pa.ArrowException, ArithmeticError, ValueError, TypeError):
        return None  # the value is outside the range of the type, or of Python's dates


def _float_literal(value: float, data_type: DataType, kind: str) -> Literal | None:
    if math.isnan(value):
        return None
    if kind == "integer":
        # The column is compared as double, which is exact for values below 2 ** 53.
        return Literal(value, DOUBLE) if abs(value) < _EXACT_INTEGERS else None
    if data_type != DOUBLE and pa.scalar(value, pa.float32()).as_py() != value:
        return None
    return Literal(value, DOUBLE)


def _float_literal_of_integer(value: int, data_type: DataType) -> Literal | None:
    limit = _EXACT_INTEGERS if data_type == DOUBLE else 1 << 24
    return Literal(float(value), DOUBLE) if abs(value) < limit else None


def _kinds_for(arrow_type: pa.DataType) -> tuple[str, ...]:
    """Return the groups of column types that can be compared with a constant of an Arrow type.

    For example, `integer` is the group of all integer types.
    """
    types = pa.types
    if types.is_boolean(arrow_type):
        return ("boolean",)
    if types.is_integer(arrow_type):
        return ("integer", "decimal", "float")
    if types.is_floating(arrow_type):
        return ("integer", "float")
    if types.is_decimal(arrow_type):
        return ("integer", "decimal")
    if types.is_timestamp(arrow_type):
        return ("timestamp",) if arrow_type.tz is not None else ("timestamp_ntz",)
    if types.is_date(arrow_type):
        return ("date",)
    if types.is_string(arrow_type) or types.is_large_string(arrow_type):
        return ("string",)
    if types.is_string_view(arrow_type):
        return ("string",)
    if types.is_binary(arrow_type) or types.is_large_binary(arrow_type):
        return ("binary",)
    return ("binary",) if types.is_binary_view(arrow_type) else ()
