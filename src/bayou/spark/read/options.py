"""Options of reads of the `delta` format: what users set with `.option(...)`.

Spark hands them to Python in lower case, and a read or write knows nothing else; `enable` hands
over as options what it takes from the session's conf, its time zone among it.

Which version of a table a read is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bayou.engines import for_path
from bayou.errors import ArgumentError, MetadataChangedError
from bayou.kernel import Snapshot, Table
from bayou.kernel.engine import Engine
from bayou.spark.read.time_travel import parse_timestamp, path_travel
from bayou.spark.session.settings import REPLAY_NUM_PARTITIONS, TIME_ZONE
from bayou.spark.session.storage_options import (
    boolean_option,
    integer_option,
    path_option,
    storage_options,
    whole_number,
)

__all__ = ["PinnedVersion", "SourceOptions", "open_pinned", "storage_options", "travelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options of one read, parsed and checked.

    Attributes:
        path: the table's path as the user gave it.
        version: `versionAsOf`.
        timestamp: `timestampAsOf`, in ms since the epoch.
        filter: `filter`, SQL text; only rows for which it is true are read.
        push_filters: `pushFilters`, whether filters that Spark pushes skip files.
        min_partitions: `minPartitions`, the number of tasks to aim at for a small table.
        max_partition_bytes: `maxPartitionBytes`, about how much a task reads.
        replay_partitions: `bayou.replay.numPartitions`, in how many slices tasks replay a large
            log.
        time_zone: `bayou.timeZone`, of timestamps in options and partition values that say none.
        storage: storage options in deltalake's names.
    """

    path: str
    version: int | None = None
    timestamp: int | None = None
    filter: str | None = None
    push_filters: bool = False
    min_partitions: int | None = None
    max_partition_bytes: int | None = None
    replay_partitions: int | None = None
    time_zone: str = "UTC"
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """The options of a reader; those that aren't ours are passed over, as Spark does.

        Raises:
            ArgumentError: no path, or an option whose value makes no sense.
        """
        given = {key.lower(): value for key, value in options.items()}
        path = path_option(given)
        zone = TIME_ZONE.text(given) or "UTC"
        version, timestamp = given.get("versionasof"), given.get("timestampasof")
        if version is not None and timestamp is not None:
            raise ArgumentError(
                "versionAsOf and timestampAsOf are both set; a read takes one of them.",
                argument="versionAsOf",
            )
        return cls(
            path=path,
            version=None if version is None else whole_number("versionAsOf", version, 0),
            timestamp=None
            if timestamp is None
            else parse_timestamp("timestampAsOf", timestamp, zone),
            filter=given.get("filter"),
            push_filters=boolean_option(given, "pushFilters"),
            min_partitions=integer_option(given, "minPartitions"),
            max_partition_bytes=integer_option(given, "maxPartitionBytes"),
            replay_partitions=REPLAY_NUM_PARTITIONS.integer(given),
            time_zone=zone,
            storage=storage_options(given),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedVersion:
    """A version that `schema()` has decided on; the table's id says that it is still that table."""

    version: int
    table_id: str


def open_pinned(options: SourceOptions, pinned: PinnedVersion | None) -> tuple[Engine, Snapshot]:
    """The engine for the path, and the version that is pinned or that the options ask for.

    Raises:
        ArgumentError: options and path say two versions.
        TableNotFoundError, VersionNotFoundError: there is no such table or version.
        MetadataChangedError: another table stands at the path now.
    """
    engine = for_path(options.path, options.storage)
    options = travelled(engine, options)
    table = Table.for_path(engine, options.path)
    if pinned is not None:
        snapshot = table.snapshot_as_of_version(engine, pinned.version)
        if snapshot.table_id != pinned.table_id:
            raise MetadataChangedError(
                f"{table.path} was replaced by another table (id {snapshot.table_id}) since "
                f"load() opened it (id {pinned.table_id}). Call load() again.",
                table=table.path,
                winning_version=snapshot.version,
            )
        return engine, snapshot
    if options.version is not None:
        return engine, table.snapshot_as_of_version(engine, options.version)
    if options.timestamp is not None:
        return engine, table.snapshot_as_of_timestamp(engine, options.timestamp)
    return engine, table.latest_snapshot(engine)


def travelled(engine: Engine, options: SourceOptions) -> SourceOptions:
    """Options that say what the end of a path says, unless a table stands at the very path.

    Raises:
        ArgumentError: they say a version or time already.
    """
    travel = path_travel(options.path)
    if travel is None or Table.for_path(engine, options.path).exists(engine):
        return options
    if options.version is not None or options.timestamp is not None:
        raise ArgumentError(
            f"[DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS] The path {options.path} says which "
            "version, and so does versionAsOf or timestampAsOf; a read takes one of them.",
            argument="versionAsOf",
        )
    timestamp = travel.timestamp
    return replace(
        options,
        path=travel.path,
        version=travel.version,
        timestamp=None
        if timestamp is None
        else parse_timestamp("The time at the end of the path", timestamp, options.time_zone),
    )
