"""Filters of file listings: by path range, and by folder (a key prefix in object stores)."""

from __future__ import annotations

from collections.abc import Callable


def is_in_range(path: str, after: str | None, until: str | None) -> bool:
    """Whether `after < path <= until`. A limit that is None doesn't apply."""
    # Python compares strings by code points, which is also the order of their UTF-8 bytes.
    return (after is None or path > after) and (until is None or path <= until)


class SkippedPrefixes:
    """Determines which of the objects below a root are in skipped folders.

    Args:
        root: URI without a trailing slash. This folder is never skipped.
        skips: function that returns whether to skip a folder; called once for each folder.
    """

    def __init__(self, root: str, skips: Callable[[str], bool]) -> None:
        self._known = {root: False}
        self._skips = skips

    def contains(self, path: str) -> bool:
        """Whether an object is in a skipped folder."""
        return self._is_skipped(path.rpartition("/")[0])

    def _is_skipped(self, folder: str) -> bool:
        skipped = self._known.get(folder)
        if skipped is None:
            parent_skipped = self._is_skipped(folder.rpartition("/")[0])
            skipped = self._known[folder] = parent_skipped or self._skips(folder)
        return skipped
