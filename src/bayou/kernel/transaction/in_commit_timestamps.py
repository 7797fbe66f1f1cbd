"""In-commit timestamps, and the version that enables them (PROTOCOL.md, In-Commit Timestamps).

Each attempt of a commit computes the timestamp again, because the timestamp depends on the winning
commits.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bayou.kernel.log.commit_times import commit_timestamp, in_commit_time
from bayou.kernel.log.replay import CommitActions
from bayou.kernel.log.table_state import TableState
from bayou.protocol.actions import CommitInfo, Metadata

ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


def in_commit_timestamp(
    now: int, state: TableState | None, winners: Sequence[CommitActions]
) -> int:
    """Return the in-commit timestamp of a new commit, ms since the epoch.

    This is the later of `now` and the previous commit's timestamp plus 1. If the previous commit
    has no in-commit timestamp, its timestamp is the modification time of its file or
    `commitInfo.timestamp`, whichever is later.
    """
    if state is None:
        return now
    previous = commit_timestamp(state)
    for winner in winners:
        timestamp = in_commit_time(winner.actions)
        # The timestamp of a commit without `inCommitTimestamp` is computed as readers compute it.
        previous = max(_file_time(winner), previous + 1) if timestamp is None else timestamp
    return max(now, previous + 1)


def with_enablement(metadata: Metadata, version: int, timestamp: int) -> Metadata:
    """Return the metadata with the version and time at which in-commit timestamps are enabled."""
    return msgspec.structs.replace(
        metadata,
        configuration={
            **metadata.configuration,
            ENABLEMENT_VERSION: str(version),
            ENABLEMENT_TIMESTAMP: str(timestamp),
        },
    )


def _file_time(winner: CommitActions) -> int:
    """Return a commit file's modification time or `commitInfo.timestamp`, whichever is later."""
    info = next((a for a in winner.actions if isinstance(a, CommitInfo)), None)
    timestamp = None if info is None else info.integer("timestamp")
    return max(winner.file.modification_time, timestamp or 0)
