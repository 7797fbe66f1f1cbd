"""Predicates on target rows for a DELETE, UPDATE or MERGE that Spark evaluates.

If only Spark can evaluate a condition, the kernel may still support some of its conjuncts. The
kernel uses these conjuncts to prune files and to check for conflicts with concurrent commits. The
minimum and maximum join keys of a large MERGE source are computed while Spark reads the source. The
kernel uses them only for the conflict check, because the files have already been pruned.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
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
from bayou.kernel.expressions.model import (
    And,
    Column,
    Comparison,
    In,
    Literal,
    Or,
    Predicate,
    conjunction,
)
from bayou.kernel.expressions.resolution import map_columns, resolve
from bayou.protocol.schema import BYTE, DATE, INTEGER, LONG, SHORT, STRING, StructField, StructType
from bayou.protocol.sql import quote_identifier
from bayou.spark.commands.merge_request import MergeRequest
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.kernel_eligibility import KernelExpressions
from bayou.spark.expressions.session_semantics import matches_session, session_matches_kernel
from bayou.spark.target_table import TargetTable

_MAX_IN_VALUES = 100
"""Maximum length of an IN list in a Spark plan, which contains several copies of the list."""
_COMPARABLE_TYPES = (BYTE, SHORT, INTEGER, LONG, STRING, DATE)
"""Types whose values Python, Spark and the kernel compare in the same way in every session."""


def kernel_predicate(
    target: TargetTable, snapshot: Snapshot, condition: RowExpression | None
) -> Predicate | None:
    """Return the AND of the conjuncts of `condition` that the kernel can evaluate.

    Returns None if the kernel can evaluate no conjunct.
    """
    view = target.view
    if condition is None or (view is not None and not view.keeps_names):
        return None
    kernel = KernelExpressions(target, snapshot.schema)
    predicates: list[Predicate] = []
    for part in _kernel_conjuncts(target.spark, condition, [snapshot.schema]):
        try:
            predicates.append(resolve(map_columns(part, kernel.without_alias), snapshot.schema))
        except PredicateError:
            continue
    return conjunction(predicates)


class TargetRowPredicates:
    """Creates predicates that are true for all target rows that a merge may match or change."""

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
                self._by_source.append(conjunction(parts))

    @property
    def bounded_columns(self) -> tuple[str, ...]:
        """Names of the source columns that the join condition compares with target columns."""
        return self._rows.bounded_columns

    def from_keys(self, source: Any) -> Predicate | None:
        """Derive a predicate from the merge's conditions and the join keys in `source`.

        Returns None if no target row can be excluded.

        Args:
            source: a DataFrame with the source rows. If None, only the conditions are used.
        """
        keys = None
        if source is not None and self._rows.key_columns:
            values = source.select(*map(quote_identifier, self._rows.key_columns)).toArrow()
            keys = MergeSource.read(values.schema, values.to_batches())
        return self._rows.predicate(keys, self._partitions, self._by_source)

    def from_bounds(self, bounds: MergeSource) -> Predicate | None:
        """Derive a predicate from the merge's conditions and from the bounds of the join keys.

        Returns None if no target row can be excluded.

        Args:
            bounds: the result of `SourceBounds.rows`.
        """
        return self._rows.predicate(bounds, self._partitions, self._by_source, bounds_only=True)


def spark_filter(predicate: Predicate | None) -> Any:
    """Convert a predicate on target rows to a Spark Column; None if it can't be converted.

    Operands of AND that can't be converted are omitted. The Column may therefore be true for more
    rows than the predicate.
    """
    match predicate:
        case And(operands):
            parts = [part for o in operands if (part := spark_filter(o)) is not None]
            return functools.reduce(operator.and_, parts) if parts else None
        case Or(operands):
            parts = [spark_filter(o) for o in operands]
            if any(part is None for part in parts):
                return None
            return functools.reduce(operator.or_, parts)
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


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def _kernel_conjuncts(
    spark: Any, condition: RowExpression, schemas: Sequence[StructType]
) -> list[Predicate]:
    """Return the conjuncts of `condition` that the kernel and the session evaluate alike."""
    parts = condition.conjuncts
    if session_matches_kernel(spark, schemas):
        return [part for part in parts if inexact_function(part) is None]
    return [part for part in parts if matches_session(spark, part, schemas)]


def _comparable(values: Sequence[Literal]) -> bool:
    return all(value.value is not None and value.data_type in _COMPARABLE_TYPES for value in values)


def _column(path: tuple[str, ...]) -> Any:
    return F.col(".".join(map(quote_identifier, path)))


_INTEGER_TYPES = (BYTE, SHORT, INTEGER, LONG)
_AGGREGATES_PER_COLUMN = 3


class SourceBounds:
    """The minimum and maximum of each source column, and whether the column contains NULL.

    Only integer, string and date columns are supported; other columns are ignored.
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
        """Return a `MergeSource` of three rows that represents the bounds of the source.

        The first row contains the minimum of each column, and the second row the maximum. The third
        row contains NULL for each column that contains NULL, and the minimum for every other
        column.

        Args:
            computed: the values of the Columns that `aggregates` returns.
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
