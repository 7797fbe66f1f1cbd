"""Folders on stores that have none: the prefixes of names that end with a slash."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["SkippedPrefixes"]


class SkippedPrefixes:
    """Which objects below a root lie in a folder that is skipped; each folder is asked for once.

    Args:
        root: without a trailing slash; it isn't asked for itself.
        skips: whether a folder is skipped, by its path.
    """

    def __init__(self, root: str, skips: Callable[[str], bool]) -> None:
        self._known = {root: False}
        self._skips = skips

    def holds(self, path: str) -> bool:
        """Whether an object lies in a skipped folder."""
        return self._is_skipped(path.rpartition("/")[0])

    def _is_skipped(self, folder: str) -> bool:
        found = self._known.get(folder)
        if found is None:
            above = self._is_skipped(folder.rpartition("/")[0])
            found = self._known[folder] = above or self._skips(folder)
        return found
