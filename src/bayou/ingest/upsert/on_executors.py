"""Upserts a large batch on Spark's executors.

Tasks read the records and distribute their rows over buckets by key. Spark shuffles the buckets, so
that one task gets all rows of a key, and selects the last one. If the target table is new, this
task also writes the selected rows to data files. Otherwise Spark joins the selected rows with the
table. The driver only receives counts and `add` actions. If an executor is lost, Spark reads the
executor's records from Kafka again.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from bayou.engines import from_description
from bayou.ingest.batch.arrow_transfer import decode_rows, encode_chunks
from bayou.ingest.upsert.deleted_keys import REMEMBERED_AT
from bayou.ingest.upsert.merging import UPSERTS, UpsertResult, UpsertTable
from bayou.ingest.upsert_order import BARE, DELETED, FORCED, SUPERSEDED, UpsertKeys
from bayou.kernel import Snapshot, Table
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.engine.engine import EngineDescription
from bayou.protocol.actions import AddFile
from bayou.protocol.schema import BOOLEAN, StructField, StructType
from bayou.protocol.sql import quote_identifier
from bayou.spark import enable
from bayou.spark.commands.merge_by_spark import merge_deterministic_source
from bayou.spark.executors.executor_tasks import run_on_partitions
from bayou.spark.jvm.jobs import delete_shuffle_files
from bayou.spark.target_table import TargetTable
from bayou.spark.types import to_spark
from bayou.spark.write.tasks import decode_adds, delete_task_files, write_task

_ROWS_PER_BUCKET = 200_000
_BATCH_ROWS = 65_536
_PROCESSED_AT = "_processed_at"


class BucketedRows:
    """Rows of Spark tasks, which are shuffled to buckets. Call `close` to delete the shuffle files.

    Args:
        work: function that runs a task, given the numbers of the task and of buckets. It yields
            the task's rows as `encode_buckets` does, and then the result of the task. The result
            has an attribute `failure`, which is None or an error.
        tasks: number of tasks.
        records: maximum number of rows, from which the number of buckets is computed.
    """

    def __init__(
        self,
        spark: SparkSession,
        work: Callable[[int, int], Iterator[Any]],
        tasks: int,
        records: int,
    ) -> None:
        self.spark = spark
        cores = spark.sparkContext.defaultParallelism
        self._buckets = cores * max(1, math.ceil(records / _ROWS_PER_BUCKET / cores))
        numbers = spark.sparkContext.parallelize(range(tasks), tasks)
        map_task = functools.partial(_in_buckets, work, self._buckets)
        # The last partition has the results of the tasks.
        self._shuffled = numbers.flatMap(map_task).partitionBy(self._buckets + 1, int)
        self._cached: list[Any] = []

    def results(self) -> list[Any]:
        """Run the tasks and return their results in the order of the tasks."""
        context, results = self.spark.sparkContext, self._buckets
        numbered = context.runJob(self._shuffled, _values, [results])
        return [result for _, result in sorted(numbered, key=itemgetter(0))]

    @property
    def buckets(self) -> Any:
        """An RDD with a partition for each bucket. Its items are the IPC streams of the bucket."""
        return self._shuffled.mapPartitionsWithIndex(functools.partial(_streams, self._buckets))

    def frame(self, select: _LastRowSelector, columns: StructType) -> Any:
        """Return a DataFrame of the last row of each key.

        Args:
            columns: the columns of the result.
        """
        winners = self.buckets.mapPartitions(select.in_chunks).persist(StorageLevel.DISK_ONLY)
        self._cached.append(winners)
        packed = self.spark.createDataFrame(winners.map(_to_row), "rows binary", verifySchema=False)
        return packed.mapInArrow(_unpack, to_spark(columns))

    def close(self) -> None:
        with contextlib.suppress(Exception):  # Spark may have stopped already
            for rdd in self._cached:
                rdd.unpersist()
            delete_shuffle_files(self._shuffled)


def write_on_executors(
    rows: BucketedRows, columns: StructType, table: UpsertTable, state: bytes
) -> tuple[list[AddFile], int]:
    """Write the last row of each key to data files of a table that doesn't exist yet.

    No row may delete its key.

    Args:
        columns: the columns of the rows, without `DELETED`.
        state: serialized `TransactionState` of the transaction that creates the table.

    Returns:
        The `add` actions of the files, and the number of rows.
    """
    select = _LastRowSelector.of(table, None, columns)
    engine, path = select.engine, select.table_path

    def write(_: int, streams: list[bytes]) -> bytes:
        winners = select(streams)
        added = write_task(engine, state, winners.select(columns.names).to_batches())
        return f"{winners.num_rows}\n".encode() + added

    def split(result: bytes) -> tuple[int, bytes]:
        count, _, added = result.partition(b"\n")
        return int(count), added

    def discard(results: Sequence[bytes]) -> None:
        delete_task_files(engine, path, [split(result)[1] for result in results])

    results = run_on_partitions(
        rows.spark,
        rows.buckets,
        write,
        table=path,
        description=f"Bayou: upsert into {path}",
        discard=discard,
    )
    written = [split(result) for result in results.values()]
    return decode_adds([added for _, added in written]), sum(count for count, _ in written)


def merge_on_executors(
    rows: BucketedRows,
    columns: StructType,
    table: UpsertTable,
    snapshot: Snapshot,
    *,
    has_deletes: bool,
    storage_options: Mapping[str, str],
    transaction_ids: Mapping[str, int],
    table_properties: Mapping[str, str],
) -> UpsertResult:
    """Upsert rows with Spark.

    This function first stores the deletes in the table of deleted keys, and then merges the rows
    into the target. For rows in the driver's memory, use `DeletedKeys.remember` and
    `UpsertTable.merge` instead.

    Args:
        columns: the columns of the rows, without `DELETED`.
        has_deletes: whether a row deletes its key.
    """
    spark = rows.spark
    enable(spark)
    select = _LastRowSelector.of(table, snapshot, columns)
    winner_columns = select.winner_columns
    winners = rows.frame(select, winner_columns)
    if has_deletes:
        deletes = winners.where(F.col(DELETED))
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
    """Selects the last row of each key in a bucket, in a Spark task. Can be pickled.

    Attributes:
        version: the version of the target that the rows are compared with; None if the target
            doesn't exist yet.
        columns: the columns of the rows, with `DELETED`.
    """

    engine: EngineDescription
    table_path: str
    version: int | None
    keys: UpsertKeys
    columns: StructType
    time_zone: str

    @classmethod
    def of(
        cls, table: UpsertTable, snapshot: Snapshot | None, columns: StructType
    ) -> _LastRowSelector:
        """Return a selector for upserts of rows into a table.

        Args:
            columns: the columns of the rows, without `DELETED`.
        """
        fields = (StructField(name=f.name, data_type=f.data_type) for f in columns)  # nullable
        return cls(
            engine=table.engine.description(),
            table_path=table.path,
            version=None if snapshot is None else snapshot.version,
            keys=table.keys,
            columns=StructType((*fields, StructField(name=DELETED, data_type=BOOLEAN))),
            time_zone=table.time_zone,
        )

    @property
    def winner_columns(self) -> StructType:
        flags = (StructField(name=name, data_type=BOOLEAN) for name in (FORCED, BARE, SUPERSEDED))
        return StructType((*self.columns, *flags))

    def __call__(self, streams: Iterable[bytes]) -> pa.Table:
        decoded = decode_rows(streams)
        assert decoded is not None  # a stream has at least one row
        rows = decoded.cast(to_arrow_schema(self.columns)).combine_chunks()
        engine = from_description(self.engine)
        snapshot = None
        if self.version is not None and self.keys.ordering is not None:
            table = Table.for_path(engine, self.table_path)
            snapshot = table.snapshot_as_of_version(engine, self.version)
        upserts = UpsertTable(
            engine, self.table_path, self.keys, engine_info="", time_zone=self.time_zone
        )
        return upserts.last_of_each_key(snapshot, rows).combine_chunks()

    def in_chunks(self, streams: Iterable[bytes]) -> Iterator[bytes]:
        """Like calling the selector, but yields the selected rows as `encode_chunks` does."""
        if parts := list(streams):
            yield from encode_chunks(self(parts).to_batches(_BATCH_ROWS))


def _in_buckets(
    work: Callable[[int, int], Iterator[Any]], buckets: int, task: int
) -> Iterator[tuple[int, Any]]:
    for item in work(task, buckets):
        if isinstance(item, tuple):
            yield item
            continue
        if item.failure is not None:
            # Spark runs the tasks of a lost executor again, but then nobody reads their results.
            # Therefore, the tasks that read the rows get the failure, too.
            yield from ((bucket, item) for bucket in range(buckets))
        yield buckets, (task, item)


def _values(items: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    return (value for _, value in items)


def _streams(buckets: int, number: int, items: Iterable[tuple[int, Any]]) -> Iterator[bytes]:
    """Yield the rows in a partition of `BucketedRows`; nothing for the partition of the results.

    Raises:
        BayouError: a task failed when Spark ran it again.
    """
    for _, item in items if number < buckets else ():
        if not isinstance(item, bytes):
            raise item.failure
        yield item


def _to_row(chunk: bytes) -> tuple[bytes]:
    return (chunk,)


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for chunk in batch.column(0):
            rows = decode_rows([chunk.as_py()])
            if rows is not None:
                yield from rows.to_batches()
