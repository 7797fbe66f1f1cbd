"""Data skipping: which files may hold a matching row, told from partition values and statistics.

Every part of a predicate is asked what it may be for *some* row of a file: true, false or null. A
file is dropped where the whole can't be true. What isn't known counts as possible, so a missing,
unusable or misleading statistic keeps the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.arrow_types import to_arrow_type
from bayou.kernel.predicates.evaluation import compare
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
from bayou.kernel.predicates.ranges import (
    FileRanges,
    Range,
    StatisticsRecorder,
    constant,
)
from bayou.kernel.predicates.resolution import comparison_type
from bayou.protocol import partition_values as partition_text
from bayou.protocol.schema import (
    BOOLEAN,
    BYTE,
    INTEGER,
    LONG,
    SHORT,
    DataType,
    DecimalType,
    StructType,
)

__all__ = ["SkippingPlan", "typed_partition_array"]

# A pyarrow array of one value a file, or a scalar for all. pyarrow's own types don't take both
# where its functions do.
Datum: TypeAlias = Any
pc: Any = pyarrow.compute

_MAX_POINTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippingPlan:
    """What to look at in each file, and how to judge it.

    Attributes:
        partition_columns: those that the predicate names, by logical name, in the table's order.
        stats_schema: what must be parsed out of `add.stats`: any of `numRecords`, `nullCount`,
            `minValues`, `maxValues`; None where statistics can't help. Dates and timestamps are
            strings there, as they are in the JSON text.
        residual: the conjuncts that partition values alone don't decide, None where there are
            none: what the rows of the kept files must still be tested for.
    """

    partition_columns: tuple[str, ...]
    stats_schema: pa.Schema | None
    residual: Predicate | None
    _predicate: Predicate
    _schema: StructType

    @classmethod
    def build(
        cls, predicate: Predicate, schema: StructType, partition_columns: Sequence[str]
    ) -> SkippingPlan:
        """Plan for a predicate that `resolve` returned for this schema."""
        named = {path[0] for path in referenced_columns(predicate)}
        partitions = tuple(name for name in partition_columns if name in named)
        recorder = StatisticsRecorder(schema, frozenset(partitions))
        _may_be_true(predicate, recorder)
        remaining = tuple(
            part
            for part in _conjuncts(predicate)
            if not all(path[0] in partitions for path in referenced_columns(part))
        )
        return cls(
            partition_columns=partitions,
            stats_schema=recorder.stats_schema(),
            residual=None
            if not remaining
            else remaining[0]
            if len(remaining) == 1
            else And(remaining),
            _predicate=predicate,
            _schema=schema,
        )

    @property
    def fully_covered_by_partitions(self) -> bool:
        """Every row of a kept file matches."""
        return self.residual is None

    def keep(
        self,
        partition_values: Mapping[str, pa.Array[Any]],
        stats: pa.RecordBatch | None = None,
        *,
        num_rows: int | None = None,
    ) -> pa.BooleanArray:
        """Files that may hold a matching row: true, or false. Never null.

        Args:
            partition_values: one array for each of `partition_columns`, see
                `typed_partition_array`.
            stats: `stats_schema`'s columns; None to judge by partition values alone.
            num_rows: number of files; needed only where there is neither.
        """
        if num_rows is None:
            num_rows = (
                stats.num_rows
                if stats is not None
                else len(next(iter(partition_values.values())))
                if partition_values
                else 0
            )
        files = FileRanges(self._schema, frozenset(self.partition_columns), partition_values, stats)
        result = _may_be_true(self._predicate, files)
        if isinstance(result, pa.Scalar):
            result = pa.repeat(result.as_py(), num_rows)
        assert isinstance(result, pa.BooleanArray)
        return result


def typed_partition_array(
    texts: pa.Array[Any], data_type: DataType, time_zone: str = "UTC"
) -> pa.Array[Any]:
    """Partition values as they stand in the log, in their column's Arrow type.

    Each distinct text is parsed once.

    Raises:
        ValueError: a text isn't a value of the type.
    """
    encoded: Datum = texts.dictionary_encode()
    arrow_type = to_arrow_type(data_type)
    values = [
        partition_text.parse(text, data_type, time_zone) for text in encoded.dictionary.to_pylist()
    ]
    typed: Datum = pa.array(values, arrow_type)
    result: pa.Array[Any] = typed.take(encoded.indices)
    return result


# What a predicate may be for some row of a file. All results are booleans without nulls.


def _may_be_true(predicate: Expression, files: FileRanges) -> Datum:
    match predicate:
        case And(operands):
            return reduce(pc.and_, [_may_be_true(o, files) for o in operands])
        case Or(operands):
            return reduce(pc.or_, [_may_be_true(o, files) for o in operands])
        case Not(operand):
            return _may_be_false(operand, files)
        case IsNull(operand):
            return _may_be_null(operand, files)
        case Comparison("<=>", left, right):
            one, other = _range(left, files), _range(right, files)
            equal = _may_hold("=", left, right, files)
            return pc.or_(equal, pc.and_(one.may_be_null(), other.may_be_null()))
        case Comparison(op, left, right):
            return _may_hold(op, left, right, files)
        case In(operand, values):
            return _may_be_in(operand, values, files)
        case StartsWith(operand, prefix):
            return _may_start_with(operand, prefix, files)
        case Literal(value, _):
            return constant(value is True)
        case _:
            # A boolean column has no bounds; a partition column has both.
            return _may_hold("=", predicate, Literal(True, BOOLEAN), files)


def _may_be_false(predicate: Expression, files: FileRanges) -> Datum:
    match predicate:
        case And(operands):
            return reduce(pc.or_, [_may_be_false(o, files) for o in operands])
        case Or(operands):
            return reduce(pc.and_, [_may_be_false(o, files) for o in operands])
        case Not(operand):
            return _may_be_true(operand, files)
        case IsNull(operand):
            return _may_have_value(operand, files)
        case Comparison("<=>", left, right):
            one, other = _range(left, files), _range(right, files)
            different = _may_hold("<>", left, right, files)
            one_sided = pc.or_(
                pc.and_(one.may_be_null(), other.may_have_value()),
                pc.and_(one.may_have_value(), other.may_be_null()),
            )
            return pc.or_(different, one_sided)
        case Comparison(op, left, right):
            return _may_hold(_NEGATED[op], left, right, files)
        case In(operand, values):
            return _may_be_outside(operand, values, files)
        case StartsWith(operand, prefix):
            return _may_start_otherwise(operand, prefix, files)
        case Literal(value, _):
            return constant(value is False)
        case _:
            return _may_hold("=", predicate, Literal(False, BOOLEAN), files)


def _may_be_null(expression: Expression, files: FileRanges) -> Datum:
    match expression:
        case And(operands):
            # TRUE and NULL give NULL, FALSE and NULL give FALSE.
            somewhere = reduce(pc.or_, [_may_be_null(o, files) for o in operands])
            not_false = [pc.or_(_may_be_true(o, files), _may_be_null(o, files)) for o in operands]
            return reduce(pc.and_, not_false, somewhere)
        case Or(operands):
            somewhere = reduce(pc.or_, [_may_be_null(o, files) for o in operands])
            not_true = [pc.or_(_may_be_false(o, files), _may_be_null(o, files)) for o in operands]
            return reduce(pc.and_, not_true, somewhere)
        case Not(operand):
            return _may_be_null(operand, files)
        case IsNull() | Comparison("<=>", _, _):
            return constant(False)
        case Comparison(_, left, right):
            return pc.or_(_may_be_null(left, files), _may_be_null(right, files))
        case In(operand, values):
            missing = _may_be_null(operand, files)
            if any(value.value is None for value in values):
                missing = pc.or_(missing, _may_be_outside(operand, _known(values), files))
            return missing
        case StartsWith(operand, _):
            return _may_be_null(operand, files)
        case _:
            return _range(expression, files).may_be_null()


def _may_have_value(expression: Expression, files: FileRanges) -> Datum:
    match expression:
        case Column() | Literal():
            return _range(expression, files).may_have_value()
        case _:
            return pc.or_(_may_be_true(expression, files), _may_be_false(expression, files))


def _may_hold(op: str, left: Expression, right: Expression, files: FileRanges) -> Datum:
    """Whether two values of one row, neither null, may compare so."""
    one, other = _range(left, files), _range(right, files)
    possible = pc.and_(one.may_have_value(), other.may_have_value())
    common = comparison_type(one.data_type, other.data_type)
    if common is None or pa.types.is_null(common):
        return possible
    if isinstance(left, Column) and isinstance(right, Column) and left.path == right.path:
        return possible if op in ("=", "<=", ">=") else constant(False)
    if op == "=" and (_is_off_scale(left, other) or _is_off_scale(right, one)):
        return constant(False)
    match op:
        case "=":
            fits = pc.and_kleene(
                compare("<=", one.lower(common), other.upper(common)),
                compare(">=", one.upper(common), other.lower(common)),
            )
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
    return pc.and_(possible, pc.fill_null(fits, True))


def _is_off_scale(expression: Expression, other: Range) -> bool:
    """A constant with more decimals than the other side's type has."""
    if not isinstance(expression, Literal) or not isinstance(expression.value, Decimal):
        return False
    scale = other.data_type.scale if isinstance(other.data_type, DecimalType) else 0
    if not isinstance(other.data_type, DecimalType) and other.data_type not in _INTEGERS:
        return False
    exponent = expression.value.normalize(_EXACT).as_tuple().exponent
    return isinstance(exponent, int) and -exponent > scale


