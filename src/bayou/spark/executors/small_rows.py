"""`mapInArrow` for small rows, without Spark's check of the size of each Arrow batch.

Spark limits the size of a batch by `spark.sql.execution.arrow.maxBytesPerBatch` (64 MB). Since
Spark 4.1, a task computes the size of the batch again after each row. In an append of 8 columns,
this took 46% of the time of the tasks that send rows to Python workers. A job for small rows runs
without this check. The number of rows per batch is limited instead, so that a batch of small rows
fits into 64 MB.

Before the rows are sent, an expression marks large rows and removes their strings, so that no batch
becomes too large. The called function gets a `LargeRowError` instead of a batch with a marked row.
The caller then discards everything that the job has written, and runs the job again with Spark's
check.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # conventional name
from pyspark.sql import types as T  # noqa: N812  # conventional name

from bayou.errors import BayouError
from bayou.kernel.arrow.compute import pc
from bayou.protocol.sql import quote_identifier
from bayou.spark.executors.executor_tasks import map_in_arrow
from bayou.spark.executors.jobs import local_properties
from bayou.spark.jvm.plans import default_row_bytes, physical_plan, reads_rdds

ResultT = TypeVar("ResultT")

_MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_MAX_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_UNLIMITED = str(2**31 - 1)  # with this value, Spark doesn't compute sizes

_BATCH_BYTES = 64 << 20  # Spark's default for `_MAX_BYTES`
_BATCH_ROWS = 10_000  # Spark's default for `_MAX_ROWS`
_MIN_BATCH_ROWS = 1_000
_STRING_BYTES = 16 << 10
"""Maximum total size in bytes of the strings and binary values of a small row."""

_MAX_STRINGS = 100  # as `spark.sql.codegen.maxFields`: Spark doesn't compile wider plans as a whole
_IS_LARGE = "bayou-is-large-row"

_FIXED_WIDTH = (T.NumericType, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)
_tables_with_large_rows: set[str] = set()


class LargeRowError(BayouError):
    """The strings of a row exceed 16 KB. The caller has to run the job again with Spark's check."""


@dataclass(frozen=True, slots=True)
class ArrowInput:
    """The rows for a call of `mapInArrow`.

    Attributes:
        frame: a DataFrame of the rows. If large rows are possible, the last column marks them.
        batch_rows: maximum number of rows in a batch. If None, Spark's limits apply.
    """

    frame: Any
    batch_rows: int | None = None

    def map(self, function: Callable[..., Any], schema: str) -> Any:
        """Call `mapInArrow`. The function has to pass its input batches to `unmarked`."""
        return map_in_arrow(self.frame, function, schema)

    def collect(self, mapped: Any) -> list[Any]:
        """Collect the DataFrame that `map` returned."""
        if self.batch_rows is None or not _can_run_unlimited(mapped):
            return list(mapped.collect())
        properties = {_MAX_BYTES: _UNLIMITED, _MAX_ROWS: str(self.batch_rows)}
        with local_properties(self.frame.sparkSession, properties):
            return list(mapped.collect())


def with_small_rows(frame: Any, table: str, run: Callable[[ArrowInput], ResultT]) -> ResultT:
    """Call `run` with the rows of a DataFrame. If there are large rows, call `run` a second time.

    In the first call, Spark doesn't check the sizes of batches. In the second call, it does.

    Args:
        table: the table to which the rows are written.
        run: function that runs a job. Before it raises an error, it discards everything that the
            job has written.
    """
    small = None if table in _tables_with_large_rows else _small_rows(frame)
    if small is not None:
        with contextlib.suppress(LargeRowError):
            return run(small)
        _tables_with_large_rows.add(table)
    return run(ArrowInput(frame))


def unmarked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an `ArrowInput` without the column that marks large rows.

    Called in a task.

    Raises:
        LargeRowError: a batch has a large row.
    """
    for batch in batches:
        if batch.schema.names[-1:] != [_IS_LARGE]:
            yield batch
            continue
        last = batch.num_columns - 1
        if pc.any(batch.column(last)).as_py():
            raise LargeRowError("the strings of a row exceed 16 KB")
        yield batch.select(list(range(last)))


def _small_rows(frame: Any) -> ArrowInput | None:
    """Return the rows of a DataFrame with large rows marked; None if Spark's limits must apply.

    Spark's limits apply if the session sets them, or if the sizes of rows aren't known in advance,
    for example because of arrays.
    """
    conf = frame.sparkSession.conf
    if any(conf.get(name, None) is not None for name in (_MAX_BYTES, _MAX_ROWS)):
        return None
    fields = frame.schema.fields
    if not _are_names_unique(fields):
        return None
    sizes = {f.name: _string_sizes(F.col(quote_identifier(f.name)), f.dataType) for f in fields}
    if any(of_column is None for of_column in sizes.values()):
        return None
    strings = [size for of_column in sizes.values() for size in of_column or ()]
    row_bytes = default_row_bytes(frame) + (_STRING_BYTES if strings else 0)
    batch_rows = min(_BATCH_ROWS, _BATCH_BYTES // max(1, row_bytes))
    if batch_rows < _MIN_BATCH_ROWS or len(strings) > _MAX_STRINGS:
        return None
    if not strings:
        return ArrowInput(frame, batch_rows)
    is_large = reduce(add, strings) > _STRING_BYTES
    marked = frame.select("*", is_large.alias(_IS_LARGE))
    columns = []
    for field in fields:
        column: Any = F.col(quote_identifier(field.name))
        if sizes[field.name]:
            column = F.when(~F.col(quote_identifier(_IS_LARGE)), column).alias(field.name)
        columns.append(column)
    return ArrowInput(marked.select(*columns, quote_identifier(_IS_LARGE)), batch_rows)


def _string_sizes(column: Any, data_type: T.DataType) -> list[Any] | None:
    """Return SQL expressions for the sizes of a column's strings; None if the sizes are unknown."""
    if isinstance(data_type, _FIXED_WIDTH):
        return []
    if isinstance(data_type, T.StringType | T.CharType | T.VarcharType | T.BinaryType):
        return [F.coalesce(F.octet_length(column), F.lit(0)).cast("bigint")]
    if isinstance(data_type, T.StructType) and _are_names_unique(data_type.fields):
        sizes: list[Any] = []
        for field in data_type:
            of_field = _string_sizes(column.getField(field.name), field.dataType)
            if of_field is None:
                return None
            sizes += of_field
        return sizes
    return None


def _are_names_unique(fields: Sequence[T.StructField]) -> bool:
    return len({field.name.lower() for field in fields}) == len(fields)


def _can_run_unlimited(mapped: Any) -> bool:
    """Whether a job may run without Spark's check, and may be repeated if there are large rows.

    Two conditions have to be met. First, the job sends rows to Python workers only in its last
    operation, `mapInArrow`, because the limits of a job apply to all its batches. Second, the user
    doesn't observe the rows of the job (`DataFrame.observe`), because the observation would have
    the values of the first run. The result is False if the job reads an RDD, whose plan isn't
    visible.
    """
    if reads_rdds(mapped):
        return False
    plan = physical_plan(mapped)
    return len(_TO_PYTHON.findall(plan)) == 1 and not _OBSERVED.search(plan)


_TO_PYTHON = re.compile(r"^[ :+|*()\d-]*\w*(?:Python|PySpark|Pandas|InArrow)", re.MULTILINE)
"""Regular expression that matches operators of a plan that send rows to Python workers."""

_OBSERVED = re.compile(r"CollectMetrics (?!bayou_)")
"""Regular expression that matches a user's observations in a plan.

The names of Bayou's own observations begin with `bayou_`.
"""
