"""Ranges of a column's values in each file, from statistics and partition values.

Statistics are defined in PROTOCOL.md, Per-file Statistics; comments in this module explain where
writers deviate from it. A bound or count that is missing or unusable is null, which means unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Context, Decimal
from functools import reduce
from typing import Any

import pyarrow as pa

from bayou.kernel.arrow.arrays import to_array, to_scalar
from bayou.kernel.arrow.compute import Datum, pc
from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.literals import arrow_scalar
from bayou.kernel.expressions.model import Column, Expression, Literal
from bayou.kernel.expressions.resolution import field_at, type_of
from bayou.kernel.scan.data_skipping.stored_bounds import (
    add_millisecond,
    cast_bounds,
    drop_truncated_strings,
    has_null_count,
    parse_times,
    stored_type,
    widen_decimal_bounds,
    widen_float_bounds,
)
from bayou.protocol.schema import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    StructField,
    StructType,
)
from bayou.protocol.type_widening import is_widened_from_float

_DOUBLE_DIGITS = 15  # maximum number of digits of a decimal that a double represents exactly


def constant(value: bool) -> Datum:
    """Return `value` as a boolean scalar, which is the result for all files."""
    return to_scalar(value, pa.bool_())


class Range:
    """The range of an expression's values in each file. In this base class, it is unknown."""

    def __init__(self, data_type: DataType) -> None:
        self.data_type = data_type

    def lower(self, arrow_type: pa.DataType) -> Datum:
        """Return a lower bound of the values in each file; null if unknown."""
        return to_scalar(None, arrow_type)

    def upper(self, arrow_type: pa.DataType) -> Datum:
        """Return an upper bound of the values in each file; null if unknown."""
        return to_scalar(None, arrow_type)

    def may_be_null(self) -> Datum:
        """For each file, return whether the file may contain a null; true if unknown."""
        return constant(True)

    def may_have_value(self) -> Datum:
        """For each file, return whether the file may contain a non-null value; true if unknown."""
        return constant(True)

    def may_contain(self, value: Datum, arrow_type: pa.DataType) -> Datum:
        """For each file, return whether the file may contain `value`; true if unknown.

        This method needn't compare `value` with the bounds of the file: the caller does that.
        """
        return constant(True)


class _ConstantRange(Range):
    def __init__(self, literal: Literal, data_type: DataType) -> None:
        super().__init__(data_type)
        self._literal = literal

    def lower(self, arrow_type: pa.DataType) -> Datum:
        return arrow_scalar(self._literal, arrow_type)

    def upper(self, arrow_type: pa.DataType) -> Datum:
        return arrow_scalar(self._literal, arrow_type)

    def may_be_null(self) -> Datum:
        return constant(self._literal.value is None)

    def may_have_value(self) -> Datum:
        return constant(self._literal.value is not None)


class _PartitionRange(Range):
    """The range of an expression over partition columns; the expression has one value per file."""

    def __init__(self, data_type: DataType, values: Datum, known: Datum | None = None) -> None:
        super().__init__(data_type)
        self._values = values
        self._unknown = constant(False) if known is None else pc.invert(known)

    def lower(self, arrow_type: pa.DataType) -> Datum:
        return cast_bounds(self._values, arrow_type)

    def upper(self, arrow_type: pa.DataType) -> Datum:
        return cast_bounds(self._values, arrow_type)

    def may_be_null(self) -> Datum:
        return pc.or_(pc.is_null(self._values), self._unknown)

    def may_have_value(self) -> Datum:
        return pc.or_(pc.is_valid(self._values), self._unknown)


