"""`DistributedScanBuilder`, which builds a `DistributedScan`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # PySpark's convention
from pyspark.sql.types import StructType as SparkStructType

from bayou.errors import ArgumentError
from bayou.kernel import Predicate, ScanBuilder, Snapshot
from bayou.protocol.schema import StructType
from bayou.spark.hooks.hooks import check_session
from bayou.spark.jvm.plans import is_sorted_by
from bayou.spark.log_replay.distributed_scan import DistributedScan, Replay
from bayou.spark.session.settings import (
    REPLAY_LOCAL_BYTES,
    REPLAY_NUM_PARTITIONS,
    REPLAY_WINDOW_BYTES,
    TIME_ZONE,
)

LOCAL_BYTES = 1024 * 1024 * 1024
"""Default of the setting `REPLAY_LOCAL_BYTES`."""

WINDOW_BYTES = 256 * 1024 * 1024
"""Default of the setting `REPLAY_WINDOW_BYTES`."""


@dataclass(frozen=True, slots=True)
class DistributedScanBuilder:
    """Builds a `DistributedScan`; each method returns a new builder.

    Attributes:
        spark: a session, classic or Connect.
        num_partitions: number of tasks that replay the log. If None, the setting
            `bayou.replay.numPartitions` is used. With this argument or setting, Spark's executors
            always replay the log. With neither, the number depends on the size of the log, and
            this process replays a small log.
        frame: a DataFrame whose column `add` contains the live files, such as the result of
            `state_reconstruction`. The scan then returns these files in the DataFrame's order, and
            doesn't replay the log. Rows whose `add` is null are skipped. If None, the log is
            replayed.

    Examples:
        >>> scan = DistributedScanBuilder(spark, snapshot).with_filter("country = 'NZ'").build()
        >>> scan.dataframe().select("add.path").show()
    """

    spark: Any = field(repr=False)
    snapshot: Snapshot
    num_partitions: int | None = None
    frame: Any = field(default=None, repr=False)
    _files: ScanBuilder | None = field(default=None, repr=False, kw_only=True)
    _sorted: bool = field(default=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        """Raise `ArgumentError` if an argument has the wrong type or value."""
        check_session(self.spark)
        snapshot: object = self.snapshot
        if not isinstance(snapshot, Snapshot):
            raise ArgumentError(
                f"snapshot: the argument is a {type(snapshot).__name__}, not a Snapshot. Pass a "
                "snapshot of bayou.kernel, such as Table.for_path(engine, "
                "path).latest_snapshot(engine).",
                argument="snapshot",
            )
        tasks: object = self.num_partitions
        if tasks is not None and (not isinstance(tasks, int) or tasks < 1):
            raise ArgumentError(
                f"num_partitions: {tasks!r} isn't valid. It must be an integer of at least 1, or "
                "None to choose a number by the size of the log.",
                argument="num_partitions",
            )
        if self.frame is not None and not _has_adds(self.frame):
            raise ArgumentError(
                "frame: the DataFrame has no struct column 'add' with a field 'path'. Pass a "
                "DataFrame with the columns that state_reconstruction returns.",
                argument="frame",
            )

    def with_sort_key(self) -> DistributedScanBuilder:
        """Order files by (modificationTime, path), as in the initial snapshot of a stream.

        If the plan of `frame` already sorts the files in this order, they aren't sorted again
        (classic sessions only). An example is the result of `initial_snapshot_for_streaming`.
        """
        return replace(self, _sorted=True)

    def with_filter(self, filter: Predicate | str | None) -> DistributedScanBuilder:
        """Scan only files that may contain a matching row; see `ScanBuilder.with_filter`."""
        return replace(self, _files=self._builder.with_filter(filter))

    def with_read_schema(self, schema: StructType | None) -> DistributedScanBuilder:
        """Read only these columns; see `ScanBuilder.with_read_schema`."""
        return replace(self, _files=self._builder.with_read_schema(schema))

    def with_statistics(self) -> DistributedScanBuilder:
        """Return files with their statistics; see `ScanBuilder.with_statistics`."""
        return replace(self, _files=self._builder.with_statistics())

    def with_whole_adds(self) -> DistributedScanBuilder:
        """Return files with all fields of `add` actions; see `ScanBuilder.with_whole_adds`."""
        return replace(self, _files=self._builder.with_whole_adds())

    def with_time_zone(self, name: str) -> DistributedScanBuilder:
        """Use a time zone other than the session's; see `ScanBuilder.with_time_zone`."""
        return replace(self, _files=self._builder.with_time_zone(name))

    @property
    def _builder(self) -> ScanBuilder:
        if self._files is not None:
            return self._files
        builder = self.snapshot.scan_builder()
        zone = TIME_ZONE.string(spark=self.spark)
        return builder if zone is None else builder.with_time_zone(zone)

    def build(self) -> DistributedScan:
        """Build the scan.

        Raises:
            PredicateError, SchemaError: see `ScanBuilder.build`.
            ArgumentError: a setting has an invalid value.
        """
        spark = self.spark
        return DistributedScan(
            self._builder.build(),
            Replay(
                spark=spark,
                snapshot=self.snapshot,
                num_partitions=self.num_partitions or REPLAY_NUM_PARTITIONS.integer(spark=spark),
                local_bytes=REPLAY_LOCAL_BYTES.integer(spark=spark, default=LOCAL_BYTES),
                window_bytes=REPLAY_WINDOW_BYTES.integer(spark=spark, default=WINDOW_BYTES),
                sorted=self._sorted and not _is_sorted(self.frame),
                frame=self.frame,
            ),
        )


def _is_sorted(frame: Any) -> bool:
    """Whether a DataFrame's plan sorts the rows by `add.modificationTime` and `add.path`."""
    if frame is None or not isinstance(frame.sparkSession, SparkSession):
        return False
    time, path = F.col("add.modificationTime"), F.col("add.path")
    return any(is_sorted_by(frame, t, path) for t in (F.coalesce(time, F.lit(0)), time))


def _has_adds(frame: Any) -> bool:
    types = {field.name: field.dataType for field in frame.schema}
    add = types.get("add")
    return isinstance(add, SparkStructType) and "path" in add.names
