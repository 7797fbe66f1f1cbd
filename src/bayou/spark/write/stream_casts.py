"""Casts of numbers in streaming writes to the types of the table's columns, as in delta-spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import pyarrow as pa

from bayou.engines import for_path
from bayou.errors import EvaluationError
from bayou.kernel import Table
from bayou.kernel.expressions.casts import cast
from bayou.kernel.transaction.schema_evolution import widening_rule
from bayou.protocol.schema import (
    BYTE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    DataType,
    DecimalType,
    StructType,
)
from bayou.spark.write.options import WriteOptions

NumberCasts: TypeAlias = Mapping[str, tuple[DataType, DataType]]
"""Maps the name of a column to a pair of types: the type before and the type after the cast."""


def number_casts(options: WriteOptions, rows: StructType) -> NumberCasts:
    """Return the casts of numeric columns that have another numeric type in the table.

    Columns whose type is widened by schema evolution are omitted. The result is empty if the table
    doesn't exist, or if the session's store assignment policy isn't ANSI.
    """
    engine = for_path(options.path, options.storage)
    table = Table.for_path(engine, options.path)
    if options.store_assignment_policy != "ANSI" or not table.exists(engine):
        return {}
    snapshot = table.latest_snapshot(engine)
    rule = widening_rule(snapshot.properties, options.automatic_widening)
    casts = {}
    for field in rows:
        column = snapshot.schema.get(field.name)
        if column is None or column.data_type == field.data_type:
            continue
        if options.merge_schema and rule and rule.allows(column.data_type, field.data_type):
            continue
        if _is_number(column.data_type) and _is_number(field.data_type):
            casts[field.name] = field.data_type, column.data_type
    return casts


def cast_schema(rows: StructType, casts: NumberCasts) -> StructType:
    """Return the schema of the rows after `cast_batches`."""
    fields = (
        field.with_data_type(casts[field.name][1]) if field.name in casts else field
        for field in rows
    )
    return StructType(tuple(fields))


def cast_batches(batches: Iterable[pa.RecordBatch], casts: NumberCasts) -> Iterator[pa.RecordBatch]:
    """Cast columns as in Spark's ANSI mode: a value that doesn't fit the new type is an error."""
    for batch in batches:
        for name, (source, target) in casts.items():
            position = batch.schema.get_field_index(name)
            try:
                values = cast(batch.column(position), source, target)
            except EvaluationError as error:
                raise EvaluationError(
                    f"column {name!r} of the stream: {error.message} Cast the column in the query.",
                    expression=name,
                ) from error
            batch = batch.set_column(position, name, values)  # noqa: PLW2901
        yield batch


def _is_number(data_type: DataType) -> bool:
    numbers = (BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE)
    return data_type in numbers or isinstance(data_type, DecimalType)
