"""Three-valued logic of data skipping: which results a predicate can have for the rows of a file.

`TriState` returns for each file whether a predicate may be true for some row, and separately
whether it may be false for some row. If the values in a file are unknown, both answers are true.
The answers are boolean arrays without nulls.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_scalar
from bayou.kernel.arrow.compute import Datum, pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.evaluation import Evaluator, compare
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
    StartsWith,
    operands_of,
    referenced_columns,
)
from bayou.kernel.expressions.resolution import type_of
from bayou.kernel.expressions.types import comparison_type
from bayou.kernel.scan.data_skipping.column_ranges import (
    MAX_POINTS,
    FileRanges,
    Range,
    constant,
    is_off_scale,
    non_null_values,
    runs,
)
from bayou.kernel.scan.data_skipping.function_ranges import (
    constant_value,
    evaluate_leniently,
    function_range,
)
from bayou.kernel.scan.data_skipping.generated_partitions import GeneratedPartitions
from bayou.protocol.schema import BOOLEAN


class TriState:
    """Determines which results a predicate may have for the rows of each file.

    `may_be_true` and `may_be_false` can both be true, because results differ between rows.
    """

    def __init__(
        self,
        files: FileRanges,
        partition_columns: tuple[str, ...],
        generated: GeneratedPartitions,
    ) -> None:
        self._files = files
        self._partitions = frozenset(partition_columns)
        self._generated = generated

    def may_be_true(self, predicate: Expression) -> Datum:
        """For each file, return whether a predicate may be TRUE for some row."""
        exact = self._exact(predicate)
        if exact is not None:
            values, known = exact
            return pc.or_(pc.fill_null(values, False), pc.invert(known))
        match predicate:
            case And(operands):
                return reduce(pc.and_, [self.may_be_true(o) for o in operands])
            case Or(operands):
                return reduce(pc.or_, [self.may_be_true(o) for o in operands])
            case Not(operand):
                return self.may_be_false(operand)
            case IsNull(operand):
                return self._may_be_null(operand)
            case Comparison("<=>", left, right):
                left_range, right_range = self._range(left), self._range(right)
                equal = self._comparison_may_be_true("=", left, right)
                return pc.or_(equal, pc.and_(left_range.may_be_null(), right_range.may_be_null()))
            case Comparison(op, left, right):
                return self._comparison_may_be_true(op, left, right)
            case In(operand, values):
                return self._may_be_in(operand, values)
            case StartsWith(operand, prefix):
                return self._may_start_with(operand, prefix)
            case Like(operand, pattern, escape):
                prefix, _ = _literal_prefix(pattern, escape)
                return self._may_start_with(operand, prefix)
            case Literal(value, _):
                return constant(value is True)
            case _:
                # A boolean data column has no bounds, but a boolean partition column does.
                return self._comparison_may_be_true("=", predicate, Literal(True, BOOLEAN))

    def may_be_false(self, predicate: Expression) -> Datum:
        """For each file, return whether a predicate may be FALSE for some row."""
        exact = self._exact(predicate)
        if exact is not None:
            values, known = exact
            return pc.or_(pc.invert(pc.fill_null(values, True)), pc.invert(known))
        match predicate:
            case And(operands):
                return reduce(pc.or_, [self.may_be_false(o) for o in operands])
            case Or(operands):
                return reduce(pc.and_, [self.may_be_false(o) for o in operands])
            case Not(operand):
                return self.may_be_true(operand)
            case IsNull(operand):
                return self._may_have_value(operand)
            case Comparison("<=>", left, right):
                left_range, right_range = self._range(left), self._range(right)
                different = self._comparison_may_be_true("<>", left, right)
                one_is_null = pc.or_(
                    pc.and_(left_range.may_be_null(), right_range.may_have_value()),
                    pc.and_(left_range.may_have_value(), right_range.may_be_null()),
                )
                return pc.or_(different, one_is_null)
            case Comparison(op, left, right):
                return self._comparison_may_be_true(_NEGATED[op], left, right)
            case In(operand, values):
                return self._may_not_be_in(operand, values)
            case StartsWith(operand, prefix):
                return self._may_not_start_with(operand, prefix)
            case Like(operand, pattern, escape):
                prefix, rest = _literal_prefix(pattern, escape)
                if rest and not rest.strip("%"):
                    return self._may_not_start_with(operand, prefix)
                return self._range(operand).may_have_value()
            case Literal(value, _):
                return constant(value is False)
            case _:
                return self._comparison_may_be_true("=", predicate, Literal(False, BOOLEAN))

    def _may_be_null(self, expression: Expression) -> Datum:
        exact = self._exact(expression)
        if exact is not None:
            values, known = exact
            return pc.or_(pc.is_null(values), pc.invert(known))
        match expression:
            case And(operands):
                # TRUE AND NULL is NULL, FALSE AND NULL is FALSE.
                any_null = reduce(pc.or_, [self._may_be_null(o) for o in operands])
                not_false = [pc.or_(self.may_be_true(o), self._may_be_null(o)) for o in operands]
                return reduce(pc.and_, not_false, any_null)
            case Or(operands):
                any_null = reduce(pc.or_, [self._may_be_null(o) for o in operands])
                not_true = [pc.or_(self.may_be_false(o), self._may_be_null(o)) for o in operands]
                return reduce(pc.and_, not_true, any_null)
            case Not(operand):
                return self._may_be_null(operand)
            case IsNull() | Comparison("<=>", _, _):
                return constant(False)
            case Comparison(_, left, right):
                return pc.or_(self._may_be_null(left), self._may_be_null(right))
            case In(operand, values):
                may_be_null = self._may_be_null(operand)
                if any(value.value is None for value in values):
                    not_in_list = self._may_not_be_in(operand, non_null_values(values))
                    may_be_null = pc.or_(may_be_null, not_in_list)
                return may_be_null
            case StartsWith(operand, _) | Like(operand, _, _):
                return self._may_be_null(operand)
            case Column(path) if path[0] not in self._partitions:
                may_be_null = self._range(expression).may_be_null()
                partitions = dict(self._files.partition_values)
                return pc.and_(may_be_null, self._generated.may_be_null(path, partitions))
            case _:
                return self._range(expression).may_be_null()

    def _may_have_value(self, expression: Expression) -> Datum:
        match expression:
            case Column() | Literal() | Cast() | Function():
                return self._range(expression).may_have_value()
            case _:
                return pc.or_(self.may_be_true(expression), self.may_be_false(expression))

    def _comparison_may_be_true(self, op: str, left: Expression, right: Expression) -> Datum:
        left_range, right_range = self._range(left), self._range(right)
        possible = pc.and_(left_range.may_have_value(), right_range.may_have_value())
        common = comparison_type(left_range.data_type, right_range.data_type)
        if common is None or pa.types.is_null(common):
            return possible
        if isinstance(left, Column) and isinstance(right, Column) and left.path == right.path:
            return possible if op in ("=", "<=", ">=") else constant(False)
        if op == "=" and (is_off_scale(left, right_range) or is_off_scale(right, left_range)):
            return constant(False)
        match op:
            case "=":
                fits = pc.and_kleene(
                    compare("<=", left_range.lower(common), right_range.upper(common)),
                    compare(">=", left_range.upper(common), right_range.lower(common)),
                )
                if isinstance(right, Literal):
                    value = right_range.lower(common)
                    fits = pc.and_kleene(fits, left_range.may_contain(value, common))
                elif isinstance(left, Literal):
                    value = left_range.lower(common)
                    fits = pc.and_kleene(fits, right_range.may_contain(value, common))
            case "<>":
                fits = pc.invert(
                    pc.and_kleene(
                        compare(">=", left_range.lower(common), right_range.upper(common)),
                        compare("<=", left_range.upper(common), right_range.lower(common)),
                    )
                )
            case "<" | "<=":
                fits = compare(op, left_range.lower(common), right_range.upper(common))
            case _:
                fits = compare(op, left_range.upper(common), right_range.lower(common))
        possible = pc.and_(possible, pc.fill_null(fits, True))
        return pc.and_(possible, self._partitions_permit(op, left, right, common))

    def _partitions_permit(
        self, op: str, left: Expression, right: Expression, common: pa.DataType
    ) -> Datum:
        """For each file, return whether a comparison may be TRUE according to generated columns.

        Only partition columns that are generated from the compared column are used. If there are
        none, the result is true for all files.
        """
        if isinstance(right, Column):
            left, right, op = right, left, _FLIPPED[op]
        if not isinstance(left, Column) or op == "<>":
            return constant(True)
        if not self._generated.columns_for(left.path):
            return constant(True)
        value = self._constant(right)
        source = to_arrow_type(self._range(left).data_type)
        same = source == common or (pa.types.is_integer(source) and isinstance(value, int))
        if value is None or not same:
            return constant(True)
        if source == common:
            value = arrow_scalar(Literal(value, self._range(right).data_type), common).as_py()
        partitions = dict(self._files.partition_values)
        return self._generated.may_be_true(op, left.path, value, partitions)

    def _constant(self, expression: Expression) -> Any:
        if isinstance(expression, Literal):
            return expression.value
        if next(referenced_columns(expression), None) is not None:
            return None
        return (
            self._range(expression)
            .lower(to_arrow_type(type_of(expression, self._files.schema)))
            .as_py()
        )

    def _range(self, expression: Expression) -> Range:
        if isinstance(expression, Column | Literal):
            return self._files.range(expression)
        paths = list(referenced_columns(expression))
        if all(path[0] in self._partitions for path in paths):
            return self._partition_range(expression, bool(paths))
        if not isinstance(expression, Cast | Function):
            return _ConditionRange(expression, self)
        operands = operands_of(expression)
        return function_range(
            expression,
            type_of(expression, self._files.schema),
            [self._range(operand) for operand in operands],
            [constant_value(operand) for operand in operands],
        )

    def _exact(self, predicate: Expression) -> tuple[Datum, Datum] | None:
        """For each file, evaluate a condition that references only partition columns.

        Returns:
            The results, and a mask of the files whose result was computed without an error. None if
            the predicate isn't a boolean expression on partition columns, or if it is an AND, OR,
            NOT or a single column.
        """
        if isinstance(predicate, And | Or | Not | Column | Literal):
            return None
        paths = list(referenced_columns(predicate))
        if not paths or any(path[0] not in self._partitions for path in paths):
            return None
        if type_of(predicate, self._files.schema) != BOOLEAN:
            return None
        arrays = dict(self._files.partition_values)
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        return evaluate_leniently(Evaluator(self._files.schema, predicate), batch, pa.bool_())

    def _partition_range(self, expression: Expression, varies: bool) -> Range:
        """Return the range of an expression that references no columns except partition columns.

        Args:
            varies: whether the expression references columns. An expression without columns is
                evaluated once for all files.
        """
        data_type = type_of(expression, self._files.schema)
        arrays = dict(self._files.partition_values) if varies else {"row": pa.nulls(1)}
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        evaluation = Evaluator(self._files.schema, expression)
        values, known = evaluate_leniently(evaluation, batch, to_arrow_type(data_type))
        if not varies:
            values, known = values[0], known[0]
        return self._files.of_partition(data_type, values, known)

    def _may_be_in(self, operand: Expression, values: tuple[Literal, ...]) -> Datum:
        known = non_null_values(values)
        if not known:
            return constant(False)
        checks = [
            self._comparison_may_be_true("=", operand, low)
            if low is high
            else pc.and_(
                self._comparison_may_be_true(">=", operand, low),
                self._comparison_may_be_true("<=", operand, high),
            )
            for low, high in runs(known)
        ]
        return reduce(pc.or_, checks)

    def _may_not_be_in(self, operand: Expression, values: tuple[Literal, ...]) -> Datum:
        if any(value.value is None for value in values):
            return constant(False)  # without a match, a NULL in the list makes the result NULL
        may_have_value = self._range(operand).may_have_value()
        if len(values) > MAX_POINTS:
            return may_have_value
        return reduce(
            pc.and_,
            [self._comparison_may_be_true("<>", operand, v) for v in values],
            may_have_value,
        )

    def _may_start_with(self, operand: Expression, prefix: str) -> Datum:
        strings = self._range(operand)
        kind = pa.string()
        # Strings with a common prefix are an interval in byte order.
        lower, upper = strings.lower(kind), strings.upper(kind)
        begins = pc.or_kleene(
            compare("<=", lower, to_scalar(prefix, kind)), pc.starts_with(lower, prefix)
        )
        fits = pc.and_kleene(begins, compare(">=", upper, to_scalar(prefix, kind)))
        return pc.and_(strings.may_have_value(), pc.fill_null(fits, True))

    def _may_not_start_with(self, operand: Expression, prefix: str) -> Datum:
        strings = self._range(operand)
        kind = pa.string()
        all_match = pc.and_kleene(
            pc.starts_with(strings.lower(kind), prefix), pc.starts_with(strings.upper(kind), prefix)
        )
        return pc.and_(strings.may_have_value(), pc.invert(pc.fill_null(all_match, False)))


class _ConditionRange(Range):
    """The range of a condition that is used as a value, such as `x > 2` in `(x > 2) <=> NULL`."""

    def __init__(self, condition: Expression, possibilities: TriState) -> None:
        super().__init__(BOOLEAN)
        self._condition = condition
        self._possibilities = possibilities

    def lower(self, arrow_type: pa.DataType) -> Datum:
        return pc.cast(pc.invert(self._possibilities.may_be_false(self._condition)), arrow_type)

    def upper(self, arrow_type: pa.DataType) -> Datum:
        return pc.cast(self._possibilities.may_be_true(self._condition), arrow_type)

    def may_be_null(self) -> Datum:
        return self._possibilities._may_be_null(self._condition)

    def may_have_value(self) -> Datum:
        return self._possibilities._may_have_value(self._condition)


_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _literal_prefix(pattern: str, escape: str) -> tuple[str, str]:
    """Return the string before a LIKE pattern's first wildcard, and the rest of the pattern."""
    prefix = ""
    i = 0
    while i < len(pattern):
        if pattern[i] == escape:  # the escape character may be a wildcard
            i += 1
        elif pattern[i] in "%_":
            break
        prefix += pattern[i]
        i += 1
    return prefix, pattern[i:]
