"""Paths in listings; folders of stores that have none are the prefixes that end with a slash."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["SkippedPrefixes", "is_between"]


def is_between(path: str, after: str | None, until: str | None) -> bool:
    """Whether a path lies behind the one and up to the other; None for no end."""
    # Python compares texts by code points, which is the order of their UTF-8 bytes.
    return (after is None or path > after) and (until is None or path <= until)


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
