"""The first version that a stream reads, and requests to set a stream's start offset in Spark.

If a query has no checkpoint, Spark doesn't know the stream's start offset, and runs a first batch
even if there are no rows. To avoid this empty batch, the stream asks the driver's process to set
the start offset in Spark. Spark then runs no batch until the end offset is after the start offset.
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
from bayou.spark.streaming.errors import missing_commits_error, streaming_error
from bayou.spark.streaming.options import LATEST, StreamOptions


def starting_version(
    engine: Engine, state: TableState, options: StreamOptions, timestamp: int | None
) -> int | None:
    """Return the first version to read; None if the stream starts with an initial snapshot.

    Args:
        state: the state of any version of the table; only the table's path is used.
        timestamp: `startingTimestamp` in ms since the epoch; None if not set.

    Raises:
        StreamingSourceError: the log doesn't have the starting version, or no commit is at or after
            the starting timestamp.
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
    """Return a table's latest version.

    Args:
        next_version: the version that the stream reads next.

    Raises:
        StreamingSourceError: the stream has already read a version that is later than the latest
            version, because the table was replaced by an older copy. The stream would skip new
            commits of versions that it has already read.
    """
    latest = load_table_state(engine, table).version
    if next_version > latest + 1:
        raise missing_commits_error(
            table,
            f"The stream has read version {next_version - 1}, but the table's latest version is "
            f"{latest}.",
            latest + 1,
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
    present = "no commits" if earliest is None else f"commits of versions {earliest} to {latest}"
    raise streaming_error(
        "DELTA_VERSION_NOT_FOUND",
        f"Table {table}: startingVersion {version} isn't in the log, which has {present}. Use a "
        "version in the log.",
        table=table,
        version=version,
    )


WAITS = "waits"
STARTED = "started"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingStream:
    """A request to set the start offset of a stream that waits for its first commit.

    Attributes:
        offset: JSON of the stream's start offset.
        folder: subfolder of the request.
    """

    offset: str
    folder: Path


def set_start_offset(shared: Path | None, offset: str) -> bool:
    """Ask the driver's process to set a stream's start offset in Spark.

    Args:
        shared: the folder that both processes share; None if there is none.
        offset: JSON of the offset, in the form that Spark stores in the checkpoint.

    Returns:
        Whether the start offset was set.
    """
    folder = f"{WAITS}-{uuid.uuid4()}"
    return request(shared, folder, WAITS, _is_started, offset) is not None


def waiting_streams(shared: Path) -> list[WaitingStream]:
    """Read the requests of `set_start_offset` in a shared folder."""
    return [
        WaitingStream(offset=file.read_text(), folder=file.parent)
        for file in shared.glob(f"*/{WAITS}")
    ]


def _is_started(folder: Path) -> bool | None:
    return True if (folder / STARTED).exists() else None
