"""Folders of the local disk that were made for files, and go with the last one in them."""

from __future__ import annotations

import errno
import os

__all__ = ["MadeFolders"]


class MadeFolders:
    """Which folders were made here; others are never deleted. Safe in threads."""

    def __init__(self) -> None:
        self._made: set[str] = set()

    def make(self, folder: str) -> None:
        """Make a folder, and those around it, where they aren't there.

        Raises:
            NotADirectoryError: a file is in the way.
            OSError: as the system says.
        """
        missing: list[str] = []
        while not os.path.isdir(folder):
            missing.append(folder)
            around = os.path.dirname(folder)
            if around == folder:
                break
            folder = around
        for path in reversed(missing):
            try:
                os.mkdir(path)
            except FileExistsError as error:
                if not os.path.isdir(path):
                    raise NotADirectoryError(errno.ENOTDIR, "is a file", path) from error
            else:
                self._made.add(path)

    def leave(self, folder: str) -> None:
        """Delete a folder, and those around it, that were made here and are empty now."""
        while folder in self._made:
            try:
                os.rmdir(folder)
            except OSError:  # something is in it, or it is gone
                return
            self._made.discard(folder)
            folder = os.path.dirname(folder)
