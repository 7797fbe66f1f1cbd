"""Which version of a table a read is about."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bayou.engines import for_path
from bayou.errors import ArgumentError, MetadataChangedError
from bayou.kernel import Snapshot, Table
from bayou.kernel.engine import Engine
from bayou.spark.read.options import SourceOptions
from bayou.spark.read.time_travel_path import path_travel
from bayou.spark.read.timestamps import parse_timestamp

__all__ = ["PinnedVersion", "open_pinned", "travelled"]


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
