"""Atomic, exclusive creation of files on the local disk, and the folders created for them.

`publish_exclusively` publishes a complete file unless its name exists. `CreatedFolders` creates
folders and deletes those that are empty again. A new folder is durable only after its parent folder
is synced, which happens before a file is written to it, so that a commit survives a crash of the
machine.
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
    "PUBLISH_FUNCTIONS",
    "CreatedFolders",
    "is_unchanged",
    "publish_exclusively",
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
    """Rename a file atomically, and fail if `path` exists.

    Unlike a check followed by a rename, it can't replace a file that another writer creates in
    between.

    Raises:
        FileExistsError: `path` exists; the file there is unchanged.
        OSError: the file system or the operating system doesn't support this rename.
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


PUBLISH_FUNCTIONS: tuple[Callable[[str, str], None], ...] = (os.link, rename_exclusively)
"""Functions that name a file and fail if the name exists, the most widely supported first."""


def publish_exclusively(
    temporary: str,
    path: str,
    *,
    functions: Sequence[Callable[[str, str], None]] = PUBLISH_FUNCTIONS,
) -> bool:
    """Publish a complete file at `path`, unless `path` exists.

    Args:
        temporary: the complete file, in the same folder; it may be renamed.
        path: the final path.
        functions: functions of both paths that raise `FileExistsError` if `path` exists.

    Returns:
        Whether the file was published.

    Raises:
        StorageError: the file system supports none of the functions.
        OSError: another error of the operating system.
    """
    for way in functions:
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
        f"{path}: can't write: the file system has neither hard links nor exclusive renames, so "
        "that two writers could replace each other's commits. Move the table to another disk or "
        "to an object store.",
        path=path,
    )


def is_unchanged(path: str, status: os.stat_result, data: bytes) -> bool:
    """Whether `path` is still the file that was published there.

    A writer that checks for the name and then renames its own file, as delta-spark does on local
    disks, may replace the file.

    Args:
        path: the published path.
        status: status of the temporary file before it was published.
        data: content of the file; on some file systems a rename changes the inode.
    """
    with suppress(FileNotFoundError):  # deleted by log cleanup since
        if os.path.samestat(os.stat(path), status):
            return True
        with open(path, "rb") as file:
            return file.read(len(data) + 1) == data
    return True


class CreatedFolders:
    """Creates folders, and deletes only folders that it created. Thread-safe."""

    def __init__(self) -> None:
        self._made: set[str] = set()
        self._unsynced: set[str] = set()

    def create(self, folder: str, *, keep: bool = False) -> None:
        """Create a folder and its missing parents, and sync them.

        Args:
            folder: absolute path of the folder.
            keep: whether `delete_if_empty` keeps the new folders.

        Raises:
            NotADirectoryError: a part of the path is a file.
            OSError: another error of the operating system.
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
                    if not keep:
                        self._made.add(path)
            for path in reversed(self._unsynced_above(folder)):
                sync_folder(os.path.dirname(path))
        finally:
            self._unsynced.difference_update(missing)

    def _unsynced_above(self, folder: str) -> list[str]:
        """The folder and its parents that any thread is creating, innermost first."""
        folders: list[str] = []
        while folder in self._unsynced:
            folders.append(folder)
            folder = os.path.dirname(folder)
        return folders

    def delete_if_empty(self, folder: str) -> None:
        """Delete the folder and its parents that were created here and are empty."""
        while folder in self._made:
            try:
                os.rmdir(folder)
            except OSError:  # not empty, or already deleted
                return
            self._made.discard(folder)
            folder = os.path.dirname(folder)


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable.

    A folder without read permission can't be synced and is skipped.
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
    """The folder and its parents that don't exist, innermost first."""
    missing: list[str] = []
    while not os.path.isdir(folder):
        missing.append(folder)
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    return missing
