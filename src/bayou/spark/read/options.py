"""Options of reads of the `delta` format: what users set with `.option(...)`.

Spark hands them to Python in lower case, and a read or write knows nothing else; `enable` hands
over as options what it takes from the session's conf, its time zone among it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bayou.errors import ArgumentError
from bayou.spark.read.timestamps import parse_timestamp
from bayou.spark.session.option_values import (
    boolean_option,
    integer_option,
    path_option,
    whole_number,
)
from bayou.spark.session.settings import REPLAY_NUM_PARTITIONS, TIME_ZONE
from bayou.spark.session.storage_options import storage_options

__all__ = ["SourceOptions", "storage_options"]


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
