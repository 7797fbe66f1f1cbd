"""DataFrames of a version's live files, unordered or as sorted in a stream's initial snapshot."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F  # noqa: N812  # PySpark's convention

from bayou.kernel import Engine, Snapshot
from bayou.spark.log_replay.builder import DistributedScanBuilder
from bayou.spark.log_replay.distributed_scan import DistributedScan
from bayou.spark.session.hadoop_storage import session_engine
from bayou.spark.session.settings import (
    INITIAL_SNAPSHOT_NUM_PARTITIONS,
    MAX_INITIAL_SNAPSHOT_FILE_COUNT,
)
from bayou.spark.streaming.next_batch import check_file_limit


def state_reconstruction(
    spark: Any, snapshot: Snapshot, num_partitions: int | None = None, engine: Engine | None = None
) -> Any:
    """Return the live files of a version as a DataFrame with one struct column `add`; unordered.

    `add` has all fields of Delta's `add` action, including statistics. The driver collects no rows.

    Args:
        spark: a session, classic or Connect.
        num_partitions: number of replay tasks. If None, the setting `bayou.replay.numPartitions` is
            used. If the setting isn't set, the number depends on the size of the log.
        engine: if None, an engine with the session's storage settings is used.

    Examples:
        >>> state_reconstruction(spark, snapshot).selectExpr("sum(add.size)").show()
    """
    builder = DistributedScanBuilder(spark, snapshot, num_partitions).with_whole_adds()
    return builder.build().dataframe(engine)


def initial_snapshot_for_streaming(
    spark: Any, snapshot: Snapshot, num_partitions: int | None = None, engine: Engine | None = None
) -> Any:
    """Return the live files of a version in the order of a stream's initial snapshot.

    The result is a DataFrame with one struct column `add` without statistics. The rows are sorted
    by `add.modificationTime` and `add.path`.

    Args:
        spark: a session, classic or Connect.
        num_partitions: number of replay tasks. If None, the setting
            `bayou.streaming.initialSnapshot.numPartitions` is used. If the setting isn't set, the
            number is the same as for `state_reconstruction`.
        engine: if None, an engine with the session's storage settings is used.

    Raises:
        ArgumentError: the version has more files than `bayou.streaming.maxInitialSnapshotFileCount`
            allows.

    Examples:
        >>> files = initial_snapshot_for_streaming(spark, snapshot)
        >>> files.select("add.path").show()
    """
    scan = initial_snapshot_scan(spark, snapshot, num_partitions)
    engine = session_engine(spark, snapshot.path) if engine is None else engine
    check_file_count(spark, engine, snapshot)
    time = F.coalesce(F.col("add.modificationTime"), F.lit(0))
    return scan.dataframe(engine).orderBy(time, F.col("add.path"))


def initial_snapshot_scan(
    spark: Any, snapshot: Snapshot, num_partitions: int | None = None
) -> DistributedScan:
    """Return a scan of all live files, sorted as in a stream's initial snapshot."""
    if num_partitions is None:
        num_partitions = INITIAL_SNAPSHOT_NUM_PARTITIONS.integer(spark=spark)
    return DistributedScanBuilder(spark, snapshot, num_partitions).with_sort_key().build()


def check_file_count(spark: Any, engine: Engine, snapshot: Snapshot) -> None:
    """Raise `ArgumentError` if a version has too many files for an initial snapshot.

    The setting `MAX_INITIAL_SNAPSHOT_FILE_COUNT` limits the number of files.
    """
    limit = MAX_INITIAL_SNAPSHOT_FILE_COUNT.integer(spark=spark)
    if limit is None:
        return
    scan = DistributedScanBuilder(spark, snapshot).build()
    check_file_limit(snapshot, scan.count_files(engine), limit)
