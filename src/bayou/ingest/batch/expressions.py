"""Resolves and evaluates the SQL expressions of a topic: derived columns, filter and `route-by`.

Expressions read the fields of records, after masks are applied, and the columns in `KAFKA_INPUTS`.
A field that no record has contained yet is NULL. If an expression fails for a record, the record
becomes a dead letter, whose reason contains the expression's setting and the error.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from bayou.errors import PredicateError
from bayou.ingest.batch.failing_rows import FailingRows
from bayou.ingest.batch.masks import apply_masks
from bayou.ingest.batch.metadata_columns import HEADERS
from bayou.ingest.batch.row_layout import kafka_times
from bayou.ingest.batch.unseen_fields import UNSEEN, resolutions
from bayou.ingest.config import TopicConfig
from bayou.ingest.dead_letters.records import header_lists
from bayou.ingest.decode import Decoded
from bayou.kernel.arrow.compute import pc
from bayou.kernel.arrow.types import to_arrow_schema, to_arrow_type
from bayou.kernel.expressions.casts import can_cast
from bayou.kernel.expressions.model import Cast, Expression, Literal, referenced_columns
from bayou.kernel.expressions.resolution import type_of
from bayou.protocol.schema import (
    BINARY,
    BOOLEAN,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    VOID,
    DataType,
    StructField,
    StructType,
)
from bayou.protocol.type_widening import is_widening

KAFKA_INPUTS = StructType(
    (
        StructField(name="_kafka_topic", data_type=STRING),
        StructField(name="_kafka_partition", data_type=INTEGER),
        StructField(name="_kafka_offset", data_type=LONG),
        StructField(name="_kafka_timestamp", data_type=TIMESTAMP),
        StructField(name="_kafka_key", data_type=BINARY),
        StructField(name="_kafka_headers", data_type=HEADERS),
    )
)
"""The columns of Kafka metadata that expressions can read."""

_MAX_REASON = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExpressions:
    """The resolved expressions of a topic. Can be pickled.

    Attributes:
        columns: the derived columns, each with its expression.
        where: the condition that rows must meet; None if there is no condition.
        masks: the mask of each field path; see `apply_masks`.
        ingestion_timestamp: time in microseconds since the epoch. It is the value of
            `_kafka_timestamp` for a record batch in which no record has a Kafka timestamp.
    """

    columns: tuple[tuple[StructField, RowExpression], ...] = ()
    where: RowExpression | None = None
    masks: Mapping[str, str] = field(default_factory=dict)
    ingestion_timestamp: int = 0

    def filter(self, decoded: Decoded, source: pa.RecordBatch) -> Decoded:
        """Return the decoded records for which the condition is TRUE.

        If the condition is FALSE or NULL, the record is added to `Decoded.filtered`. If the
        evaluation fails, the record becomes a dead letter.

        Args:
            decoded: the decoded records, before masks are applied.
            source: the records, with the columns of the Kafka source.
        """
        if not len(decoded.positions):
            return decoded
        values, failures = self._condition(decoded, source)
        decoded = _refuse(decoded, failures)
        passes = pc.fill_null(values, False).filter(pc.invert(_at(failures, len(values))))
        if pc.all(passes, min_count=0).as_py():
            return decoded
        filtered = decoded.positions.filter(pc.invert(passes))
        return replace(
            decoded,
            columns=decoded.columns.filter(passes),
            positions=decoded.positions.filter(passes),
            filtered=pa.concat_arrays([decoded.filtered, filtered]),
        )

    def rejected(self, decoded: Decoded, source: pa.RecordBatch) -> pa.Array[Any]:
        """Return the positions of the decoded records for which the condition is FALSE.

        Records for which the condition is NULL aren't included. The caller filters them out if they
        are valid. If they are invalid, they become dead letters.
        """
        values, _ = self._condition(decoded, source)
        return decoded.positions.filter(pc.fill_null(pc.invert(values), False))

    def evaluate(
        self, expression: RowExpression, decoded: Decoded, source: pa.RecordBatch
    ) -> tuple[Decoded, pa.Array[Any]]:
        """Evaluate an expression for decoded records.

        If the evaluation fails for a record, the record becomes a dead letter.

        Args:
            decoded: the decoded records, before masks are applied.
            source: the records, with the columns of the Kafka source.

        Returns:
            The records for which the evaluation succeeds, and the expression's value for each.
        """
        values, failures = self._values(expression, decoded, source)
        if not failures:
            return decoded, values
        remaining = pc.invert(_at(failures, len(values)))
        return _refuse(decoded, failures), values.filter(remaining)

    def derive(self, decoded: Decoded, source: pa.RecordBatch) -> Decoded:
        """Add the derived columns.

        A derived column replaces the field with the same name. If the evaluation of an expression
        fails for a record, the record becomes a dead letter.

        Args:
            decoded: the decoded records, after masks are applied.
            source: the records, with the columns of the Kafka source.
        """
        if not self.columns:
            return decoded
        expressions = tuple(expression for _, expression in self.columns)
        columns = _read_by(expressions, decoded.columns)
        inputs = self._inputs(expressions, columns, decoded, source)
        failures: dict[int, str] = {}
        derived: list[pa.Array[Any]] = []
        for expression in expressions:
            values, failed = expression.values(inputs)
            derived.append(values)
            failures = {**failed, **failures}
        result = self._with_columns(decoded, derived)
        return _refuse(result, failures)

    def without_values(self, decoded: Decoded) -> Decoded:
        """Add the derived columns with nulls, for tombstones (records that delete a key)."""
        if not self.columns:
            return decoded
        count = len(decoded.positions)
        kinds = (to_arrow_type(column.data_type) for column, _ in self.columns)
        return self._with_columns(decoded, [_nulls(count, kind) for kind in kinds])

    def _condition(
        self, decoded: Decoded, source: pa.RecordBatch
    ) -> tuple[pa.Array[Any], dict[int, str]]:
        if self.where is None:
            return pa.repeat(pa.scalar(True), len(decoded.positions)), {}
        return self._values(self.where, decoded, source)

    def _values(
        self, expression: RowExpression, decoded: Decoded, source: pa.RecordBatch
    ) -> tuple[pa.Array[Any], dict[int, str]]:
        """Apply the masks, then evaluate an expression; see `RowExpression.values`."""
        columns = apply_masks(_read_by((expression,), decoded.columns), self.masks)
        return expression.values(self._inputs((expression,), columns, decoded, source))

    def _with_columns(self, decoded: Decoded, derived: list[pa.Array[Any]]) -> Decoded:
        names = {column.name.lower() for column, _ in self.columns}
        retained = [n for n in decoded.columns.schema.names if n.lower() not in names]
        fields = to_arrow_schema(StructType(tuple(column for column, _ in self.columns)))
        schema = pa.schema([*(decoded.columns.schema.field(n) for n in retained), *fields])
        arrays = [*(decoded.columns.column(n) for n in retained), *derived]
        return replace(decoded, columns=pa.RecordBatch.from_arrays(arrays, schema=schema))

    def _inputs(
        self,
        expressions: tuple[RowExpression, ...],
        columns: pa.RecordBatch,
        decoded: Decoded,
        source: pa.RecordBatch,
    ) -> pa.RecordBatch:
        """Return `columns` with the Kafka metadata columns that the expressions read.

        `_kafka_offset` is always added, because a batch without columns has no row count.
        """
        read = {field.name for expression in expressions for field in expression.schema}
        for column in KAFKA_INPUTS:
            # Keep at least one column, because a batch without columns has no row count.
            if column.name in read or column.name == "_kafka_offset":
                values = self._kafka_column(column, source, decoded.positions)
                columns = columns.append_column(column.name, values)
        return columns

    def _kafka_column(
        self, column: StructField, source: pa.RecordBatch, positions: pa.Array[Any]
    ) -> pa.Array[Any]:
        kind = to_arrow_type(column.data_type)
        if column.name == "_kafka_timestamp":
            times: pa.Array[Any] = kafka_times(source, self.ingestion_timestamp).take(positions)
            return times
        values = source.column(column.name.removeprefix("_kafka_")).take(positions)
        return header_lists(values, kind) if column.data_type == HEADERS else values.cast(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExpression:
    """An expression whose columns are resolved to fields of a topic's records. Can be pickled.

    Attributes:
        setting: the setting that defines the expression, such as `processing.where`.
        expression: the resolved expression; it reads columns of `schema`.
        schema: the columns that the expression may read.
        data_type: the type of the result; None if it depends on a field that no record has
            contained yet.
        fields: lowercase names of the top-level columns that the expression reads.
        unseen: lowercase paths of the fields that the expression reads but that no record has
            contained yet.
    """

    setting: str
    expression: Expression
    schema: StructType
    data_type: DataType | None
    fields: frozenset[str]
    unseen: frozenset[str]

    def cast(self, target: DataType) -> RowExpression:
        """Return this expression with its result cast to `target`, the type of a table's column.

        Raises:
            PredicateError: the expression's type can't be widened to `target`.
        """
        if self.data_type == target:
            return self
        if self.data_type is not None and not is_widening(self.data_type, target):
            raise PredicateError(
                f"{self.setting}: the type is {self.data_type}, but the table's column has the "
                f"type {target}. Cast the expression, or use another column name.",
                expression=self.setting,
            )
        cast: Expression = Cast(self.expression, target, safe=self.data_type is None)
        if not can_cast(type_of(self.expression, self.schema), target):
            cast = Literal(None, target)  # the type of a field that it reads isn't known yet
        return replace(self, expression=cast, data_type=target)

    def values(self, inputs: pa.RecordBatch) -> tuple[pa.Array[Any], dict[int, str]]:
        """Evaluate the expression for each row of `inputs`, the columns that the expression reads.

        Returns:
            The values, and the reason of each failure by row index. If the evaluation fails for a
            row, the value is null.
        """
        data_type = BOOLEAN if self.data_type is None else self.data_type
        for unseen in self.schema:
            if unseen.name.startswith(UNSEEN):
                nulls = _nulls(inputs.num_rows, to_arrow_type(unseen.data_type))
                inputs = inputs.append_column(unseen.name, nulls)
        evaluation = FailingRows(self.schema, self.expression, to_arrow_type(data_type))
        values = evaluation.values(inputs)
        failures = {
            row: f"{self.setting}: {message}"[:_MAX_REASON]
            for row, message in evaluation.failures.items()
        }
        outside = _outside_years(values)
        for row in () if outside is None else pc.indices_nonzero(outside).to_pylist():
            failures[row] = f"{self.setting}: the result is outside of the years 1 to 9999"
        if outside is not None:
            values = pc.if_else(outside, pa.scalar(None, values.type), values)
        return values, failures


def _outside_years(values: Any) -> Any:
    """Return a mask of dates and timestamps outside of the years 1 to 9999; None if there are none.

    Functions such as `timestamp_seconds` return such values if a number is in another unit.
    """
    limits: tuple[dt.date, dt.date] = (dt.date.min, dt.date.max)
    if pa.types.is_timestamp(values.type):
        zone = None if values.type.tz is None else dt.UTC
        limits = (dt.datetime.min.replace(tzinfo=zone), dt.datetime.max.replace(tzinfo=zone))
    elif not pa.types.is_date(values.type):
        return None
    low, high = (pa.scalar(limit, values.type) for limit in limits)
    outside = pc.fill_null(pc.or_(pc.less(values, low), pc.greater(values, high)), False)
    return outside if pc.any(outside, min_count=0).as_py() else None


def _nulls(count: int, kind: Any) -> pa.Array[Any]:
    values: pa.Array[Any] = pa.nulls(count, kind)
    return values


def _read_by(expressions: tuple[RowExpression, ...], columns: pa.RecordBatch) -> pa.RecordBatch:
    read = {field.name for expression in expressions for field in expression.schema}
    read -= {*KAFKA_INPUTS.names}
    return columns.select([name for name in columns.schema.names if name in read])


def _at(rows: Mapping[int, str], count: int) -> pa.Array[Any]:
    """Return a mask of `count` rows that is true for the indexes in `rows`."""
    mask = [False] * count
    for row in rows:
        mask[row] = True
    return pa.array(mask, pa.bool_())


def _refuse(decoded: Decoded, failures: Mapping[int, str]) -> Decoded:
    mask = _at(failures, len(decoded.positions))
    return decoded.refuse(mask, [failures[row] for row in sorted(failures)])


def column_setting(name: str) -> str:
    """Return the name of the setting that defines a derived column, for messages."""
    return f"processing.columns.{name}"


def derived_columns(
    config: TopicConfig, columns: StructType, *, complete: bool = False
) -> dict[str, RowExpression]:
    """Resolve the expression of each derived column.

    Args:
        columns: the columns of the fields that records have contained so far.
        complete: whether `columns` has all fields that records can have. If True, an expression
            that reads a field without a column is an error. If False, this field is NULL until a
            record contains it.

    Raises:
        PredicateError: an expression can't be evaluated for columns of these types. The message and
            the attribute `expression` name the expression's setting.
    """
    return {
        name: _resolved(column_setting(name), expression, columns, complete=complete)
        for name, expression in config.processing.expressions.items()
    }


def row_filter(
    config: TopicConfig, columns: StructType, *, complete: bool = False
) -> RowExpression | None:
    """Resolve the condition `processing.where`; return None if the topic has no condition.

    `derived_columns` describes the arguments.
    """
    condition = config.processing.condition
    if condition is None:
        return None

    setting = "processing.where"
    return _resolved(setting, condition, columns, complete=complete, is_condition=True)


def route_value(
    config: TopicConfig, columns: StructType, *, complete: bool = False
) -> RowExpression | None:
    """Resolve `route-by` with a cast to STRING; return None if the topic has no `route-by`."""
    expression = config.route_expression
    if expression is None:
        return None
    text = Cast(expression, STRING)
    setting = "destination.route-by"
    return _resolved(setting, text, columns, complete=complete)


def unseen_fields(config: TopicConfig, columns: StructType) -> tuple[str, ...]:
    """Return the paths of fields that expressions read but that `columns` doesn't contain."""
    processing = config.processing
    conditions = (processing.condition, config.route_expression)
    expressions = [*processing.expressions.values(), *(e for e in conditions if e is not None)]
    missing = (_missing_paths(expression, _readable_columns(columns)) for expression in expressions)
    return tuple(dict.fromkeys(".".join(path) for path in itertools.chain(*missing)))


