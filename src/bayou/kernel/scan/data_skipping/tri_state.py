"""What a predicate may be for some row of a file: true, false or null.

What isn't known counts as possible. All answers are booleans without nulls, one a file.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.evaluation import Evaluation, compare
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
    known_values,
    runs,
)
from bayou.kernel.scan.data_skipping.function_ranges import (
    constant_value,
    function_range,
    tolerant,
)
from bayou.kernel.scan.data_skipping.generated_partitions import GeneratedPartitions
from bayou.protocol.schema import BOOLEAN

__all__ = ["Possibilities"]

# A pyarrow array of one value a file, or a scalar for all. pyarrow's own types don't take both
# where its functions do.
Datum: TypeAlias = Any
pc: Any = pyarrow.compute


class Possibilities:
    """Answers for some files.

    Args:
        files: their statistics and partition values.
        partition_columns: names of those whose values `files` has.
        generated: partition columns that are computed from data columns.
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
        """For some row it may be TRUE."""
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
                one, other = self._range(left), self._range(right)
                equal = self._may_hold("=", left, right)
                return pc.or_(equal, pc.and_(one.may_be_null(), other.may_be_null()))
            case Comparison(op, left, right):
                return self._may_hold(op, left, right)
            case In(operand, values):
                return self._may_be_in(operand, values)
            case StartsWith(operand, prefix):
                return self._may_start_with(operand, prefix)
            case Like(operand, pattern, escape):
                prefix, _ = _beginning(pattern, escape)
                return self._may_start_with(operand, prefix)
            case Literal(value, _):
                return constant(value is True)
            case _:
                # A boolean column has no bounds; a partition column has both.
                return self._may_hold("=", predicate, Literal(True, BOOLEAN))

    def may_be_false(self, predicate: Expression) -> Datum:
        """For some row it may be FALSE."""
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
                one, other = self._range(left), self._range(right)
                different = self._may_hold("<>", left, right)
                one_sided = pc.or_(
                    pc.and_(one.may_be_null(), other.may_have_value()),
                    pc.and_(one.may_have_value(), other.may_be_null()),
                )
                return pc.or_(different, one_sided)
            case Comparison(op, left, right):
                return self._may_hold(_NEGATED[op], left, right)
            case In(operand, values):
                return self._may_be_outside(operand, values)
            case StartsWith(operand, prefix):
                return self._may_start_otherwise(operand, prefix)
            case Like(operand, pattern, escape):
                prefix, rest = _beginning(pattern, escape)
                if rest and not rest.strip("%"):
                    return self._may_start_otherwise(operand, prefix)
                return self._range(operand).may_have_value()
            case Literal(value, _):
                return constant(value is False)
            case _:
                return self._may_hold("=", predicate, Literal(False, BOOLEAN))

    def _may_be_null(self, expression: Expression) -> Datum:
        exact = self._exact(expression)
        if exact is not None:
            values, known = exact
            return pc.or_(pc.is_null(values), pc.invert(known))
        match expression:
            case And(operands):
                # TRUE and NULL give NULL, FALSE and NULL give FALSE.
                somewhere = reduce(pc.or_, [self._may_be_null(o) for o in operands])
                not_false = [pc.or_(self.may_be_true(o), self._may_be_null(o)) for o in operands]
                return reduce(pc.and_, not_false, somewhere)
            case Or(operands):
                somewhere = reduce(pc.or_, [self._may_be_null(o) for o in operands])
                not_true = [pc.or_(self.may_be_false(o), self._may_be_null(o)) for o in operands]
                return reduce(pc.and_, not_true, somewhere)
            case Not(operand):
                return self._may_be_null(operand)
            case IsNull() | Comparison("<=>", _, _):
                return constant(False)
            case Comparison(_, left, right):
                return pc.or_(self._may_be_null(left), self._may_be_null(right))
            case In(operand, values):
                missing = self._may_be_null(operand)
                if any(value.value is None for value in values):
                    outside = self._may_be_outside(operand, known_values(values))
                    missing = pc.or_(missing, outside)
                return missing
            case StartsWith(operand, _) | Like(operand, _, _):
                return self._may_be_null(operand)
            case Column(path) if path[0] not in self._partitions:
                found = self._range(expression).may_be_null()
                partitions = dict(self._files.partition_values)
                return pc.and_(found, self._generated.may_be_null(path, partitions))
            case _:
                return self._range(expression).may_be_null()

    def _may_have_value(self, expression: Expression) -> Datum:
        match expression:
            case Column() | Literal() | Cast() | Function():
                return self._range(expression).may_have_value()
            case _:
                return pc.or_(self.may_be_true(expression), self.may_be_false(expression))

    def _may_hold(self, op: str, left: Expression, right: Expression) -> Datum:
        """Whether two values of one row, neither null, may compare so."""
        one, other = self._range(left), self._range(right)
        possible = pc.and_(one.may_have_value(), other.may_have_value())
        common = comparison_type(one.data_type, other.data_type)
        if common is None or pa.types.is_null(common):
            return possible
        if isinstance(left, Column) and isinstance(right, Column) and left.path == right.path:
            return possible if op in ("=", "<=", ">=") else constant(False)
        if op == "=" and (is_off_scale(left, other) or is_off_scale(right, one)):
            return constant(False)
        match op:
            case "=":
                fits = pc.and_kleene(
                    compare("<=", one.lower(common), other.upper(common)),
                    compare(">=", one.upper(common), other.lower(common)),
                )
                if isinstance(right, Literal):
                    fits = pc.and_kleene(fits, one.may_hold(other.lower(common), common))
                elif isinstance(left, Literal):
                    fits = pc.and_kleene(fits, other.may_hold(one.lower(common), common))
            case "<>":
                fits = pc.invert(
                    pc.and_kleene(
                        compare(">=", one.lower(common), other.upper(common)),
                        compare("<=", one.upper(common), other.lower(common)),
                    )
                )
            case "<" | "<=":
                fits = compare(op, one.lower(common), other.upper(common))
            case _:
                fits = compare(op, one.upper(common), other.lower(common))
        possible = pc.and_(possible, pc.fill_null(fits, True))
        return pc.and_(possible, self._partition_may_hold(op, left, right, common))

    def _partition_may_hold(
        self, op: str, left: Expression, right: Expression, common: pa.DataType
    ) -> Datum:
        """What partition columns say that are computed from a column compared with a constant."""
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
        return self._generated.may_hold(op, left.path, value, partitions)

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
            return self._of_partitions(expression, bool(paths))
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
        """A condition over partition columns alone, and where it is known; None for others."""
        if isinstance(predicate, And | Or | Not | Column | Literal):
            return None
        paths = list(referenced_columns(predicate))
        if not paths or any(path[0] not in self._partitions for path in paths):
            return None
        arrays = dict(self._files.partition_values)
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        return tolerant(Evaluation(self._files.schema, predicate), batch, pa.bool_())

    def _of_partitions(self, expression: Expression, varies: bool) -> Range:
        """An expression over partition columns alone is computed for each file."""
        data_type = type_of(expression, self._files.schema)
        arrays = dict(self._files.partition_values) if varies else {"row": pa.nulls(1)}
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
        evaluation = Evaluation(self._files.schema, expression)
        values, known = tolerant(evaluation, batch, to_arrow_type(data_type))
        if not varies:
            values, known = values[0], known[0]
        return self._files.of_partition(data_type, values, known)

    def _may_be_in(self, operand: Expression, values: tuple[Literal, ...]) -> Datum:
        known = known_values(values)
        if not known:
            return constant(False)
        checks = [
            self._may_hold("=", operand, low)
            if low is high
            else pc.and_(self._may_hold(">=", operand, low), self._may_hold("<=", operand, high))
            for low, high in runs(known)
        ]
        return reduce(pc.or_, checks)

    def _may_be_outside(self, operand: Expression, values: tuple[Literal, ...]) -> Datum:
        if any(value.value is None for value in values):
            return constant(False)  # no match and a NULL in the list: NULL
        others = self._range(operand).may_have_value()
        if len(values) > MAX_POINTS:
            return others
        return reduce(pc.and_, [self._may_hold("<>", operand, v) for v in values], others)

    def _may_start_with(self, operand: Expression, prefix: str) -> Datum:
        texts = self._range(operand)
        kind = pa.string()
        # Strings with a prefix are an interval of the order by bytes.
        lower, upper = texts.lower(kind), texts.upper(kind)
        begins = pc.or_kleene(
            compare("<=", lower, pa.scalar(prefix, kind)), pc.starts_with(lower, prefix)
        )
        fits = pc.and_kleene(begins, compare(">=", upper, pa.scalar(prefix, kind)))
        return pc.and_(texts.may_have_value(), pc.fill_null(fits, True))

    def _may_start_otherwise(self, operand: Expression, prefix: str) -> Datum:
        texts = self._range(operand)
        kind = pa.string()
        within = pc.and_kleene(
            pc.starts_with(texts.lower(kind), prefix), pc.starts_with(texts.upper(kind), prefix)
        )
        return pc.and_(texts.may_have_value(), pc.invert(pc.fill_null(within, False)))


class _ConditionRange(Range):
    """A condition as a value, such as `(x > 2) <=> NULL`."""

    def __init__(self, condition: Expression, possibilities: Possibilities) -> None:
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


def _beginning(pattern: str, escape: str) -> tuple[str, str]:
    """The text before the first wildcard of a pattern for LIKE, and the rest."""
    text = ""
    at = 0
    while at < len(pattern) and pattern[at] not in "%_":
        at += pattern[at] == escape
        text += pattern[at]
        at += 1
    return text, pattern[at:]