_EXACT = Context(prec=100)
_INTEGERS = (BYTE, SHORT, INTEGER, LONG)


class _ConditionRange(Range):
    """A condition as a value, such as `(x > 2) <=> NULL`."""

    def __init__(self, condition: Expression, files: FileRanges) -> None:
        super().__init__(BOOLEAN)
        self._condition = condition
        self._files = files

    def lower(self, arrow_type: pa.DataType) -> Datum:
        return pc.cast(pc.invert(_may_be_false(self._condition, self._files)), arrow_type)

    def upper(self, arrow_type: pa.DataType) -> Datum:
        return pc.cast(_may_be_true(self._condition, self._files), arrow_type)

    def may_be_null(self) -> Datum:
        return _may_be_null(self._condition, self._files)

    def may_have_value(self) -> Datum:
        return _may_have_value(self._condition, self._files)


def _range(expression: Expression, files: FileRanges) -> Range:
    if isinstance(expression, Column | Literal):
        return files.range(expression)
    return _ConditionRange(expression, files)


def _may_be_in(operand: Expression, values: tuple[Literal, ...], files: FileRanges) -> Datum:
    known = _known(values)
    if not known:
        return constant(False)
    checks = [
        pc.and_(_may_hold(">=", operand, low, files), _may_hold("<=", operand, high, files))
        for low, high in _runs(known)
    ]
    return reduce(pc.or_, checks)


