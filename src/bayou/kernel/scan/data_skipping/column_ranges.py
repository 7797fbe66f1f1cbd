"""What is known of a column's values in each file, by statistics and partition values.

Statistics mean what PROTOCOL.md, Per-file Statistics, says, and what writers make of it: each trap
has its comment here. A bound or count that is missing or can't be used is null, which says nothing.

Constants that are compared with bounds: lists as runs in order, and those off a type's scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Context, Decimal
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute

from bayou.kernel.arrow.types import to_arrow_type
from bayou.kernel.expressions.literals import arrow_scalar
from bayou.kernel.expressions.model import Column, Expression, Literal
from bayou.kernel.expressions.resolution import field_at, type_of
from bayou.kernel.scan.data_skipping.stored_bounds import (
    cast_bounds,
    has_null_count,
    one_millisecond_later,
    parsed_texts,
    stored_type,
    whole_strings,
    widened_to_double,
    widened_to_float,
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
from bayou.protocol.type_changes import was_float

__all__ = [
    "MAX_POINTS",
    "FileRanges",
    "Range",
    "StatisticsRecorder",
    "constant",
    "is_off_scale",
    "known_values",
    "runs",
]


# A pyarrow array of one value a file, or a scalar for all. pyarrow's own types don't take both
# where its functions do.
Datum: TypeAlias = Any
pc: Any = pyarrow.compute

_DOUBLE_DIGITS = 15  # decimals of so many digits go through a double unharmed


def constant(value: bool) -> Datum:
    """A boolean for all files."""
    return pa.scalar(value, pa.bool_())


class Range:
    """What is known of an expression's values in each file."""

    def __init__(self, data_type: DataType) -> None:
        self.data_type = data_type

    def lower(self, arrow_type: pa.DataType) -> Datum:
        """No value is below it; null where unknown."""
        return pa.scalar(None, arrow_type)

    def upper(self, arrow_type: pa.DataType) -> Datum:
        """No value is above it; null where unknown."""
        return pa.scalar(None, arrow_type)

    def may_be_null(self) -> Datum:
        """There may be a null."""
        return constant(True)

    def may_have_value(self) -> Datum:
        """There may be a value that isn't null."""
        return constant(True)

    def may_hold(self, value: Datum, arrow_type: pa.DataType) -> Datum:
        """A value between the bounds may be there; false where the few values are known."""
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
    """A partition column, or what is computed of such: one value for all rows of a file."""

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
    """A column with statistics."""

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
        # With wide bounds a count between 0 and numRecords means nothing; it isn't used.
        count = self._files.statistic(("nullCount", *self._path), pa.int64())
        rows = self._files.statistic(("numRecords",), pa.int64())
        return pc.fill_null(pc.not_equal(count, rows), True)

    def may_hold(self, value: Datum, arrow_type: pa.DataType) -> Datum:
        """Of floats, whose maximum is often NaN, up to two are known: they are the bounds."""
        if self.data_type not in (FLOAT, DOUBLE) or not pa.types.is_floating(arrow_type):
            return constant(True)
        nulls = self._files.statistic(("nullCount", *self._path), pa.int64())
        rows = self._files.statistic(("numRecords",), pa.int64())
        tight = pc.fill_null(self._files.statistic(("tightBounds",), pa.bool_()), True)
        few = pc.and_(pc.fill_null(pc.less_equal(pc.subtract(rows, nulls), 2), False), tight)
        among = [
            pc.and_kleene(
                pc.greater_equal(value, self._bound(side, arrow_type, upper=False)),
                pc.less_equal(value, self._bound(side, arrow_type, upper=True)),
            )
            for side in ("minValues", "maxValues")
        ]
        # Writers disagree about NaN among the bounds.
        unknown = pc.or_(pc.invert(few), pc.is_nan(value))
        return pc.or_(unknown, pc.fill_null(pc.or_kleene(*among), True))

    def _bound(self, side: str, arrow_type: pa.DataType, *, upper: bool | None = None) -> Datum:
        """A bound, or the least and greatest value that it may stand for."""
        stored = stored_type(self.data_type)
        if stored is None:
            return pa.scalar(None, arrow_type)
        values = self._files.statistic((side, *self._path), stored)
        upper = side == "maxValues" if upper is None else upper
        if self.data_type == FLOAT:
            # The text is the shortest for a float: 0.1 stands for 0.10000000149.
            values = cast_bounds(cast_bounds(values, pa.float32()), pa.float64())
        if was_float(self._field):
            exact = self._files.exact_doubles
            wide = widened_to_float(values, upper=upper)
            values = wide if exact is None else pc.if_else(exact, values, wide)
        if isinstance(self.data_type, DecimalType) and self.data_type.precision > _DOUBLE_DIGITS:
            values = widened_to_double(values, self.data_type, upper=upper)
        if pa.types.is_floating(values.type) and side == "minValues":
            values = self._usable_minimum(values)
        if self.data_type == STRING:
            values = whole_strings(values)
        if self.data_type == DATE:
            values = parsed_texts(values, pa.date32())
        if self.data_type in (TIMESTAMP, TIMESTAMP_NTZ):
            values = parsed_texts(values, to_arrow_type(self.data_type))
            if upper:
                values = one_millisecond_later(values)
        return cast_bounds(values, arrow_type)

    def _usable_minimum(self, values: Datum) -> Datum:
        """NaN as minimum says something only where the maximum is NaN too: all values are."""
        if isinstance(values, pa.Scalar):
            return values
        greatest = self._files.statistic(("maxValues", *self._path), pa.float64())
        misleading = pc.and_kleene(
            pc.is_nan(values), pc.invert(pc.fill_null(pc.is_nan(greatest), False))
        )
        return pc.if_else(misleading, pa.scalar(None, values.type), values)


