"""A large batch of an upsert, whose rows stay with Spark's executors.

Tasks leave the rows on their disks, Spark brings those of a key to one task, which decides between
them, and joins what is left with the table. The driver sees counts and files. Where an executor is
lost with its rows, Spark reads them from Kafka again.
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
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from bayou.engines import from_description
from bayou.ingest.batch.arrow_transfer import gathered_rows
from bayou.ingest.upsert.deleted_keys import REMEMBERED_AT
from bayou.ingest.upsert.merging import UpsertOutcome, UpsertTable
from bayou.ingest.upsert_keys import DELETED, FORCED, UpsertKeys, quoted
from bayou.kernel import Snapshot, Table
from bayou.kernel.arrow.types import to_arrow_schema
from bayou.kernel.engine.engine import EngineDescription
from bayou.protocol.schema import BOOLEAN, DOUBLE, FLOAT, StructField, StructType
from bayou.spark import enable
from bayou.spark.commands.merge_by_spark import merge_kept_rows
from bayou.spark.target import TargetTable
from bayou.spark.types import to_spark

__all__ = ["KeptRows", "merge_on_executors"]

_ROWS_A_TASK = 200_000


class KeptRows:
    """What tasks have yielded, on the disks of executors until `close`.

    Args:
        work: given a share's number, yields pieces of `gathered_pieces` and then an outcome.
        shares: how many.

    Attributes:
        spark: the session.
    """

    def __init__(
        self, spark: SparkSession, work: Callable[[int], Iterator[Any]], shares: int
    ) -> None:
        self.spark = spark
        numbers = spark.sparkContext.parallelize(range(shares), shares)
        self._pieces = numbers.flatMap(work).persist(StorageLevel.DISK_ONLY)
        self._frames: list[Any] = []

    def outcomes(self) -> list[Any]:
        """Have the tasks run; their outcomes."""
        found: list[Any] = self._pieces.filter(_is_outcome).collect()
        return found

    def frame(self, columns: StructType) -> Any:
        """The rows, as a DataFrame of these columns."""
        pieces = self._pieces.filter(_is_piece).map(_in_a_row)
        packed = self.spark.createDataFrame(pieces, "rows binary", verifySchema=False)
        return packed.mapInArrow(_unpacked, to_spark(columns))

    def keep(self, frame: Any) -> Any:
        """Have the rows of a DataFrame stay as they are from their first use on."""
        frame.persist(StorageLevel.DISK_ONLY)
        self._frames.append(frame)
        return frame

    def close(self) -> None:
        """Let go of all rows."""
        with contextlib.suppress(Exception):  # Spark may be gone already, and they with it
            for frame in self._frames:
                frame.unpersist()
            self._pieces.unpersist()


def merge_on_executors(
    kept: KeptRows,
    table: UpsertTable,
    snapshot: Snapshot,
    columns: StructType,
    *,
    rows: int,
    storage_options: Mapping[str, str],
    transaction_ids: Mapping[str, int],
    table_properties: Mapping[str, str],
) -> UpsertOutcome:
    """`UpsertTable.decide`, `DeletedKeys.remember` and `UpsertTable.merge` for kept rows.

    Args:
        table: the target, at this snapshot.
        columns: of the rows, without `DELETED`.
        rows: how many there are.

    Raises:
        CommitConflictError, CommitFailedError, SchemaError, StorageError: as the names say.
        Exception: as Spark throws it.
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
    tasks = max(spark.sparkContext.defaultParallelism, math.ceil(rows / _ROWS_A_TASK))
    by_key = kept.frame(columns).repartition(tasks, *_grouping(table.keys, columns))
    winners = kept.keep(by_key.mapInArrow(decider, to_spark(decided)))
    gone = winners.where(F.col(DELETED))
    if not gone.isEmpty():
        deleted = table.deleted_keys
        beside = deleted.made(to_arrow_schema(decided))
        names = map(quoted, (*table.keys.all_columns, FORCED))
        merge_kept_rows(
            TargetTable(spark=spark, location=deleted.path, options=storage_options),
            beside,
            gone.select(*names).withColumn(REMEMBERED_AT, F.current_timestamp()),
            deleted.definition(beside),
            engine_info=table.engine_info,
            transaction_ids={},
            table_properties={},
        )
    metrics = merge_kept_rows(
        TargetTable(spark=spark, location=snapshot.path, options=storage_options),
        snapshot,
        winners,
        table.definition(snapshot, decided.names),
        engine_info=table.engine_info,
        user_metadata=table.user_metadata,
        transaction_ids=transaction_ids,
        table_properties=table_properties,
    )
    return UpsertOutcome.of(metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decider:
    """A task's part; pickles."""

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
        yield from upserts.decide(snapshot, rows).combine_chunks().to_batches(_BATCH_ROWS)


_BATCH_ROWS = 65_536


def _grouping(keys: UpsertKeys, columns: StructType) -> list[Any]:
    """What is the same for rows of one key: -0.0 is the key 0.0."""
    floats = {f.name for f in columns if f.data_type in (FLOAT, DOUBLE)}
    return [
        F.col(quoted(name)) + F.lit(0.0) if name in floats else F.col(quoted(name))
        for name in keys.columns
    ]


def _nullable(columns: StructType) -> StructType:
    return StructType(tuple(StructField(name=f.name, data_type=f.data_type) for f in columns))


def _is_piece(item: Any) -> bool:
    return isinstance(item, bytes)


def _is_outcome(item: Any) -> bool:
    return not isinstance(item, bytes)


def _in_a_row(piece: bytes) -> tuple[bytes]:
    return (piece,)


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for piece in batch.column(0):
            rows = gathered_rows([piece.as_py()])
            if rows is not None:
                yield from rows.to_batches()
