"""Upserts a large batch whose rows are cached on Spark's executors.

Tasks write the rows to local disks. Spark shuffles the rows of a key to one task, which selects the
last row, and joins the selected rows with the table. The driver only receives counts and files. If
an executor is lost, Spark reads its rows from Kafka again.
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
from bayou.ingest.upsert.merging import UpsertResult, UpsertTable
from bayou.ingest.upsert_keys import DELETED, FORCED, UpsertKeys
from bayou.kernel import Snapshot, Table
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.engine.engine import EngineDescription
from bayou.protocol.identifiers import quote_identifier
from bayou.protocol.schema import BOOLEAN, DOUBLE, FLOAT, StructField, StructType
from bayou.spark import enable
from bayou.spark.commands.merge_by_spark import merge_deterministic_source
from bayou.spark.target import TargetTable
from bayou.spark.types import to_spark

__all__ = ["CachedRows", "merge_on_executors"]

_ROWS_PER_TASK = 200_000


class CachedRows:
    """Rows of tasks, cached on the disks of executors until `close`.

    Args:
        spark: the session.
        work: called with a task's number; yields chunks of `encode_chunks`, then its result.
        shares: number of tasks.

    Attributes:
        spark: the session.
    """

    def __init__(
        self, spark: SparkSession, work: Callable[[int], Iterator[Any]], shares: int
    ) -> None:
        self.spark = spark
        numbers = spark.sparkContext.parallelize(range(shares), shares)
        self._chunks = numbers.flatMap(work).persist(StorageLevel.DISK_ONLY)
        self._frames: list[Any] = []

    def outcomes(self) -> list[Any]:
        """Run the tasks and return their results."""
        results: list[Any] = self._chunks.filter(_is_result).collect()
        return results

    def frame(self, columns: StructType) -> Any:
        """Return the rows as a DataFrame with these columns."""
        chunks = self._chunks.filter(_is_chunk).map(_to_row)
        packed = self.spark.createDataFrame(chunks, "rows binary", verifySchema=False)
        return packed.mapInArrow(_unpack, to_spark(columns))

    def cache(self, frame: Any) -> Any:
        """Cache the rows of a DataFrame."""
        frame.persist(StorageLevel.DISK_ONLY)
        self._frames.append(frame)
        return frame

    def close(self) -> None:
        """Release all rows."""
        with contextlib.suppress(Exception):  # Spark may have stopped already
            for frame in self._frames:
                frame.unpersist()
            self._chunks.unpersist()


def merge_on_executors(
    kept: CachedRows,
    table: UpsertTable,
    snapshot: Snapshot,
    columns: StructType,
    *,
    rows: int,
    storage_options: Mapping[str, str],
    transaction_ids: Mapping[str, int],
    table_properties: Mapping[str, str],
) -> UpsertResult:
    """Run `UpsertTable.decide`, `DeletedKeys.remember` and `UpsertTable.merge` on cached rows.

    Args:
        kept: the cached rows.
        table: the target table.
        snapshot: the target's snapshot.
        columns: the columns of the rows, without `DELETED`.
        rows: number of rows.
        storage_options: the options of the object store.
        transaction_ids: transaction identifiers of the commit.
        table_properties: table properties that the commit sets.

    Raises:
        CommitConflictError: another writer's commit conflicts.
        CommitFailedError: the commit failed.
        SchemaError: the rows don't fit the table.
        StorageError: the store failed.
        Exception: Spark failed.
    """
    spark = kept.spark
    enable(spark)
    columns = _nullable(StructType((*columns, StructField(name=DELETED, data_type=BOOLEAN))))
    decided = StructType((*columns, StructField(name=FORCED, data_type=BOOLEAN)))
    decider = _Decider(
        engine=table.engine.description(),
        table_path=snapshot.path,
        version=snapshot.version,
        keys=table.keys,
        columns=columns,
    )
    tasks = max(spark.sparkContext.defaultParallelism, math.ceil(rows / _ROWS_PER_TASK))
    by_key = kept.frame(columns).repartition(tasks, *_key_expressions(table.keys, columns))
    winners = kept.cache(by_key.mapInArrow(decider, to_spark(decided)))
    deletes = winners.where(F.col(DELETED))
    if not deletes.isEmpty():
        deleted = table.deleted_keys
        deleted_snapshot = deleted.create_if_missing(to_arrow_schema(decided))
        names = map(quote_identifier, (*table.keys.all_columns, FORCED))
        merge_deterministic_source(
            TargetTable(spark=spark, location=deleted.path, options=storage_options),
            deleted_snapshot,
            deletes.select(*names).withColumn(REMEMBERED_AT, F.current_timestamp()),
            deleted.definition(deleted_snapshot),
            engine_info=table.engine_info,
            transaction_ids={},
            table_properties={},
        )
    metrics = merge_deterministic_source(
        TargetTable(spark=spark, location=snapshot.path, options=storage_options),
        snapshot,
        winners,
        table.definition(snapshot, decided.names),
        engine_info=table.engine_info,
        user_metadata=table.user_metadata,
        transaction_ids=transaction_ids,
        table_properties=table_properties,
    )
    return UpsertResult.of(metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decider:
    """Selects the rows to merge in a task. Can be pickled."""

    engine: EngineDescription
    table_path: str
    version: int
    keys: UpsertKeys
    columns: StructType

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
        upserts = UpsertTable(engine, self.table_path, self.keys, engine_info="")
        yield from upserts.last_of_each_key(snapshot, rows).combine_chunks().to_batches(_BATCH_ROWS)


_BATCH_ROWS = 65_536


def _key_expressions(keys: UpsertKeys, columns: StructType) -> list[Any]:
    """Return expressions that are equal for rows of one key: -0.0 equals 0.0."""
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
