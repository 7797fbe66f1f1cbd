"""The version at which a stream starts, and streams that wait for their first commit.

Spark runs a batch for every stream without a checkpoint, because it knows no start offset, and a
Python source must return an end offset. To wait without a first batch, a stream asks the driver's
process to set the start offset in Spark. Spark then sees that the end offset equals the start.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from bayou.errors import VersionNotFoundError
from bayou.kernel.engine import Engine
from bayou.kernel.log.commit_times import version_at_or_after
from bayou.kernel.log.segment import commit_files
from bayou.kernel.log.table_state import TableState, load_table_state
from bayou.spark.streaming.driver_files import request
from bayou.spark.streaming.errors import streaming_error
from bayou.spark.streaming.options import LATEST, StreamOptions

__all__ = [
    "STARTED",
    "WAITS",
    "WaitingStream",
    "checked_latest_version",
    "set_start_offset",
    "starting_version",
    "waiting_streams",
]


def starting_version(
    engine: Engine, state: TableState, options: StreamOptions, timestamp: int | None
) -> int | None:
    """The first version to read; None for a stream that starts with an initial snapshot.

    Args:
        engine: reads the log.
        state: a state of the table.
        options: the stream's options.
        timestamp: `startingTimestamp` in ms since the epoch; None if not set.

    Raises:
        StreamingSourceError: the commit doesn't exist.
    """
    if options.starting_version == LATEST:
        return load_table_state(engine, state.path).version + 1
    if isinstance(options.starting_version, int):
        return _existing(engine, state.path, options.starting_version)
    if timestamp is None:
        return None
    latest = load_table_state(engine, state.path)
    try:
        return version_at_or_after(engine, latest, timestamp)
    except VersionNotFoundError as error:
        raise streaming_error(
            "DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
            f"startingTimestamp {options.starting_timestamp}: {error.message}",
            table=state.path,
        ) from error


def checked_latest_version(engine: Engine, table: str, next_version: int) -> int:
    """The latest version of a table, which a stream has read up to before `next_version`.

    Raises:
        StreamingSourceError: the latest version is older than the versions read. The table was
            restored from a copy, and the stream would silently skip new commits.
    """
    latest = load_table_state(engine, table).version
    if next_version > latest + 1:
        raise streaming_error(
            "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
            f"Table {table}: commits are missing. The stream's checkpoint contains version "
            f"{next_version - 1}, but the latest version is {latest}, as after a restore from an "
            "older copy. Restore the commits, or start the query with a new checkpointLocation.",
            table=table,
            version=latest + 1,
        )
    return latest


def _existing(engine: Engine, table: str, version: int) -> int:
    with commit_files(engine, table, version) as commits:
        first = next((v for v, _ in commits), None)
    if first == version:
        return version
    with commit_files(engine, table) as commits:
        earliest = next((v for v, _ in commits), None)
    latest = load_table_state(engine, table).version
    raise streaming_error(
        "DELTA_VERSION_NOT_FOUND",
        f"Table {table}: startingVersion {version} isn't in the log, which has versions "
        f"{'none' if earliest is None else earliest} to {latest}. Use one of these versions.",
        table=table,
        version=version,
    )


WAITS = "waits"
STARTED = "started"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingStream:
    """A stream that waits for its first commit.

    Attributes:
        offset: JSON of the stream's start offset.
        folder: subfolder of the stream's request.
    """

    offset: str
    folder: Path


def set_start_offset(shared: Path | None, offset: str) -> bool:
    """Ask the driver's process to set a stream's start offset in Spark, and return whether it did.

    Args:
        shared: the folder that both processes share; None without one.
        offset: the offset's JSON as Spark stores it.
    """
    folder = f"{WAITS}-{uuid.uuid4()}"
    return request(shared, folder, WAITS, _is_started, offset) is not None


def waiting_streams(shared: Path) -> list[WaitingStream]:
    """The streams that wait, as requests in a shared folder."""
    return [
        WaitingStream(offset=file.read_text(), folder=file.parent)
        for file in shared.glob(f"*/{WAITS}")
    ]


def _is_started(folder: Path) -> bool | None:
    return True if (folder / STARTED).exists() else None
