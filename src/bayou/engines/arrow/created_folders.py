"""Folders of the local disk that were made for files, and go with the last one in them.

A new folder is on the disk only once the folder around it is synced, which happens before a file is
put into it: a commit is a promise, and what it names must survive a crash of the machine.
"""

from __future__ import annotations

import errno
import os

__all__ = ["MadeFolders", "sync_folder"]


class MadeFolders:
    """Which folders were made here; others are never deleted. Safe in threads."""

    def __init__(self) -> None:
        self._made: set[str] = set()
        self._unsynced: set[str] = set()

    def make(self, folder: str, *, stays: bool = False) -> None:
        """Make a folder, and those around it, where they aren't there; they are synced.

        Args:
            folder: an absolute path.
            stays: `leave` doesn't delete it.

        Raises:
            NotADirectoryError: a file is in the way.
            OSError: as the system says.
        """
        missing = _missing(folder)
        self._unsynced.update(missing)
        try:
            for path in reversed(missing):
                try:
                    os.mkdir(path)
                except FileExistsError as error:
                    if not os.path.isdir(path):
                        raise NotADirectoryError(errno.ENOTDIR, "is a file", path) from error
                else:
                    if not stays:
                        self._made.add(path)
            for path in reversed(self._unsynced_above(folder)):
                sync_folder(os.path.dirname(path))
        finally:
            self._unsynced.difference_update(missing)

    def _unsynced_above(self, folder: str) -> list[str]:
        """A folder and those around it that this thread or another one is making."""
        found: list[str] = []
        while folder in self._unsynced:
            found.append(folder)
            folder = os.path.dirname(folder)
        return found

    def leave(self, folder: str) -> None:
        """Delete a folder, and those around it, that were made here and are empty now."""
        while folder in self._made:
            try:
                os.rmdir(folder)
            except OSError:  # something is in it, or it is gone
                return
            self._made.discard(folder)
            folder = os.path.dirname(folder)


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable.

    A folder that may be written and not read can't be synced; it is passed over.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that can't sync folders
            raise
    finally:
        os.close(descriptor)


def _missing(folder: str) -> list[str]:
    """A folder and those around it that aren't there, the innermost first."""
    found: list[str] = []
    while not os.path.isdir(folder):
        found.append(folder)
        around = os.path.dirname(folder)
        if around == folder:
            break
        folder = around
    return found