def needed_fields(config: TopicConfig, columns: StructType) -> frozenset[str]:
    """Return the lowercase paths of fields that expressions read but `columns` doesn't contain.

    These paths are the value of `DecodePlan.needed`.
    """
    return frozenset(path.lower() for path in unseen_fields(config, columns))


def _readable_columns(columns: StructType) -> StructType:
    """Return the columns that expressions can read: record fields and `KAFKA_INPUTS`."""
    fields = (f for f in columns if KAFKA_INPUTS.get(f.name) is None)
    return StructType((*fields, *KAFKA_INPUTS))


def _missing_paths(expression: Expression, schema: StructType) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the columns that an expression reads but that a schema doesn't contain."""
    for path in dict.fromkeys(referenced_columns(expression)):
        level: DataType = schema
        for name in path:
            if not isinstance(level, StructType):  # not a struct, so resolving the path fails
                break
            field = level.get(name)
            if field is None:
                yield path
                break
            level = field.data_type


def _resolved(
    setting: str,
    expression: Expression,
    columns: StructType,
    *,
    complete: bool,
    is_condition: bool = False,
) -> RowExpression:
    names = frozenset(path[0].lower() for path in referenced_columns(expression))
    readable = _readable_columns(columns)
    # If `complete`, include all columns: an error about a missing column suggests similar names.
    read = tuple(f for f in readable if complete or f.name.lower() in names)
    schema = StructType(read)
    missing = [] if complete else list(dict.fromkeys(_missing_paths(expression, readable)))
    try:
        results = resolutions(expression, schema, missing, is_condition=is_condition)
        result, whole = next(results)
        kind: DataType | None = type_of(result, whole)
        if not is_condition and any(type_of(*other) != kind for other in results):
            kind = None
    except PredicateError as error:
        raise PredicateError(f"{setting}: {error.message}", expression=setting) from error
    if kind == VOID:
        raise PredicateError(
            f"{setting}: the expression is always NULL, so it has no type. Cast it to a type.",
            expression=setting,
        )
    return RowExpression(
        setting=setting,
        expression=result,
        schema=whole,
        data_type=kind,
        fields=names,
        unseen=frozenset(".".join(path).lower() for path in missing),
    )
