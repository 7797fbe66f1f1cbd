"""Table arguments of queries: paths, handles of tables, and handles of versions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeAlias

from bayou.api.rows.read import Timestamp
from bayou.api.snapshot import SnapshotHandle
from bayou.api.table import TableHandle, table
from bayou.errors import ArgumentError

TableSource: TypeAlias = str | os.PathLike[str] | TableHandle | SnapshotHandle
"""Path or URI of a table, or a handle of the table or of one version."""


def open_snapshot(
    source: TableSource,
    storage_options: Mapping[str, str] | None = None,
    version: int | None = None,
    timestamp: Timestamp | None = None,
) -> SnapshotHandle:
    """Open the version of a table that a query reads.

    See `bayou.table` and `TableHandle.snapshot` for the arguments.
    """
    if not isinstance(source, TableHandle | SnapshotHandle):
        return table(source, storage_options).snapshot(version, timestamp)
    if storage_options is not None:
        raise ArgumentError(
            "storage_options: the table is already open. Give the options to bayou.table.",
            argument="storage_options",
        )
    if isinstance(source, TableHandle):
        return source.snapshot(version, timestamp)
    if version is not None or timestamp is not None:
        raise ArgumentError(
            f"version: the table was opened at version {source.version}. Remove version and "
            "timestamp, or open the table without a version.",
            argument="version",
        )
    return source
