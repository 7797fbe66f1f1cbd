"""What is known of the target's rows that a plan of Spark looks for.

A condition that only Spark can evaluate may have parts that the kernel understands. They prune
files, and tell the conflict rules what was looked for.

Bounds of a large source's keys, computed while a plan of Spark reads it.

They come too late to prune files, and in time for the conflict rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from bayou.errors import PredicateError
from bayou.kernel import Snapshot
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.commands.merge import MergeSource
from bayou.kernel.commands.merge.clauses import SOURCE, TARGET, JoinedNames
from bayou.kernel.commands.merge.target_rows import TargetRows
from bayou.kernel.expressions.evaluation import resolve
from bayou.kernel.expressions.model import And, Column, Comparison, In, Literal, Or, Predicate
from bayou.kernel.expressions.resolution import with_paths
from bayou.protocol.schema import BYTE, DATE, INTEGER, LONG, SHORT, STRING, StructField, StructType
from bayou.spark.commands.merge_request import MergeRequest
from bayou.spark.expressions.assigned_columns import quoted
from bayou.spark.expressions.expressions import RowExpression
from bayou.spark.expressions.session_semantics import is_plain_session, means_the_same
from bayou.spark.target import TargetTable

__all__ = ["MergedRows", "SourceBounds", "known_part", "spark_filter"]


_MOST_VALUES = 100
"""More than so many in a list aren't handed to Spark: it would spell them out again and again."""
_COMPARED = (BYTE, SHORT, INTEGER, LONG, STRING, DATE)
"""Types whose values are the same to Python, Spark and the kernel, whatever the session."""


def known_part(
    target: TargetTable, snapshot: Snapshot, condition: RowExpression | None
) -> Predicate | None:
    """What the kernel understands of a condition over a table's rows; None for nothing."""
    if condition is None:
        return None
    alias = target.alias
    known: list[Predicate] = []

    def own(path: tuple[str, ...]) -> tuple[str, ...]:
        named = alias is not None and len(path) > 1 and path[0].lower() == alias.lower()
        return path[1:] if named and snapshot.schema.get(path[1]) is not None else path

    for part in _meant(target.spark, condition, [snapshot.schema]):
        try:
            known.append(resolve(with_paths(part, own), snapshot.schema))
        except PredicateError:
            continue
    if len(known) < 2:
        return known[0] if known else None
    return And(tuple(known))


class MergedRows:
    """What is known of each target row that a merge may match or change.

    Args:
        columns: the source's.
    """

    def __init__(
        self, target: TargetTable, snapshot: Snapshot, columns: StructType, request: MergeRequest
    ) -> None:
        spark, schemas = target.spark, [snapshot.schema, columns]
        names = JoinedNames(
            target=snapshot.schema,
            source=columns,
            target_alias=request.target_alias or TARGET,
            source_alias=request.source_alias or SOURCE,
        )
        self._rows = TargetRows(names, _meant(spark, request.on, schemas))
        self._partitions = snapshot.partition_columns
        self._by_source: list[Predicate | None] = []
        for clause in request.clauses:
            if clause.kind == "NOT MATCHED BY SOURCE":
                parts = [] if clause.condition is None else _meant(spark, clause.condition, schemas)
                self._by_source.append(
                    And(tuple(parts)) if len(parts) > 1 else next(iter(parts), None)
                )

    @property
    def bounded_columns(self) -> tuple[str, ...]:
        """See `TargetRows.bounded_columns`."""
        return self._rows.bounded_columns

    def by_rows(self, source: Any) -> Predicate | None:
        """What is true of each of them; None for all rows.

        Args:
            source: its rows, which are small and stay as they are; None for large ones.
        """
        keys = None
        if source is not None and self._rows.key_columns:
            wanted = source.select(*(quoted(name) for name in self._rows.key_columns)).toArrow()
            keys = MergeSource.read(wanted.schema, wanted.to_batches())
        return self._rows.predicate(keys, self._partitions, self._by_source)

    def by_bounds(self, bounds: MergeSource) -> Predicate | None:
        """The same, told from the bounds of keys; see `TargetRows.predicate`."""
        return self._rows.predicate(bounds, self._partitions, self._by_source, bounds_only=True)


def spark_filter(predicate: Predicate | None) -> Any:
    """A predicate over a table's columns, or what follows from it, as a Column; None for nothing.

    It need not tell as much as the predicate: it is there to read less.
    """
    match predicate:
        case And(operands):
            parts = [part for o in operands if (part := spark_filter(o)) is not None]
            return _joined(parts, lambda one, two: one & two)
        case Or(operands):
            parts = [spark_filter(o) for o in operands]
            if any(part is None for part in parts):
                return None
            return _joined(parts, lambda one, two: one | two)
        case In(Column(path), values) if len(values) <= _MOST_VALUES and _plain(values):
            return _column(path).isin([value.value for value in values])
        case Comparison(op, Column(path), Literal() as value) if op in _OPERATORS and _plain(
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


def _meant(spark: Any, condition: RowExpression, schemas: Sequence[StructType]) -> list[Predicate]:
    """Parts of a condition that mean to the kernel what they mean in the session."""
    parts = condition.conjuncts
    if is_plain_session(spark, schemas):
        return parts
    return [part for part in parts if means_the_same(spark, part, schemas)]


def _plain(values: Sequence[Literal]) -> bool:
    return all(value.value is not None and value.data_type in _COMPARED for value in values)


def _column(path: tuple[str, ...]) -> Any:
    return F.col(".".join(map(quoted, path)))


def _joined(parts: Sequence[Any], operator: Any) -> Any:
    found = None
    for part in parts:
        found = part if found is None else operator(found, part)
    return found


_NUMBERS = (BYTE, SHORT, INTEGER, LONG)
_VALUES = 3


class SourceBounds:
    """The least and the greatest value of columns, and whether they have NULL.

    Args:
        source: the source's columns.
        names: of those that are wanted; only of numbers, texts and dates anything is computed.
    """

    def __init__(self, source: StructType, names: Sequence[str]) -> None:
        wanted = [field for field in source if field.name in names]
        self.columns = StructType(
            tuple(f for f in wanted if f.data_type in (*_NUMBERS, STRING, DATE))
        )

    def aggregates(self) -> list[Any]:
        """What is to be computed of the source's rows."""
        found = []
        for number, field in enumerate(self.columns):
            column = F.col(quoted(field.name))
            value = _comparable(field, column)
            found += [
                F.min(value).alias(f"least{number}"),
                F.max(value).alias(f"greatest{number}"),
                F.count(F.when(column.isNull(), 1)).alias(f"nulls{number}"),
            ]
        return found

    def rows(self, computed: Sequence[Any]) -> MergeSource:
        """Rows that have these bounds, and NULL where there is NULL.

        Args:
            computed: the values of `aggregates`.
        """
        schema = to_arrow_schema(self.columns)
        arrays = []
        for number, (field, arrow) in enumerate(zip(self.columns, schema, strict=True)):
            least, greatest, nulls = computed[number * _VALUES : (number + 1) * _VALUES]
            values = [least, greatest, None if nulls else least]
            days = field.data_type == DATE
            array: Any = pa.array(values, pa.int32() if days else arrow.type)
            arrays.append(array.cast(arrow.type))
        return MergeSource(
            schema=self.columns, rows=pa.RecordBatch.from_arrays(arrays, schema=schema)
        )


def _comparable(field: StructField, column: Any) -> Any:
    """A value as the JVM hands it over, in the same order."""
    if field.data_type == DATE:
        return F.unix_date(column)
    return column if field.data_type == STRING else column.cast("bigint")