class _StructRange(Range):
    """A struct has no statistics of its own, but where it is null all its leaves are."""

    def __init__(self, leaves: Sequence[Range], data_type: DataType) -> None:
        super().__init__(data_type)
        self._leaves = leaves

    def may_be_null(self) -> Datum:
        return reduce(pc.and_, [leaf.may_be_null() for leaf in self._leaves], constant(True))


class FileRanges:
    """Ranges of expressions, by the statistics and partition values of some files."""

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
        """What is known of a column or literal; of anything else nothing is."""
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
        """The table's."""
        return self._schema

    @property
    def partition_values(self) -> Mapping[str, pa.Array[Any]]:
        """One value a file."""
        return self._partition_values

    @property
    def exact_doubles(self) -> pa.BooleanArray | None:
        """Files whose doubles never were floats, see `SkippingPlan.keep`; None for none."""
        return self._exact_doubles

    def of_partition(self, data_type: DataType, values: Datum, known: Datum) -> Range:
        """The range of values computed of partition values, where they are known."""
        return _PartitionRange(data_type, values, known)

    def statistic(self, path: tuple[str, ...], arrow_type: pa.DataType) -> Datum:
        """A leaf of the statistics, null where unknown."""
        if self._stats is None:
            return pa.scalar(None, arrow_type)
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
    """No files: remembers which statistics a predicate asks for."""

    def __init__(self, schema: StructType, partition_columns: frozenset[str]) -> None:
        none = {
            field.name: pa.array([], to_arrow_type(field.data_type))
            for field in schema
            if field.name in partition_columns
        }
        super().__init__(schema, partition_columns, none, None)
        self._asked: dict[tuple[str, ...], pa.DataType] = {}

    def statistic(self, path: tuple[str, ...], arrow_type: pa.DataType) -> Datum:
        self._asked[path] = arrow_type
        return pa.array([], arrow_type)

    def stats_schema(self) -> pa.Schema | None:
        """What was asked for, as nested as the statistics are."""
        if not self._asked:
            return None
        tree: dict[str, Any] = {}
        for path in sorted(self._asked, key=_stats_order):
            node = tree
            for name in path[:-1]:
                node = node.setdefault(name, {})
            node[path[-1]] = self._asked[path]
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
    """A constant with more decimals than the other side's type has."""
    if not isinstance(expression, Literal) or not isinstance(expression.value, Decimal):
        return False
    scale = other.data_type.scale if isinstance(other.data_type, DecimalType) else 0
    if not isinstance(other.data_type, DecimalType) and other.data_type not in _INTEGERS:
        return False
    exponent = expression.value.normalize(_EXACT).as_tuple().exponent
    return isinstance(exponent, int) and -exponent > scale


def known_values(values: tuple[Literal, ...]) -> tuple[Literal, ...]:
    """Those that aren't NULL."""
    return tuple(value for value in values if value.value is not None)


def runs(values: tuple[Literal, ...]) -> Iterator[tuple[Literal, Literal]]:
    """Least and greatest of runs of neighbours: one value each, more where there are many."""
    try:
        ordered = sorted(values, key=lambda literal: _order(literal.value))
    except TypeError:  # of different kinds
        ordered = list(values)
        length = 1
    else:
        length = -(-len(ordered) // MAX_POINTS)
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
