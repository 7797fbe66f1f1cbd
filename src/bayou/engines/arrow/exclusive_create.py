"""Give a complete file of the local disk its name, unless another file has the name.

Folders of the local disk that were made for files, and go with the last one in them.

A new folder is on the disk only once the folder around it is synced, which happens before a file is
put into it: a commit is a promise, and what it names must survive a crash of the machine.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from bayou.errors import StorageError

__all__ = [
    "WAYS",
    "MadeFolders",
    "is_still",
    "name_exclusively",
    "rename_exclusively",
    "sync_folder",
]


_UNSUPPORTED = frozenset(
    {
        errno.EPERM,
        errno.EOPNOTSUPP,
        errno.ENOTSUP,
        errno.ENOSYS,
        errno.EMLINK,
        errno.EXDEV,
        errno.EINVAL,
    }
)
_RENAME_NOREPLACE = 1  # renameat2(2) of Linux
_RENAME_EXCL = 4  # renamex_np(2) of macOS
_AT_FDCWD = -100


def rename_exclusively(temporary: str, path: str) -> None:
    """Rename a file in one step that fails where `path` exists.

    Unlike a look and a rename, it can't replace what a writer makes in between that knows no lock
    of ours.

    Raises:
        FileExistsError: there is a file at `path`; it stays as it is.
        OSError: the file system or the operating system has no such rename.
    """
    library = ctypes.CDLL(None, use_errno=True)
    old, new = os.fsencode(temporary), os.fsencode(path)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(old, new, _RENAME_EXCL)
        else:
            failed = library.renameat2(_AT_FDCWD, old, _AT_FDCWD, new, _RENAME_NOREPLACE)
    except AttributeError as error:  # an old or small C library
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path) from error
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)


WAYS: tuple[Callable[[str, str], None], ...] = (os.link, rename_exclusively)
"""Ways to name a file that fail where the name exists, the one that more disks have first."""


def name_exclusively(
    temporary: str, path: str, *, ways: Sequence[Callable[[str, str], None]] = WAYS
) -> bool:
    """Let a complete file appear at `path`, unless there is one.

    Args:
        temporary: the file, in the same folder; it may be gone afterwards.
        path: its name.
        ways: functions of both that raise `FileExistsError` where the name exists.

    Returns:
        Whether the name was free.

    Raises:
        StorageError: the file system has none of the ways.
        OSError: the file can't be named for another reason.
    """
    for way in ways:
        try:
            way(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            continue
        return True
    raise StorageError(
        f"can't write {path}: its file system has neither hard links nor renames that keep an "
        "existing file, so that two writers could replace each other's commits. Put the table on "
        "another disk or into an object store",
        path=path,
    )


def is_still(path: str, named: os.stat_result, data: bytes) -> bool:
    """Whether the file that was given this name is still there.

    A writer that looks and then renames, as delta-spark does on local disks, may replace it.

    Args:
        named: what `os.stat` told of the file before it had the name.
        data: what it holds; some file systems give a file another inode with another name.
    """
    with suppress(FileNotFoundError):  # cleaned up since
        if os.path.samestat(os.stat(path), named):
            return True
        with open(path, "rb") as file:
            return file.read(len(data) + 1) == data
    return True


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
