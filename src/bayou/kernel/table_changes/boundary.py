"""Where a range of commits begins and ends: a version, or a time."""

from __future__ import annotations

from dataclasses import dataclass

from bayou.errors import ArgumentError
from bayou.kernel.engine import Engine
from bayou.kernel.log.commit_times import version_at, version_at_or_after
from bayou.kernel.log.table_state import TableState

__all__ = ["CommitBoundary", "end_version", "start_version"]


@dataclass(frozen=True, slots=True)
class CommitBoundary:
    """A version, or a time in ms since the epoch; exactly one of them is set."""

    version: int | None = None
    timestamp: int | None = None

    def __post_init__(self) -> None:
        if (self.version is None) == (self.timestamp is None):
            raise ArgumentError(
                "A boundary of commits is a version or a timestamp, one of them.",
                argument="boundary",
            )
        if self.version is not None and self.version < 0:
            raise ArgumentError(
                f"A version is a number from 0 on, not {self.version}.", argument="version"
            )

    @classmethod
    def at_version(cls, version: int) -> CommitBoundary:
        """That version, which is part of the range."""
        return cls(version=version)

    @classmethod
    def at_timestamp(cls, timestamp: int) -> CommitBoundary:
        """As a start the first commit at or after the time, as an end the last at or before it."""
        return cls(timestamp=timestamp)


def start_version(engine: Engine, latest: TableState, boundary: CommitBoundary) -> int:
    """The version that a start names; raises as `version_at_or_after` does."""
    if boundary.version is not None:
        return boundary.version
    assert boundary.timestamp is not None  # one of them is set
    return version_at_or_after(engine, latest, boundary.timestamp)


def end_version(engine: Engine, latest: TableState, boundary: CommitBoundary) -> int:
    """The version that an end names; raises as `version_at` does."""
    if boundary.version is not None:
        return boundary.version
    assert boundary.timestamp is not None  # one of them is set
    return version_at(engine, latest, boundary.timestamp)
