"""Read options of the format `delta`, and the version that a read uses.

Spark passes option names in lower case. The process that plans a read can't access the session's
conf. Therefore the hooks pass settings of the conf, such as the time zone, as options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bayou.engines import for_path
from bayou.errors import ArgumentError, MetadataChangedError
from bayou.kernel import Snapshot, Table
from bayou.kernel.engine import Engine
from bayou.spark.read.time_travel import parse_timestamp, path_travel
from bayou.spark.session.settings import REPLAY_LOCAL_BYTES, REPLAY_NUM_PARTITIONS, TIME_ZONE
from bayou.spark.session.storage_options import (
    boolean_option,
    integer_option,
    parse_integer,
    path_option,
    storage_options,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Parsed options of a read.

    Attributes:
        path: `path`, the table's path as the user wrote it.
        version: `versionAsOf`.
        timestamp: `timestampAsOf`, in ms since the epoch.
        filter: `filter`, a SQL condition; only matching rows are read.
        push_filters: `pushFilters`, whether filters that Spark pushes down are used to skip files.
        min_partitions: `minPartitions`, the target number of tasks for a small table.
        max_partition_bytes: `maxPartitionBytes`, the approximate number of bytes that a task reads.
        replay_partitions: `bayou.replay.numPartitions`, the number of log slices. If set, tasks
            replay logs of any size.
        replay_local_bytes: `bayou.replay.localBytes`, the maximum size of a log that the planning
            process replays. Tasks replay larger logs.
        time_zone: `bayou.timeZone`, the time zone of timestamp strings that don't contain a time
            zone, in options and partition values.
        storage: storage options, under deltalake's names.
    """

    path: str
    version: int | None = None
    timestamp: int | None = None
    filter: str | None = None
    push_filters: bool = False
    min_partitions: int | None = None
    max_partition_bytes: int | None = None
    replay_partitions: int | None = None
    replay_local_bytes: int | None = None
    time_zone: str = "UTC"
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parse the options of a reader. Unknown options are ignored, as in Spark."""
        lower_case = {key.lower(): value for key, value in options.items()}
        path = path_option(lower_case)
        zone = TIME_ZONE.string(lower_case) or "UTC"
        version, timestamp = lower_case.get("versionasof"), lower_case.get("timestampasof")
        if version is not None and timestamp is not None:
            raise ArgumentError(
                "versionAsOf: versionAsOf and timestampAsOf are both set. Set one of them.",
                argument="versionAsOf",
            )
        return cls(
            path=path,
            version=None if version is None else parse_integer("versionAsOf", version, 0),
            timestamp=None
            if timestamp is None
            else parse_timestamp("timestampAsOf", timestamp, zone),
            filter=lower_case.get("filter"),
            push_filters=boolean_option(lower_case, "pushFilters"),
            min_partitions=integer_option(lower_case, "minPartitions"),
            max_partition_bytes=integer_option(lower_case, "maxPartitionBytes"),
            replay_partitions=REPLAY_NUM_PARTITIONS.integer(lower_case),
            replay_local_bytes=REPLAY_LOCAL_BYTES.integer(lower_case),
            time_zone=zone,
            storage=storage_options(lower_case),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedVersion:
    """The version that `DeltaDataSource.schema` opened, and the table's id.

    The id shows whether the table was later replaced by another table at the same path.
    """

    version: int
    table_id: str


def open_pinned(options: SourceOptions, pinned: PinnedVersion | None) -> tuple[Engine, Snapshot]:
    """Open the pinned version of a table.

    If `pinned` is None, the version or timestamp in the options is opened, or the latest version if
    the options have neither.

    Raises:
        MetadataChangedError: after the version was pinned, the table was replaced by another one.
    """
    engine = for_path(options.path, options.storage)
    options = with_path_version(engine, options)
    table = Table.for_path(engine, options.path)
    if pinned is not None:
        snapshot = table.snapshot_as_of_version(engine, pinned.version)
        if snapshot.table_id != pinned.table_id:
            raise MetadataChangedError(
                f"{table.path}: the table was replaced by another table (id {snapshot.table_id}) "
                f"after load() opened it (id {pinned.table_id}). Call load() again.",
                table=table.path,
                winning_version=snapshot.version,
            )
        return engine, snapshot
    if options.version is not None:
        return engine, table.snapshot_as_of_version(engine, options.version)
    if options.timestamp is not None:
        return engine, table.snapshot_as_of_timestamp(engine, options.timestamp)
    return engine, table.latest_snapshot(engine)


def with_path_version(engine: Engine, options: SourceOptions) -> SourceOptions:
    """Move a version or timestamp such as `@v12` from the end of `path` to its own attribute.

    If a table exists at the whole path, the options are returned unchanged.

    Raises:
        ArgumentError: both the path and an option specify a version or timestamp.
    """
    path_version = path_travel(options.path)
    if path_version is None or Table.for_path(engine, options.path).exists(engine):
        return options
    if options.version is not None or options.timestamp is not None:
        raise ArgumentError(
            f"[DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS] {options.path}: the path has a "
            "version, and versionAsOf or timestampAsOf is set too. Use one of them.",
            argument="versionAsOf",
        )
    timestamp = path_version.timestamp
    return replace(
        options,
        path=path_version.path,
        version=path_version.version,
        timestamp=None
        if timestamp is None
        else parse_timestamp("timestamp in the path", timestamp, options.time_zone),
    )
