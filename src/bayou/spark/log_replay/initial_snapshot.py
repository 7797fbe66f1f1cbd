"""The two DataFrames of a log: its live files, and those in the order in which a stream begins."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F  # noqa: N812  # as everybody has it

from bayou.kernel import Engine, Snapshot
from bayou.spark.log_replay.builder import DistributedScanBuilder
from bayou.spark.log_replay.distributed_scan import DistributedScan
from bayou.spark.session.hadoop_storage import session_engine
from bayou.spark.session.settings import (
    INITIAL_SNAPSHOT_NUM_PARTITIONS,
    MAX_INITIAL_SNAPSHOT_FILE_COUNT,
)
from bayou.spark.streaming.next_batch import refuse_more_files

__all__ = [
    "check_file_count",
    "initial_snapshot_for_streaming",
    "initial_snapshot_scan",
    "state_reconstruction",
]


def state_reconstruction(
    spark: Any, snapshot: Snapshot, num_partitions: int | None = None, engine: Engine | None = None
) -> Any:
    """The live files of a version: a DataFrame with one struct column `add`, in no order.

    With every field of Delta's `add` action, statistics too. Nothing of it passes the driver.

    Args:
        num_partitions: tasks of the replay; None: by the log's size.
        engine: how to reach the table; None: by what the session says of the store.
    """
    builder = DistributedScanBuilder(spark, snapshot, num_partitions).with_whole_adds()
    return builder.build().dataframe(engine)


def initial_snapshot_for_streaming(
    spark: Any, snapshot: Snapshot, num_partitions: int | None = None, engine: Engine | None = None
) -> Any:
    """The live files of a version as a stream begins with them: the same, ordered, no statistics.

    Ordered by `add.modificationTime`, `add.path`.

    Args:
        num_partitions: tasks of the replay; None: by setting, else by the log's size.
        engine: how to reach the table; None: by what the session says of the store.

    Raises:
        ArgumentError: the table has more files than the setting allows; see `check_file_count`.
    """
    scan = initial_snapshot_scan(spark, snapshot, num_partitions)
    engine = session_engine(spark, snapshot.path) if engine is None else engine
    check_file_count(spark, engine, snapshot)
    time = F.coalesce(F.col("add.modificationTime"), F.lit(0))
    return scan.dataframe(engine).orderBy(time, F.col("add.path"))


def initial_snapshot_scan(
    spark: Any, snapshot: Snapshot, num_partitions: int | None = None
) -> DistributedScan:
    """A scan of all live files in the order of a stream, without statistics."""
    if num_partitions is None:
        num_partitions = INITIAL_SNAPSHOT_NUM_PARTITIONS.integer(spark=spark)
    return DistributedScanBuilder(spark, snapshot, num_partitions).with_sort_key().build()


def check_file_count(spark: Any, engine: Engine, snapshot: Snapshot) -> None:
    """Refuse a table with more files than `MAX_INITIAL_SNAPSHOT_FILE_COUNT`, where that is set.

    The version's checksum says how many there are; without one they are counted, on executors where
    the log is large. No list of files is made either way.

    Raises:
        ArgumentError: there are more; names count, limit and setting.
    """
    limit = MAX_INITIAL_SNAPSHOT_FILE_COUNT.integer(spark=spark)
    if limit is None:
        return
    scan = DistributedScanBuilder(spark, snapshot).build()
    refuse_more_files(snapshot, scan.count_files(engine), limit)
