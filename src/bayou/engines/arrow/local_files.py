"""Files of the local disk, as `FileSystemClient`.

Plain system calls: obstore's local store refuses names such as `x#1`. What is written is on the
disk (fsync of file and folder) before a call returns, because a commit is a promise. Unfinished
files have a name that starts with a dot, in the folder of the file they become.
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
from types import TracebackType
from typing import IO, Any, Self, cast

import pyarrow as pa

from bayou.engines.arrow.exclusive_create import (
    MadeFolders,
    is_still,
    name_exclusively,
    sync_folder,
)
from bayou.engines.arrow.os_errors import storage_errors
from bayou.engines.listing_folders import is_between
from bayou.errors import FileMissingError
from bayou.kernel.arrow.closeable import closeable
from bayou.kernel.engine import ByteRange, FileStatus

__all__ = ["LocalFiles", "LocalOutput", "local_path"]

_TRIES = 5


def local_path(path: str) -> str:
    """Absolute path of a local path or `file:` URI; the URI's path is taken as decoded."""
    if path.startswith("/") and "//" not in path and "/." not in path and not path.endswith("/"):
        return path
    if path.startswith("file:"):
        path = path[len("file:") :]
        if path.startswith("//"):
            path = "/" + path[2:].partition("/")[2]
    return os.path.abspath(path)


class LocalFiles:
    """The local disk. Paths are absolute and plain; `file:` URIs are understood too.

    Folders that outputs needed go again with the last file in them, as in an object store, so that
    a write that fails leaves nothing.
    """

    def __init__(self) -> None:
        self._folders = MadeFolders()
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
        lowest = os.fsencode(first)
        with storage_errors(folder, "list"), os.scandir(folder) as entries:
            names = [e.name for e in entries if os.fsencode(e.name) >= lowest and not e.is_dir()]
        names.sort(key=os.fsencode)
        for name in names:
            found = _status(os.path.join(folder, name))
            if found is not None:
                yield found

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
                                if whole or is_between(f"{entry.path}/", after, until):
                                    yield _entry_status(entry, f"{entry.path}/", is_folder=True)
                        elif entry.is_symlink() and os.path.isdir(entry.path):
                            skips(entry.path)
                        elif whole or is_between(entry.path, after, until):
                            try:
                                found = _entry_status(entry, entry.path)
                            except FileNotFoundError:  # deleted since
                                continue
                            yield found
            except FileMissingError:
                continue

    def status(self, path: str) -> FileStatus:
        path = local_path(path)
        with storage_errors(path, "read"):
            found = os.stat(path)
            if os.path.isdir(path):
                raise FileNotFoundError(errno.ENOENT, "is a folder", path)
        return FileStatus(
            path=path, size=found.st_size, modification_time=found.st_mtime_ns // 1_000_000
        )

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        # One file after the other: the page cache answers faster than threads start.
        for wanted in ranges:
            path = local_path(wanted.path)
            with storage_errors(path, "read"), open(path, "rb", opener=_open_regular) as file:
                file.seek(wanted.offset)
                data = file.read(-1 if wanted.length is None else wanted.length)
            yield data

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        path = local_path(path)
        with storage_errors(path, "read"):
            _check_regular(path, os.stat(path))
            return cast("IO[bytes]", pa.OSFile(path, "rb"))  # read by pyarrow without Python

    def open_output(self, path: str) -> IO[bytes]:
        path = local_path(path)
        with storage_errors(path, "write"):
            return cast("IO[bytes]", _opened(path, self._folders))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        path = local_path(path)
        with storage_errors(path, "write"):
            if os.path.lexists(path):
                return False
            with _written_temporary(path, data) as temporary:
                named = os.stat(temporary)
                if not name_exclusively(temporary, path):
                    return False
                sync_folder(os.path.dirname(path))
                return is_still(path, named, data)

    def put(self, path: str, data: bytes) -> None:
        path = local_path(path)
        with storage_errors(path, "write"):
            with _written_temporary(path, data) as temporary:
                os.replace(temporary, path)
            sync_folder(os.path.dirname(path))

    def mkdirs(self, path: str) -> None:
        path = local_path(path)
        with storage_errors(path, "make the folder"):
            self._folders.make(path, stays=True)

    def delete_files(self, paths: Iterable[str]) -> None:
        folders: dict[str, None] = {}
        # One thread at a time: unlinking takes less than handing over the interpreter's lock.
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
                    self._folders.leave(folder)

    def delete_empty_folders(self, paths: Iterable[str]) -> None:
        for path in map(local_path, paths):
            with suppress(OSError):  # something is in it, or it is gone
                os.rmdir(path)


def _status(path: str) -> FileStatus | None:
    """The size and time of a file; None if it was deleted after the folder was listed.

    A link to a file that doesn't exist is listed with size 0. Opening it fails, so nobody takes
    the file for one that was never there.
    """
    with storage_errors(path, "read"):
        try:
            found = os.stat(path)
            size, modified = found.st_size, found.st_mtime_ns
        except FileNotFoundError:
            if not os.path.lexists(path):
                return None
            size, modified = 0, time.time_ns()
    return FileStatus(path=path, size=size, modification_time=modified // 1_000_000)


def _open_regular(path: str, flags: int) -> int:
    """Open a file to read it, without waiting: a named pipe would block until someone writes."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    try:
        _check_regular(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(path: str, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe, a socket or a device, and no file", path)


def _entry_status(entry: os.DirEntry[str], path: str, *, is_folder: bool = False) -> FileStatus:
    found = entry.stat(follow_symlinks=False)
    size, modified = found.st_size, found.st_mtime_ns
    if entry.is_symlink():
        try:  # a link's own size is the length of the path that it leads to
            target = os.stat(path)
            size, modified = target.st_size, max(modified, target.st_mtime_ns)
        except OSError:
            modified = time.time_ns()  # what it leads to may be a disk that is away
    return FileStatus(
        path=path,
        size=0 if is_folder else size,
        modification_time=modified // 1_000_000,
    )


class LocalOutput(pa.OSFile):
    """A file that appears, complete and on the disk, when it is closed.

    A `with` block that ends by an exception leaves nothing behind, and neither does an output that
    is dropped without `close`. As a file of pyarrow's own it is written without Python between.
    """

    _path: str
    _temporary: str
    _folders: MadeFolders

    def __new__(cls, path: str, folders: MadeFolders) -> Self:
        temporary = _temporary_name(path)
        output = super().__new__(cls, temporary, "wb")  # type: ignore[call-arg]
        output._path, output._temporary, output._folders = path, temporary, folders
        return output

    def __init__(self, path: str, folders: MadeFolders) -> None:
        pass  # opened by __new__, as pyarrow's files are

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
        """Forget what was written; the path stays as it was."""
        with suppress(OSError):
            os.unlink(self._temporary)
        with suppress(OSError):
            super().close()
        self._folders.leave(os.path.dirname(self._path))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        if not self.closed:
            self.discard()


def _opened(path: str, folders: MadeFolders) -> LocalOutput:
    """An output in a folder that is made where it isn't there."""
    for _ in range(_TRIES):
        folders.make(os.path.dirname(path))
        with suppress(FileNotFoundError):  # another one left the folder, the last in it
            return LocalOutput(path, folders)
    folders.make(os.path.dirname(path))
    return LocalOutput(path, folders)


@contextmanager
def _written_temporary(path: str, data: bytes) -> Iterator[str]:
    """A hidden file beside `path` that holds `data` on disk; gone afterwards."""
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
