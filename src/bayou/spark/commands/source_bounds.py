"""Bounds of a large source's keys, computed while a plan of Spark reads it.

They come too late to prune files, and in time for the conflict rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.commands.merge import MergeSource
from bayou.protocol.schema import BYTE, DATE, INTEGER, LONG, SHORT, STRING, StructField, StructType
from bayou.spark.expressions.assigned_columns import quoted

__all__ = ["SourceBounds"]

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
