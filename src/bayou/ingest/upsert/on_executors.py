"""Upserts a large batch whose rows are cached on Spark's executors.

Tasks cache the rows on local disks. Spark shuffles all rows of a key to the same task, which
selects the last row. Spark then joins the selected rows with the table. The driver only receives
counts and `add` actions. If an executor is lost, Spark reads the executor's records from Kafka
again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from bayou.engines import from_description
from bayou.ingest.batch.arrow_transfer import decode_rows
from bayou.ingest.upsert.deleted_keys import REMEMBERED_AT
from bayou.ingest.upsert.merging import UPSERTS, UpsertResult, UpsertTable
from bayou.ingest.upsert_order import BARE, DELETED, FORCED, SUPERSEDED, UpsertKeys
from bayou.kernel import Snapshot, Table
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.engine.engine import EngineDescription
from bayou.protocol.schema import BOOLEAN, DOUBLE, FLOAT, StructField, StructType
from bayou.protocol.sql import quote_identifier
from bayou.spark import enable
from bayou.spark.commands.merge_by_spark import merge_deterministic_source
from bayou.spark.target_table import TargetTable
from bayou.spark.types import to_spark

_ROWS_PER_TASK = 200_000
_PROCESSED_AT = "_processed_at"


class CachedRows:
    """Rows of Spark tasks, which are cached on the disks of executors until `close` is called.

    Args:
        work: function that runs a task, given the task's number. It yields the task's rows as
            chunks of `encode_chunks`, and then the result of the task. The result has an attribute
            `failure`, which is None or an error.
    """

    def __init__(
        self, spark: SparkSession, work: Callable[[int], Iterator[Any]], tasks: int
    ) -> None:
        self.spark = spark
        numbers = spark.sparkContext.parallelize(range(tasks), tasks)
        self._chunks = numbers.flatMap(work).persist(StorageLevel.DISK_ONLY)
        self._frames: list[Any] = []

    def results(self) -> list[Any]:
        """Run the tasks and return their results."""
        results: list[Any] = self._chunks.filter(_is_result).collect()
        return results

    def frame(self, columns: StructType) -> Any:
        chunks = self._chunks.filter(_is_chunk).map(_to_row)
        packed = self.spark.createDataFrame(chunks, "rows binary", verifySchema=False)
        return packed.mapInArrow(_unpack, to_spark(columns))

    def cache(self, frame: Any) -> Any:
        frame.persist(StorageLevel.DISK_ONLY)
        self._frames.append(frame)
        return frame

    def close(self) -> None:
        with contextlib.suppress(Exception):  # Spark may have stopped already
            for frame in self._frames:
                frame.unpersist()
            self._chunks.unpersist()


def merge_on_executors(
    cached_rows: CachedRows,
    table: UpsertTable,
    snapshot: Snapshot,
    columns: StructType,
    *,
    rows: int,
    storage_options: Mapping[str, str],
    transaction_ids: Mapping[str, int],
    table_properties: Mapping[str, str],
) -> UpsertResult:
    """Upsert cached rows with Spark.

    This function first stores the deletes in the table of deleted keys, and then merges the rows
    into the target. For rows in the driver's memory, use `DeletedKeys.remember` and
    `UpsertTable.merge` instead.

    Args:
        columns: the columns of the rows, without `DELETED`.
        rows: number of cached rows.
    """
    spark = cached_rows.spark
    enable(spark)
    columns = _nullable(StructType((*columns, StructField(name=DELETED, data_type=BOOLEAN))))
    flags = (StructField(name=name, data_type=BOOLEAN) for name in (FORCED, BARE, SUPERSEDED))
    winner_columns = StructType((*columns, *flags))
    selector = _LastRowSelector(
        engine=table.engine.description(),
        table_path=snapshot.path,
        version=snapshot.version,
        keys=table.keys,
        columns=columns,
        time_zone=table.time_zone,
    )
    tasks = max(spark.sparkContext.defaultParallelism, math.ceil(rows / _ROWS_PER_TASK))
    by_key = cached_rows.frame(columns).repartition(tasks, *_key_expressions(table.keys, columns))
    winners = cached_rows.cache(by_key.mapInArrow(selector, to_spark(winner_columns)))
    deletes = winners.where(F.col(DELETED))
    if not deletes.isEmpty():
        deleted = table.deleted_keys
        deleted_snapshot = deleted.create_if_missing(to_arrow_schema(winner_columns))
        names = map(quote_identifier, (*table.keys.all_columns, FORCED, BARE))
        merge_deterministic_source(
            TargetTable(spark=spark, location=deleted.path, options=storage_options),
            deleted_snapshot,
            deletes.select(*names).withColumn(REMEMBERED_AT, F.current_timestamp()),
            deleted.definition(deleted_snapshot),
            engine_info=table.engine_info,
            transaction_ids={},
            table_properties={},
        )
    # If an executor is lost, its rows are read again, and their values must not change. Otherwise
    # the merge could assign them to other tasks than before, and lose or double rows.
    written = winners.withColumn(_PROCESSED_AT, F.current_timestamp())
    metrics = merge_deterministic_source(
        TargetTable(spark=spark, location=snapshot.path, options=storage_options),
        snapshot,
        written.where(~F.col(SUPERSEDED)),
        table.definition(snapshot, winner_columns.names),
        engine_info=table.engine_info,
        user_metadata=table.user_metadata,
        transaction_ids=transaction_ids,
        table_properties=table_properties,
        counter=UPSERTS,
    )
    return UpsertResult.of(metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastRowSelector:
    """Selects the last row of each key, in a Spark task. Can be pickled."""

    engine: EngineDescription
    table_path: str
    version: int
    keys: UpsertKeys
    columns: StructType
    time_zone: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(self.columns)
        rows = pa.Table.from_batches([b.cast(schema) for b in batches], schema)
        if rows.num_rows == 0:
            return
        engine = from_description(self.engine)
        snapshot = None
        if self.keys.ordering is not None:
            table = Table.for_path(engine, self.table_path)
            snapshot = table.snapshot_as_of_version(engine, self.version)
        upserts = UpsertTable(
            engine, self.table_path, self.keys, engine_info="", time_zone=self.time_zone
        )
        yield from upserts.last_of_each_key(snapshot, rows).combine_chunks().to_batches(_BATCH_ROWS)


_BATCH_ROWS = 65_536


def _key_expressions(keys: UpsertKeys, columns: StructType) -> list[Any]:
    """Return Spark expressions that are equal if and only if keys are equal; -0.0 equals 0.0."""
    floats = {f.name for f in columns if f.data_type in (FLOAT, DOUBLE)}
    return [
        F.col(quote_identifier(name)) + F.lit(0.0)
        if name in floats
        else F.col(quote_identifier(name))
        for name in keys.columns
    ]


def _nullable(columns: StructType) -> StructType:
    return StructType(tuple(StructField(name=f.name, data_type=f.data_type) for f in columns))


def _is_chunk(item: Any) -> bool:
    """Whether an item of a task is a chunk of rows and not the task's result.

    Raises:
        BayouError: the task failed. This can happen after all tasks have succeeded, because Spark
            runs the tasks of a lost executor again.
    """
    if not isinstance(item, bytes) and item.failure is not None:
        raise item.failure
    return isinstance(item, bytes)


def _is_result(item: Any) -> bool:
    return not isinstance(item, bytes)


def _to_row(chunk: bytes) -> tuple[bytes]:
    return (chunk,)


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for chunk in batch.column(0):
            rows = decode_rows([chunk.as_py()])
            if rows is not None:
                yield from rows.to_batches()