class _ColumnRange(Range):
    """The range of a column with statistics."""

    def __init__(self, path: tuple[str, ...], field: StructField, files: FileRanges) -> None:
        super().__init__(field.data_type)
        self._path = path
        self._field = field
        self._files = files

    def lower(self, arrow_type: pa.DataType) -> Datum:
        return self._bound("minValues", arrow_type)

    def upper(self, arrow_type: pa.DataType) -> Datum:
        return self._bound("maxValues", arrow_type)

    def may_be_null(self) -> Datum:
        count = self._files.statistic(("nullCount", *self._path), pa.int64())
        return pc.fill_null(pc.not_equal(count, 0), True)

    def may_have_value(self) -> Datum:
        # Without tight bounds, a null count is reliable only if it is 0 or numRecords.
        count = self._files.statistic(("nullCount", *self._path), pa.int64())
        rows = self._files.statistic(("numRecords",), pa.int64())
        return pc.fill_null(pc.not_equal(count, rows), True)

    def may_contain(self, value: Datum, arrow_type: pa.DataType) -> Datum:
        """For each file, return whether the file may contain `value`; true if unknown.

        A file with at most two non-null values contains only its minimum and its maximum. For such
        a file, the result is whether `value` may equal one of them. For a file with more values,
        the result is true. The caller compares `value` with the bounds in any case.

        Only float and double columns are checked. For these columns, the bounds alone often exclude
        few values: the maximum is often NaN, which is the largest value.
        """
        if self.data_type not in (FLOAT, DOUBLE) or not pa.types.is_floating(arrow_type):
            return constant(True)
        nulls = self._files.statistic(("nullCount", *self._path), pa.int64())
        rows = self._files.statistic(("numRecords",), pa.int64())
        tight = pc.fill_null(self._files.statistic(("tightBounds",), pa.bool_()), True)
        few = pc.and_(pc.fill_null(pc.less_equal(pc.subtract(rows, nulls), 2), False), tight)
        matches_bound = [
            pc.and_kleene(
                pc.greater_equal(value, self._bound(side, arrow_type, upper=False)),
                pc.less_equal(value, self._bound(side, arrow_type, upper=True)),
            )
            for side in ("minValues", "maxValues")
        ]
        # Bounds don't show whether a file contains NaN, because writers treat NaN differently.
        unknown = pc.or_(pc.invert(few), pc.is_nan(value))
        return pc.or_(unknown, pc.fill_null(pc.or_kleene(*matches_bound), True))

    def _bound(self, side: str, arrow_type: pa.DataType, *, upper: bool | None = None) -> Datum:
        """Return a bound of each file that is safe to compare with.

        Writers may round or truncate a bound, so the exact minimum or maximum is only known to lie
        in an interval. The result is one end of this interval.

        Args:
            side: `minValues` or `maxValues`.
            upper: True for the upper end of the interval, False for the lower end. If None, the
                lower end is returned for `minValues`, and the upper end for `maxValues`.
        """
        stored = stored_type(self.data_type)
        if stored is None:
            return to_scalar(None, arrow_type)
        values = self._files.statistic((side, *self._path), stored)
        upper = side == "maxValues" if upper is None else upper
        if self.data_type == FLOAT:
            # In JSON, a float has its shortest representation: 0.1 stands for 0.10000000149.
            values = cast_bounds(cast_bounds(values, pa.float32()), pa.float64())
        if is_widened_from_float(self._field):
            exact = self._files.exact_doubles
            wide = widen_float_bounds(values, upper=upper)
            values = wide if exact is None else pc.if_else(exact, values, wide)
        if isinstance(self.data_type, DecimalType) and self.data_type.precision > _DOUBLE_DIGITS:
            values = widen_decimal_bounds(values, self.data_type, upper=upper)
        if pa.types.is_floating(values.type) and side == "minValues":
            values = self._usable_minimum(values)
        if self.data_type == STRING:
            values = drop_truncated_strings(values)
        if self.data_type == DATE:
            values = parse_times(values, pa.date32())
        if self.data_type in (TIMESTAMP, TIMESTAMP_NTZ):
            values = parse_times(values, to_arrow_type(self.data_type))
            if upper:
                values = add_millisecond(values)
        return cast_bounds(values, arrow_type)

    def _usable_minimum(self, values: Datum) -> Datum:
        """Replace a minimum of NaN by null, unless the file's maximum is also NaN."""
        if isinstance(values, pa.Scalar):
            return values
        maxima = self._files.statistic(("maxValues", *self._path), pa.float64())
        unusable = pc.and_kleene(
            pc.is_nan(values), pc.invert(pc.fill_null(pc.is_nan(maxima), False))
        )
        return pc.if_else(unusable, to_scalar(None, values.type), values)


class _StructRange(Range):
    """The range of a struct.

    The range has no bounds, because statistics have bounds of leaves only.
    The struct may be null only if all its leaves may be null.
    """

    def __init__(self, leaves: Sequence[Range], data_type: DataType) -> None:
        super().__init__(data_type)
        self._leaves = leaves

    def may_be_null(self) -> Datum:
        return reduce(pc.and_, [leaf.may_be_null() for leaf in self._leaves], constant(True))


