"""Whether a table has more files than a stream may begin with."""

from __future__ import annotations

from bayou.errors import ArgumentError
from bayou.kernel.crc.file_totals import count_files
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.spark.session.settings import MAX_INITIAL_SNAPSHOT_FILE_COUNT

__all__ = ["check_initial_files", "refuse_more_files"]


def check_initial_files(engine: Engine, state: TableState, limit: int | None) -> None:
    """Refuse a version with more files than a limit; None for no limit.

    The version's checksum says how many there are; without one they are counted in one pass over
    the log. No list of files is made.

    Raises:
        ArgumentError: see `refuse_more_files`.
    """
    if limit is not None:
        refuse_more_files(state, count_files(engine, state), limit)


def refuse_more_files(state: TableState, count: int, limit: int) -> None:
    """Refuse a number of files that is above a limit.

    Raises:
        ArgumentError: it is; names count, limit and setting.
    """
    if count > limit:
        raise ArgumentError(
            f"{state.path} has {count} files in version {state.version}, and a stream may begin "
            f"with at most {limit} ({' or '.join(MAX_INITIAL_SNAPSHOT_FILE_COUNT.names)}). Raise "
            "the setting, or begin with startingVersion or startingTimestamp, which read no "
            "initial snapshot.",
            argument=MAX_INITIAL_SNAPSHOT_FILE_COUNT.name,
        )
