"""At which commit a new stream begins, and whether the table is there for one that goes on.

A new stream that has nothing to read yet, and so should wait without a first batch.

Spark runs a batch as soon as a stream without a checkpoint says where it ends, and a Python source
can't leave that open. The driver's process can tell Spark where the stream begins, and then Spark
sees that it ends where it begins.
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
from bayou.spark.streaming.driver_files import ask
from bayou.spark.streaming.errors import refusal
from bayou.spark.streaming.options import LATEST, StreamOptions

__all__ = [
    "STARTED",
    "WAITS",
    "WaitingStream",
    "begins_at",
    "latest_version_behind",
    "starting_version",
    "waiting_streams",
]


def starting_version(
    engine: Engine, state: TableState, options: StreamOptions, timestamp: int | None
) -> int | None:
    """The first commit to read; None where the stream begins with the table as it is.

    Args:
        timestamp: `startingTimestamp` in ms since the epoch.

    Raises:
        StreamingSourceError: there is no such commit.
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
        raise refusal(
            "DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
            f"startingTimestamp {options.starting_timestamp}: {error.message}",
            table=state.path,
        ) from error


def latest_version_behind(engine: Engine, table: str, next_version: int) -> int:
    """The latest version of a table of which a stream has read all that comes before one.

    Raises:
        StreamingSourceError: the table doesn't reach that far. It was set back, and what is
            committed now would be passed over in silence.
    """
    latest = load_table_state(engine, table).version
    if next_version > latest + 1:
        raise refusal(
            "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
            f"The checkpoint says that {table} has version {next_version - 1}, but its latest one "
            f"is {latest}: commits are missing, as in a table that was brought back from an older "
            "copy. Restore them, or start over with a new checkpoint.",
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
    raise refusal(
        "DELTA_VERSION_NOT_FOUND",
        f"{table} has no commit {version} to start with (startingVersion); its log has versions "
        f"{'none' if earliest is None else earliest} to {latest}.",
        table=table,
        version=version,
    )


WAITS = "waits"
STARTED = "started"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingStream:
    """A stream that waits, and the text of the offset that it begins with."""

    offset: str
    folder: Path


def begins_at(shared: Path | None, offset: str) -> bool:
    """Have the driver's process tell Spark where this stream begins; whether it could.

    Args:
        shared: the folder of both processes, None for none.
        offset: the text that Spark has it by.
    """
    folder = f"{WAITS}-{uuid.uuid4()}"
    return ask(shared, folder, WAITS, _started, offset) is not None


def waiting_streams(shared: Path) -> list[WaitingStream]:
    """The streams that wait in a folder."""
    return [
        WaitingStream(offset=file.read_text(), folder=file.parent)
        for file in shared.glob(f"*/{WAITS}")
    ]


def _started(folder: Path) -> bool | None:
    return True if (folder / STARTED).exists() else None
