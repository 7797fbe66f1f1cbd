"""Predicates over the target rows that a Spark plan reads, for file pruning and conflict checks.

A condition that only Spark can evaluate may have conjuncts that the kernel supports. The kernel
prunes files with these conjuncts, and the conflict checker learns from them which rows were read.
The minimum and maximum keys of a large source are computed while Spark reads the source. This is
too late to prune files, but in time for the conflict checker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # conventional name

from bayou.errors import PredicateError
from bayou.kernel import Snapshot
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.commands.merge import MergeSource
from bayou.kernel.commands.merge.clauses import JoinedColumns
from bayou.kernel.commands.merge.target_rows import TargetRows
from bayou.kernel.expressions.functions import inexact_function
from bayou.kernel.expressions.model import And, Column, Comparison, In, Literal, Or, Predicate
from bayou.kernel.expressions.resolution import map_columns, resolve
from bayou.protocol.schema import BYTE, DATE, INTEGER, LONG, SHORT, STRING, StructField, StructType
from bayou.protocol.sql import quote_identifier
from bayou.spark.commands.merge_request import MergeRequest
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.session_semantics import matches_session, session_matches_kernel
from bayou.spark.target import TargetTable

_MAX_IN_VALUES = 100
"""Maximum length of an IN list that is passed to Spark, whose plans repeat the list."""
_COMPARABLE_TYPES = (BYTE, SHORT, INTEGER, LONG, STRING, DATE)
"""Types that Python, Spark and the kernel compare alike in every session."""


def kernel_predicate(
    target: TargetTable, snapshot: Snapshot, condition: RowExpression | None
) -> Predicate | None:
    """Return the AND of the conjuncts that the kernel supports; None if it supports none."""
    if condition is None:
        return None
    alias = target.alias
    predicates: list[Predicate] = []

    def without_alias(path: tuple[str, ...]) -> tuple[str, ...]:
        qualified = alias is not None and len(path) > 1 and path[0].lower() == alias.lower()
        return path[1:] if qualified and snapshot.schema.get(path[1]) is not None else path

    for part in _kernel_conjuncts(target.spark, condition, [snapshot.schema]):
        try:
            predicates.append(resolve(map_columns(part, without_alias), snapshot.schema))
        except PredicateError:
            continue
    if len(predicates) < 2:
        return predicates[0] if predicates else None
    return And(tuple(predicates))


class TargetRowPredicates:
    """Predicates that are true for every target row that a merge may match or change."""

    def __init__(
        self, target: TargetTable, snapshot: Snapshot, names: JoinedColumns, request: MergeRequest
    ) -> None:
        spark, schemas = target.spark, [names.target, names.source]
        self._rows = TargetRows(names, _kernel_conjuncts(spark, request.on, schemas))
        self._partitions = snapshot.partition_columns
        self._by_source: list[Predicate | None] = []
        for clause in request.clauses:
            if clause.kind == "NOT MATCHED BY SOURCE":
                condition = clause.condition
                parts = [] if condition is None else _kernel_conjuncts(spark, condition, schemas)
                self._by_source.append(
                    And(tuple(parts)) if len(parts) > 1 else next(iter(parts), None)
                )

    @property
    def bounded_columns(self) -> tuple[str, ...]:
        """Source columns that are join keys; matching target keys are within their bounds."""
        return self._rows.bounded_columns

    def from_keys(self, source: Any) -> Predicate | None:
        """Return the predicate for the keys in `source`; None if every target row may match."""
        keys = None
        if source is not None and self._rows.key_columns:
            values = source.select(*map(quote_identifier, self._rows.key_columns)).toArrow()
            keys = MergeSource.read(values.schema, values.to_batches())
        return self._rows.predicate(keys, self._partitions, self._by_source)

    def from_bounds(self, bounds: MergeSource) -> Predicate | None:
        """Return the predicate for `SourceBounds.rows`; None if every target row may match."""
        return self._rows.predicate(bounds, self._partitions, self._by_source, bounds_only=True)


def spark_filter(predicate: Predicate | None) -> Any:
    """Convert a predicate over a table's columns to a Column; None if nothing can be converted.

    The Column may match more rows than the predicate: its purpose is to read fewer files.
    """
    match predicate:
        case And(operands):
            parts = [part for o in operands if (part := spark_filter(o)) is not None]
            return _combined(parts, lambda one, two: one & two)
        case Or(operands):
            parts = [spark_filter(o) for o in operands]
            if any(part is None for part in parts):
                return None
            return _combined(parts, lambda one, two: one | two)
        case In(Column(path), values) if len(values) <= _MAX_IN_VALUES and _comparable(values):
            return _column(path).isin([value.value for value in values])
        case Comparison(op, Column(path), Literal() as value) if op in _OPERATORS and _comparable(
            [value]
        ):
            return _OPERATORS[op](_column(path), value.value)
        case Literal(False):
            return F.lit(False)
        case _:
            return None


_OPERATORS = {
    "=": lambda column, value: column == value,
    ">=": lambda column, value: column >= value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    "<": lambda column, value: column < value,
}


def _kernel_conjuncts(
    spark: Any, condition: RowExpression, schemas: Sequence[StructType]
) -> list[Predicate]:
    """Return the conjuncts for which the kernel and the Spark session give the same result."""
    parts = condition.conjuncts
    if session_matches_kernel(spark, schemas):
        return [part for part in parts if inexact_function(part) is None]
    return [part for part in parts if matches_session(spark, part, schemas)]


def _comparable(values: Sequence[Literal]) -> bool:
    return all(value.value is not None and value.data_type in _COMPARABLE_TYPES for value in values)


def _column(path: tuple[str, ...]) -> Any:
    return F.col(".".join(map(quote_identifier, path)))


def _combined(parts: Sequence[Any], operator: Any) -> Any:
    result = None
    for part in parts:
        result = part if result is None else operator(result, part)
    return result


_INTEGER_TYPES = (BYTE, SHORT, INTEGER, LONG)
_AGGREGATES_PER_COLUMN = 3


class SourceBounds:
    """Minimum and maximum of source columns, and whether they contain NULL.

    Columns that aren't integers, strings or dates are ignored.
    """

    def __init__(self, source: StructType, names: Sequence[str]) -> None:
        fields = [field for field in source if field.name in names]
        self.columns = StructType(
            tuple(f for f in fields if f.data_type in (*_INTEGER_TYPES, STRING, DATE))
        )

    def aggregates(self) -> list[Any]:
        columns = []
        for number, field in enumerate(self.columns):
            column = F.col(quote_identifier(field.name))
            value = _as_number(field, column)
            columns += [
                F.min(value).alias(f"minimum{number}"),
                F.max(value).alias(f"maximum{number}"),
                F.count(F.when(column.isNull(), 1)).alias(f"nulls{number}"),
            ]
        return columns

    def rows(self, computed: Sequence[Any]) -> MergeSource:
        """Create three source rows that stand for all rows of the source.

        The first has each column's minimum, the second its maximum. The third has NULL for columns
        that contain NULL, and the minimum for other columns.

        Args:
            computed: results of `aggregates`.
        """
        schema = to_arrow_schema(self.columns)
        arrays = []
        for number, (field, arrow) in enumerate(zip(self.columns, schema, strict=True)):
            first = number * _AGGREGATES_PER_COLUMN
            minimum, maximum, nulls = computed[first : first + _AGGREGATES_PER_COLUMN]
            values = [minimum, maximum, None if nulls else minimum]
            is_date = field.data_type == DATE
            array: Any = pa.array(values, pa.int32() if is_date else arrow.type)
            arrays.append(array.cast(arrow.type))
        return MergeSource(
            schema=self.columns, rows=pa.RecordBatch.from_arrays(arrays, schema=schema)
        )


def _as_number(field: StructField, column: Any) -> Any:
    """Convert an integer or date column to a long; a string column stays unchanged."""
    if field.data_type == DATE:
        return F.unix_date(column)
    return column if field.data_type == STRING else column.cast("bigint")
