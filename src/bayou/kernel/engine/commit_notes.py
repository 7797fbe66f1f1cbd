"""What commits say of their own accord, whichever operation makes them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["CommitNotes"]


@runtime_checkable
class CommitNotes(Protocol):
    """What an engine may offer besides an `Engine`'s handlers.

    A connector whose sessions have settings for commits asks them here, and not every operation
    needs an argument for that.
    """

    @property
    def user_metadata(self) -> str | None:
        """`commitInfo.userMetadata` of commits that have none of their own; None for none."""
        ...
