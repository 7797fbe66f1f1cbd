"""Reads a topic's `route-by` tables, without a running pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from bayou.api import SnapshotHandle, table
from bayou.ingest.background_task import run_parallel
from bayou.ingest.config import Configuration, Topic
from bayou.ingest.routing.former_tables import registered_snapshots
from bayou.ingest.routing.table_registrations import absolute_path, check_table, registered_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedTableStatus:
    """The status of a table of `route-by`.

    Attributes:
        table: the name of the table.
        version: the table's latest version.
        rows: number of rows in this version.
        files: number of data files in this version.
        bytes: total size of these files.
    """

    table: str
    table_path: str
    version: int
    rows: int
    files: int
    bytes: int


def routed_statuses(
    configuration: Configuration, topic: Topic, default: SnapshotHandle
) -> tuple[RoutedTableStatus, ...]:
    """Return the status of each registered table of `route-by` that exists.

    Args:
        default: the default table (the table of `destination.table-path`), in which the other
            tables are registered.

    Raises:
        PipelineError: a table was deleted, replaced or rolled back.
    """
    if topic.routes is None:
        return ()
    options = configuration.connector.storage.storage_options()
    names = {t.table_path: t.routed_table for t in routed_topics(topic, default)}

    def status(path: str) -> RoutedTableStatus | None:
        handle = table(path, options)
        if not handle.exists():
            return None
        snapshot, detail = handle.snapshot(), handle.detail()
        return RoutedTableStatus(
            table=names[path] or "",
            table_path=path,
            version=detail.version,
            rows=snapshot.count(),
            files=detail.num_files,
            bytes=detail.size_in_bytes,
        )

    routed_snapshots(configuration, topic, default)
    statuses = run_parallel(status, sorted(names))
    return tuple(s for s in statuses if s is not None)


def routed_topics(topic: Topic, default: SnapshotHandle | None) -> tuple[Topic, ...]:
    """Return a copy of the topic for each registered table; see `Topic.routed`.

    A registered table may not exist yet, because it is registered before the first commit to it.

    Args:
        default: the default table (the table of `destination.table-path`), in which the other
            tables are registered; None if the default table doesn't exist.
    """
    routes = topic.routes
    if routes is None or default is None:
        return ()
    paths = sorted(registered_tables(default.transactions))
    return tuple(topic.routed(routes.at(absolute_path(p, topic.table_path))) for p in paths)


def routed_snapshots(
    configuration: Configuration, topic: Topic, default: SnapshotHandle
) -> tuple[SnapshotHandle, ...]:
    """Return the latest snapshot of each registered table of `route-by` that exists.

    Args:
        default: the default table (the table of `destination.table-path`), in which the other
            tables are registered.

    Raises:
        PipelineError: a table was deleted, replaced or rolled back. This isn't checked if the
            configuration no longer has `route-by`.
    """
    options = configuration.connector.storage.storage_options()
    routes = topic.routes
    if routes is None:
        return registered_snapshots(topic, default, options)
    entries = sorted(registered_tables(default.transactions).items())

    def snapshot(number: int) -> SnapshotHandle | None:
        relative, entry = entries[number]
        path = absolute_path(relative, topic.table_path)
        handle = table(path, options)
        latest = handle.snapshot() if handle.exists() else None
        table_id = None if latest is None else latest.kernel.table_id
        version = None if latest is None else latest.version
        check_table(topic.routed(routes.at(path)), entry, table_id, version)
        return latest

    snapshots = run_parallel(snapshot, range(len(entries)))
    return tuple(s for s in snapshots if s is not None)
