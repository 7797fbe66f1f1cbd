"""Atomic, exclusive creation of files and their folders on the local disk.

Before a file is written to a new folder, the folder's parent is synced. Otherwise, a commit could
be lost in a crash of the machine.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from bayou.errors import StorageError

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

FOLDER_TRIES = 100
"""Maximum number of attempts to create a folder that other writers delete because it is empty."""


def rename_exclusively(temporary: str, path: str) -> None:
    """Rename a file atomically; fail if `path` exists, also if it is created concurrently.

    Raises:
        FileExistsError: `path` exists; the file there is unchanged.
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
"""Functions that rename or link a file and fail if the target exists; they are tried in order."""


def publish_exclusively(
    temporary: str,
    path: str,
    *,
    functions: Sequence[Callable[[str, str], None]] = PUBLISH_FUNCTIONS,
) -> bool:
    """Publish a complete file at `path`; return False if `path` exists already.

    Args:
        temporary: path of the complete file, in the same folder. The file may be renamed.
        functions: functions that link or rename `temporary` to `path`. They are tried in order,
            until the file system supports one. Each raises `FileExistsError` if `path` exists.

    Raises:
        StorageError: the file system supports none of the functions.
    """
    for publish in functions:
        try:
            publish(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            continue
        return True
    raise StorageError(
        f"{path}: can't write: the file system has neither hard links nor exclusive renames, so "
        "concurrent writers could replace each other's commits. Move the table to another disk or "
        "to an object store.",
        path=path,
    )


def is_unchanged(path: str, status: os.stat_result, data: bytes) -> bool:
    """Whether the file at `path` is still the file that was published there.

    On local disks, delta-spark can replace the file: it first checks that there is no file at the
    path, and later renames its own file to the path. If there is no file at the path now, log
    cleanup has deleted the published file, and the result is True.

    Args:
        status: status of the published file.
        data: content of the published file. It is compared if the inode differs, because a rename
            changes the inode on some file systems.
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
        self._created: set[str] = set()
        self._unsynced: set[str] = set()

    def create(self, folder: str, *, keep: bool = False) -> None:
        """Create a folder and its missing parents, and sync them.

        If `keep` is True, `delete_if_empty` won't delete the new folders. If another writer deletes
        an empty parent at the same time, the parent is created again.
        """
        for _ in range(FOLDER_TRIES):
            with suppress(FileNotFoundError):
                self._create(folder, keep=keep)
                return
        self._create(folder, keep=keep)

    def _create(self, folder: str, *, keep: bool) -> None:
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
                        self._created.add(path)
            for path in reversed(self._unsynced_above(folder)):
                sync_folder(os.path.dirname(path))
        finally:
            self._unsynced.difference_update(missing)

    def _unsynced_above(self, folder: str) -> list[str]:
        folders: list[str] = []
        while folder in self._unsynced:
            folders.append(folder)
            folder = os.path.dirname(folder)
        return folders

    def delete_if_empty(self, folder: str) -> None:
        """Delete a folder and its parents if they are empty and this object created them."""
        while folder in self._created:
            try:
                os.rmdir(folder)
            except OSError:  # not empty, or already deleted
                return
            self._created.discard(folder)
            folder = os.path.dirname(folder)


def sync_folder(folder: str) -> None:
    """Sync a folder, so that no creation, renaming or deletion of its files is lost in a crash.

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
    missing: list[str] = []
    while not os.path.isdir(folder):
        missing.append(folder)
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    return missing