class FileRanges:
    """The ranges of columns and literals in each of several files.

    Args:
        partition_values: values of each partition column, one per file.
        stats: statistics of the files, one row per file; None if they are unknown.
        exact_doubles: mask of the files that were written after the last change of a column from
            float to double; None if unknown.
    """

    def __init__(
        self,
        schema: StructType,
        partition_columns: frozenset[str],
        partition_values: Mapping[str, pa.Array[Any]],
        stats: pa.RecordBatch | None,
        *,
        exact_doubles: pa.BooleanArray | None = None,
    ) -> None:
        self._schema = schema
        self._exact_doubles = exact_doubles
        self._partition_columns = partition_columns
        self._partition_values = partition_values
        self._stats = stats

    def range(self, expression: Expression) -> Range:
        """Return the range of a column or a literal. Other expressions have an unknown range."""
        match expression:
            case Column(path):
                field = field_at(path, self._schema)
                if path[0] in self._partition_columns:
                    return _PartitionRange(field.data_type, self._partition_values[path[0]])
                return self._column(path, field)
            case Literal():
                return _ConstantRange(expression, type_of(expression, self._schema))
            case _:
                return Range(BOOLEAN)

    @property
    def schema(self) -> StructType:
        """Schema of the table."""
        return self._schema

    @property
    def partition_values(self) -> Mapping[str, pa.Array[Any]]:
        """Values of partition columns, one per file."""
        return self._partition_values

    @property
    def exact_doubles(self) -> pa.BooleanArray | None:
        """Mask of the files written after the last change of a column from float to double.

        The bounds of widened double columns are exact only in these files.
        """
        return self._exact_doubles

    def of_partition(self, data_type: DataType, values: Datum, known: Datum) -> Range:
        """Return the range of an expression over partition columns.

        Args:
            values: the expression's value in each file.
            known: mask of the files for which `values` could be computed.
        """
        return _PartitionRange(data_type, values, known)

    def statistic(self, path: tuple[str, ...], arrow_type: pa.DataType) -> Datum:
        """Return a statistic of each file; null if it is unknown.

        Args:
            path: path of the statistic in `add.stats`, such as `("minValues", "id")`.
            arrow_type: type of the result.
        """
        if self._stats is None:
            return to_scalar(None, arrow_type)
        values: Datum = self._stats.column(path[0])
        for name in path[1:]:
            values = pc.struct_field(values, name)
        return values

    def _column(self, path: tuple[str, ...], field: StructField) -> Range:
        if isinstance(field.data_type, StructType):
            leaves = [self._column((*path, leaf.name), leaf) for leaf in field.data_type]
            return _StructRange(leaves, field.data_type)
        if has_null_count(field.data_type):
            return _ColumnRange(path, field, self)
        return Range(field.data_type)


class StatisticsRecorder(FileRanges):
    """A `FileRanges` without files. It records the statistics that a predicate needs."""

    def __init__(self, schema: StructType, partition_columns: frozenset[str]) -> None:
        empty = {
            field.name: to_array([], to_arrow_type(field.data_type))
            for field in schema
            if field.name in partition_columns
        }
        super().__init__(schema, partition_columns, empty, None)
        self._requested: dict[tuple[str, ...], pa.DataType] = {}

    def statistic(self, path: tuple[str, ...], arrow_type: pa.DataType) -> Datum:
        self._requested[path] = arrow_type
        return to_array([], arrow_type)

    def stats_schema(self) -> pa.Schema | None:
        """Return the schema of the recorded statistics; None if there are none."""
        if not self._requested:
            return None
        tree: dict[str, Any] = {}
        for path in sorted(self._requested, key=_stats_order):
            node = tree
            for name in path[:-1]:
                node = node.setdefault(name, {})
            node[path[-1]] = self._requested[path]
        return pa.schema([pa.field(name, _node_type(node)) for name, node in tree.items()])


def _stats_order(path: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    kinds = ("numRecords", "nullCount", "minValues", "maxValues", "tightBounds")
    return kinds.index(path[0]), path


def _node_type(node: Any) -> pa.DataType:
    if isinstance(node, dict):
        return pa.struct([pa.field(name, _node_type(child)) for name, child in node.items()])
    assert isinstance(node, pa.DataType)
    return node


MAX_POINTS = 64
_EXACT = Context(prec=100)
_INTEGERS = (BYTE, SHORT, INTEGER, LONG)


def is_off_scale(expression: Expression, other: Range) -> bool:
    """Whether `expression` is a decimal literal that the other operand can't equal.

    This is the case if the literal has more decimal places than the type of the other operand, and
    this type is a decimal or an integer.

    Args:
        other: range of the other operand.
    """
    if not isinstance(expression, Literal) or not isinstance(expression.value, Decimal):
        return False
    scale = other.data_type.scale if isinstance(other.data_type, DecimalType) else 0
    if not isinstance(other.data_type, DecimalType) and other.data_type not in _INTEGERS:
        return False
    exponent = expression.value.normalize(_EXACT).as_tuple().exponent
    return isinstance(exponent, int) and -exponent > scale


def non_null_values(values: tuple[Literal, ...]) -> tuple[Literal, ...]:
    """Return the literals that aren't NULL."""
    return tuple(value for value in values if value.value is not None)


def runs(values: tuple[Literal, ...]) -> Iterator[tuple[Literal, Literal]]:
    """Sort the values, and divide them into at most `MAX_POINTS` groups of neighboring values.

    Yields the smallest and the largest value of each group. If the values can't be sorted, each
    value is a group, and the number of groups isn't limited.
    """
    try:
        ordered = sorted(values, key=lambda literal: _order(literal.value))
    except TypeError:  # the values aren't comparable
        ordered = list(values)
        length = 1
    else:
        length = max(1, -(-len(ordered) // MAX_POINTS))
    for start in range(0, len(ordered), length):
        run = ordered[start : start + length]
        yield run[0], run[-1]


def _order(value: object) -> Any:
    """Return a sort key. As in Spark, NaN is the largest value."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124  # NaN
        return (1, 0)
    if isinstance(value, str):
        return (0, value.encode())
    return (0, value)
