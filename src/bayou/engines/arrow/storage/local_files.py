"""The file system client of the local disk.

It uses system calls, because obstore's local store rejects names such as `x#1`. A write syncs the
file and its folder before it returns.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Self, cast

import pyarrow as pa

from bayou.engines.arrow.storage.exclusive_create import (
    FOLDER_TRIES,
    CreatedFolders,
    is_unchanged,
    publish_exclusively,
    sync_folder,
)
from bayou.engines.arrow.storage.os_errors import storage_errors
from bayou.engines.listing_folders import is_in_range
from bayou.errors import FileMissingError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import ByteRange, FileStatus


def local_path(path: str) -> str:
    """Return the absolute path of a local path or `file:` URI, without percent-decoding it."""
    if path.startswith("/") and "//" not in path and "/." not in path and not path.endswith("/"):
        return path
    if path.startswith("file:"):
        path = path[len("file:") :]
        if path.startswith("//"):
            path = "/" + path[2:].partition("/")[2]
    return os.path.abspath(path)


class LocalFiles:
    """A `FileSystemClient` for the local disk. Paths are absolute paths or `file:` URIs.

    If `open_output` creates a folder, the folder is deleted when its last file is deleted.
    Therefore, a failed write leaves no empty folders.
    """

    def __init__(self) -> None:
        self._folders = CreatedFolders()
        self._deleting = threading.Lock()

    def resolve_path(self, path: str) -> str:
        return local_path(path)

    def real_path(self, path: str) -> str:
        path = local_path(path)
        with storage_errors(path, "read"):
            return os.path.realpath(path)

    @closeable
    def list_from(self, path: str) -> Iterator[FileStatus]:
        folder, _, first = path.removeprefix("file://").rpartition("/")
        folder = local_path(folder or "/")
        start = os.fsencode(first)
        with storage_errors(folder, "list"), os.scandir(folder) as entries:
            names = [e.name for e in entries if os.fsencode(e.name) >= start and not e.is_dir()]
        names.sort(key=os.fsencode)
        for name in names:
            status = _status(os.path.join(folder, name))
            if status is not None:
                yield status

    @closeable
    def list_tree(
        self,
        path: str,
        skips: Callable[[str], bool],
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> Iterator[FileStatus]:
        folders = [local_path(path)]
        whole = after is None and until is None
        while folders:
            folder = folders.pop()
            try:
                with storage_errors(folder, "list"), os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            if not skips(entry.path):
                                folders.append(entry.path)
                                if whole or is_in_range(f"{entry.path}/", after, until):
                                    yield _entry_status(entry, f"{entry.path}/", is_folder=True)
                        elif entry.is_symlink() and os.path.isdir(entry.path):
                            skips(entry.path)
                        elif whole or is_in_range(entry.path, after, until):
                            try:
                                status = _entry_status(entry, entry.path)
                            except FileNotFoundError:  # deleted since
                                continue
                            yield status
            except FileMissingError:
                continue

    def status(self, path: str) -> FileStatus:
        path = local_path(path)
        with storage_errors(path, "read"):
            stat_result = os.stat(path)
            if os.path.isdir(path):
                raise FileNotFoundError(errno.ENOENT, "is a folder", path)
        return FileStatus(
            path=path,
            size=stat_result.st_size,
            modification_time=stat_result.st_mtime_ns // 1_000_000,
        )

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        # Reading files one by one from the page cache is faster than starting threads.
        for requested in ranges:
            path = local_path(requested.path)
            with storage_errors(path, "read"), open(path, "rb", opener=_open_regular) as file:
                file.seek(requested.offset)
                data = file.read(-1 if requested.length is None else requested.length)
            yield data

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        path = local_path(path)
        with storage_errors(path, "read"):
            _check_regular(path, os.stat(path))
            return cast("IO[bytes]", pa.OSFile(path, "rb"))  # pyarrow reads it without Python

    def open_output(self, path: str) -> IO[bytes]:
        path = local_path(path)
        with storage_errors(path, "write"):
            return cast("IO[bytes]", _open_output(path, self._folders))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        path = local_path(path)
        with storage_errors(path, "write"):
            if os.path.lexists(path):
                return False
            with _temporary_file(path, data) as temporary:
                status = os.stat(temporary)
                if not publish_exclusively(temporary, path):
                    return False
                sync_folder(os.path.dirname(path))
                return is_unchanged(path, status, data)

    def put(self, path: str, data: bytes) -> None:
        path = local_path(path)
        with storage_errors(path, "write"):
            with _temporary_file(path, data) as temporary:
                os.replace(temporary, path)
            sync_folder(os.path.dirname(path))

    def mkdirs(self, path: str) -> None:
        path = local_path(path)
        with storage_errors(path, "create the folder"):
            self._folders.create(path, keep=True)

    def delete_files(self, paths: Iterable[str]) -> None:
        folders: dict[str, None] = {}
        # One thread at a time: several threads would spend more time waiting for the GIL.
        with self._deleting:
            try:
                for path in map(local_path, paths):
                    folders[path.rpartition("/")[0]] = None
                    if os.path.islink(path) and not os.path.isfile(path):
                        continue
                    try:
                        os.unlink(path)
                    except (FileNotFoundError, NotADirectoryError):
                        pass
                    except (OSError, ValueError):
                        with storage_errors(path, "delete"):
                            raise
            finally:
                for folder in folders:
                    self._folders.delete_if_empty(folder)

    def delete_empty_folders(self, paths: Iterable[str]) -> None:
        for path in map(local_path, paths):
            with suppress(OSError):  # not empty, or already deleted
                os.rmdir(path)


def _status(path: str) -> FileStatus | None:
    """Return the status of a file; None if it was deleted after the folder was listed.

    For a link to a missing file, the size is 0; opening the link raises an error.
    """
    with storage_errors(path, "read"):
        try:
            status = os.stat(path)
            size, modified = status.st_size, status.st_mtime_ns
        except FileNotFoundError:
            if not os.path.lexists(path):
                return None
            size, modified = 0, time.time_ns()
    return FileStatus(path=path, size=size, modification_time=modified // 1_000_000)


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file for reading; a named pipe raises an error instead of blocking."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    try:
        _check_regular(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe, a socket or a device, not a file", path)


def _entry_status(entry: os.DirEntry[str], path: str, *, is_folder: bool = False) -> FileStatus:
    status = entry.stat(follow_symlinks=False)
    size, modified = status.st_size, status.st_mtime_ns
    if entry.is_symlink():
        try:  # the size of a link is the length of its target's path
            target = os.stat(path)
            size, modified = target.st_size, max(modified, target.st_mtime_ns)
        except OSError:
            modified = time.time_ns()  # the target may be on a disk that isn't mounted
    return FileStatus(
        path=path,
        size=0 if is_folder else size,
        modification_time=_milliseconds(modified),
    )


def _milliseconds(nanoseconds: int) -> int:
    """Convert the modification time of a listed file to milliseconds.

    The time is rounded down. If the rounded time is a whole second but the exact time isn't, a
    millisecond is added. Without this, `FileStatus.latest_modification_time` would assume that the
    file system has truncated the time to seconds.
    """
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    return milliseconds + 1 if rest and milliseconds % 1000 == 0 else milliseconds


class LocalOutput(pa.OSFile):
    """An output file that is synced and renamed to its path when it is closed.

    The temporary file is deleted if the `with` block raises an exception, or if the output is
    garbage-collected without `close`. The base class is `pa.OSFile`, so that pyarrow's writers
    write to the file in C++, without calling Python methods.
    """

    _path: str
    _temporary: str
    _folders: CreatedFolders

    def __new__(cls, path: str, folders: CreatedFolders) -> Self:
        temporary = _temporary_name(path)
        output = super().__new__(cls, temporary, "wb")  # type: ignore[call-arg]
        output._path, output._temporary, output._folders = path, temporary, folders
        return output

    def __init__(self, path: str, folders: CreatedFolders) -> None:
        pass  # opened by __new__, like pyarrow's files

    def write(self, data: Any) -> int:
        with storage_errors(self._path, "write"):
            return super().write(data)

    def close(self) -> None:
        if self.closed:
            return
        try:
            with storage_errors(self._path, "write"):
                os.fsync(self.fileno())
                super().close()
                os.replace(self._temporary, self._path)
                sync_folder(os.path.dirname(self._path))
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Delete the temporary file; a file at `path` isn't changed."""
        with suppress(OSError):
            os.unlink(self._temporary)
        with suppress(OSError):
            super().close()
        self._folders.delete_if_empty(os.path.dirname(self._path))

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        if not self.closed:
            self.discard()


def _open_output(path: str, folders: CreatedFolders) -> LocalOutput:
    for _ in range(FOLDER_TRIES):
        folders.create(os.path.dirname(path))
        with suppress(FileNotFoundError):  # another writer deleted the empty folder
            return LocalOutput(path, folders)
    folders.create(os.path.dirname(path))
    return LocalOutput(path, folders)


@contextmanager
def _temporary_file(path: str, data: bytes) -> Iterator[str]:
    """Context manager that writes a hidden file next to `path`, and yields the hidden file's path.

    The file is synced. It is deleted when the block ends.
    """
    temporary = _temporary_name(path)
    try:
        with open(temporary, "xb", buffering=0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        yield temporary
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _temporary_name(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:40]}.{uuid.uuid4().hex}.tmp")