def _may_be_outside(operand: Expression, values: tuple[Literal, ...], files: FileRanges) -> Datum:
    if any(value.value is None for value in values):
        return constant(False)  # no match and a NULL in the list: NULL
    others = _range(operand, files).may_have_value()
    if len(values) > _MAX_POINTS:
        return others
    return reduce(pc.and_, [_may_hold("<>", operand, v, files) for v in values], others)


def _may_start_with(operand: Expression, prefix: str, files: FileRanges) -> Datum:
    texts = _range(operand, files)
    kind = pa.string()
    # Strings with a prefix are an interval of the order by bytes.
    lower, upper = texts.lower(kind), texts.upper(kind)
    begins = pc.or_kleene(
        compare("<=", lower, pa.scalar(prefix, kind)), pc.starts_with(lower, prefix)
    )
    fits = pc.and_kleene(begins, compare(">=", upper, pa.scalar(prefix, kind)))
    return pc.and_(texts.may_have_value(), pc.fill_null(fits, True))


def _may_start_otherwise(operand: Expression, prefix: str, files: FileRanges) -> Datum:
    texts = _range(operand, files)
    kind = pa.string()
    within = pc.and_kleene(
        pc.starts_with(texts.lower(kind), prefix), pc.starts_with(texts.upper(kind), prefix)
    )
    return pc.and_(texts.may_have_value(), pc.invert(pc.fill_null(within, False)))


_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _known(values: tuple[Literal, ...]) -> tuple[Literal, ...]:
    return tuple(value for value in values if value.value is not None)


def _runs(values: tuple[Literal, ...]) -> Iterator[tuple[Literal, Literal]]:
    """Least and greatest of runs of neighbours: one value each, more where there are many."""
    try:
        ordered = sorted(values, key=lambda literal: _order(literal.value))
    except TypeError:  # of different kinds
        ordered = list(values)
        length = 1
    else:
        length = -(-len(ordered) // _MAX_POINTS)
    for start in range(0, len(ordered), length):
        run = ordered[start : start + length]
        yield run[0], run[-1]


def _order(value: object) -> Any:
    """Sort key in Spark's order: NaN is above all."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124  # NaN
        return (1, 0)
    if isinstance(value, str):
        return (0, value.encode())
    return (0, value)


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    if isinstance(predicate, And):
        for operand in predicate.operands:
            yield from _conjuncts(operand)
    else:
        yield predicate
