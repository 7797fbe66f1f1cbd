"""The file system client of HDFS, through `pyarrow.fs` and libhdfs."""

from __future__ import annotations

import io
import posixpath
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import IO, Any, cast

import pyarrow.fs as pafs

from bayou.engines.arrow.storage.object_uris import split_object_uri
from bayou.engines.arrow.storage.os_errors import storage_errors
from bayou.engines.arrow.storage.range_reads import RangeInput, read_ranges
from bayou.engines.listing_folders import is_in_range
from bayou.errors import FileMissingError, PrerequisiteError, StorageError
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.engine import ByteRange, FileStatus

_IN_FLIGHT = 8
_TRIES = 5
_NO_LIBRARY = ("Unable to load lib", "Prior attempt to load lib")
"""Two parts of Arrow's error messages if libhdfs or the JVM's library can't be loaded. Index 0 is
for the first attempt of a process, index 1 for later attempts."""


class HdfsFiles:
    """A `FileSystemClient` for `hdfs://` URIs, with one connection for each name node.

    `put_if_absent` moves a temporary file into the target folder, because pyarrow's `move` to a
    file path replaces an existing file. `put` isn't atomic: while it replaces an existing file, the
    file is missing for a moment. Empty folders aren't deleted, because pyarrow can't restrict a
    delete to empty folders.

    Args:
        connect: function that returns the file system for the authority of a URI, such as
            `namenode:8020`.
    """

    def __init__(self, connect: Callable[[str], pafs.FileSystem] | None = None) -> None:
        self._connect = connect or connect_hdfs
        self._connections: dict[str, pafs.FileSystem] = {}
        self._lock = threading.Lock()

    def resolve_path(self, path: str) -> str:
        root, key = split_object_uri(path)
        return f"{root}/{key}".rstrip("/")

    def real_path(self, path: str) -> str:
        return self.resolve_path(path)

    @closeable
    def list_from(self, path: str) -> Iterator[FileStatus]:
        root, key = split_object_uri(path)
        folder, _, first = key.rpartition("/")
        with storage_errors(f"{root}/{folder}", "list"):
            infos = self._files(root).get_file_info(pafs.FileSelector(f"/{folder}"))
        named = sorted((info.base_name.encode(), info) for info in infos if info.is_file)
        for name, info in named:
            if name >= first.encode():
                yield _status(root, info)

    @closeable
    def list_tree(
        self,
        path: str,
        skips: Callable[[str], bool],
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> Iterator[FileStatus]:
        root, key = split_object_uri(path)
        folders = [f"/{key}".rstrip("/") or "/"]
        whole = after is None and until is None
        while folders:
            folder = folders.pop()
            try:
                with storage_errors(f"{root}{folder}", "list"):
                    infos = self._files(root).get_file_info(pafs.FileSelector(folder))
            except FileMissingError:
                continue
            for info in infos:
                status = _status(root, info)
                if info.is_file:
                    if whole or is_in_range(status.path, after, until):
                        yield status
                elif not skips(status.path):
                    folders.append(info.path)
                    listed = FileStatus(
                        path=f"{status.path}/", size=0, modification_time=status.modification_time
                    )
                    if whole or is_in_range(listed.path, after, until):
                        yield listed

    def status(self, path: str) -> FileStatus:
        root, key = split_object_uri(path)
        info = _info(self._files(root), root, key)
        if not info.is_file:
            raise FileMissingError(f"{path}: can't read: the file doesn't exist", path=path)
        return _status(root, info)

    def read_files(self, ranges: Iterable[ByteRange]) -> CloseableIterator[bytes]:
        return read_ranges(self._read, ranges, _IN_FLIGHT)

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        root, key = split_object_uri(path)
        with storage_errors(path, "read"):
            stream = self._files(root).open_input_file(f"/{key}")
        return cast("IO[bytes]", _Input(stream, path))

    def open_output(self, path: str) -> IO[bytes]:
        root, key = split_object_uri(path)
        self._create_folder(root, posixpath.dirname(key))
        return cast("IO[bytes]", _Output(self._files(root), root, key))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        root, key = split_object_uri(path)
        files = self._files(root)
        folder, _, name = key.rpartition("/")
        if _info(files, root, key).type != pafs.FileType.NotFound:
            return False
        if _info(files, root, folder).type != pafs.FileType.Directory:
            raise FileMissingError(
                f"{path}: can't write: the folder of this file doesn't exist. Check whether "
                "another process deleted the folder.",
                path=path,
            )
        temporary = _temporary_name(key)
        try:
            with storage_errors(path, "write"):
                files.create_dir(f"/{temporary}", recursive=False)
                with files.open_output_stream(f"/{temporary}/{name}") as stream:
                    stream.write(data)
            return _move_into_folder(files, root, temporary, key)
        finally:
            with suppress(OSError):
                files.delete_dir(f"/{temporary}")

    def put(self, path: str, data: bytes) -> None:
        root, key = split_object_uri(path)
        self._create_folder(root, posixpath.dirname(key))
        with _Output(self._files(root), root, key) as output:
            output.write(data)

    def mkdirs(self, path: str) -> None:
        self._create_folder(*split_object_uri(path))

    def delete_files(self, paths: Iterable[str]) -> None:
        for path in paths:
            root, key = split_object_uri(path)
            files = self._files(root)
            if _info(files, root, key).is_file:
                with storage_errors(path, "delete"), suppress(FileNotFoundError):
                    files.delete_file(f"/{key}")

    def delete_empty_folders(self, paths: Iterable[str]) -> None:
        for path in paths:
            split_object_uri(path)  # an invalid path is still an error

    def _create_folder(self, root: str, key: str) -> None:
        with storage_errors(f"{root}/{key}", "write"):
            self._files(root).create_dir(f"/{key}")

    def _read(self, requested: ByteRange) -> bytes:
        with self.open_input(requested.path) as file:
            file.seek(requested.offset)
            return file.read() if requested.length is None else file.read(requested.length)

    def _files(self, root: str) -> pafs.FileSystem:
        with self._lock:
            files = self._connections.get(root)
            if files is None:
                files = self._connections[root] = self._connect(root.removeprefix("hdfs://"))
            return files


def connect_hdfs(authority: str) -> pafs.FileSystem:
    """Connect to a name node or name service; an empty authority means Hadoop's default.

    The user is the value of the environment variable HADOOP_USER_NAME, or the login user if this
    variable isn't set.

    Raises:
        PrerequisiteError: libhdfs can't be loaded.
        StorageError: the name node doesn't answer.
    """
    host, _, port = authority.partition(":")
    try:
        return pafs.HadoopFileSystem(host or "default", int(port or 0))
    except OSError as error:
        reason = str(error).partition("\n")[0]
        if any(part in reason for part in _NO_LIBRARY):
            raise PrerequisiteError(
                f"hdfs://{authority}: HDFS needs Hadoop's native client: {reason}. Install Hadoop. "
                "Set JAVA_HOME. Set ARROW_LIBHDFS_DIR to the folder of libhdfs.so, and CLASSPATH "
                "to the output of 'hadoop classpath --glob'.",
                what="libhdfs",
            ) from None
        raise StorageError(
            f"hdfs://{authority}: can't connect: {reason}. Check the address, and that the name "
            "node is running.",
            path=f"hdfs://{authority}",
        ) from None


class _Input(RangeInput):
    def __init__(self, stream: Any, path: str) -> None:
        self._stream, self._path = stream, path
        with storage_errors(path, "read"):
            super().__init__(int(stream.size()))

    def read_range(self, start: int, end: int) -> bytes:
        with storage_errors(self._path, "read"):
            data: bytes = self._stream.read_at(end - start, start)
        return data

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            super().close()


class _Output(io.RawIOBase):
    """An output file that is written under a temporary name and renamed when it is closed.

    No file is created if the `with` block raises an exception, or if the output is
    garbage-collected without `close`.
    """

    def __init__(self, files: pafs.FileSystem, root: str, key: str) -> None:
        self._files, self._root, self._key = files, root, key
        self._temporary = _temporary_name(key)
        with storage_errors(f"{root}/{key}", "write"):
            self._stream = files.open_output_stream(f"/{self._temporary}")

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._stream.tell())

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        with storage_errors(f"{self._root}/{self._key}", "write"):
            return int(self._stream.write(data))

    def close(self) -> None:
        if self.closed:
            return
        try:
            with storage_errors(f"{self._root}/{self._key}", "write"):
                self._stream.close()
            _replace(self._files, self._root, self._temporary, self._key)
        finally:
            self.discard()

    def discard(self) -> None:
        """Delete the temporary file."""
        if self.closed:
            return
        super().close()
        with suppress(OSError):
            self._stream.close()
        _delete_quietly(self._files, self._temporary)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()


def _info(files: pafs.FileSystem, root: str, key: str) -> pafs.FileInfo:
    """Return information about a path; the type is `NotFound` if there is no file or folder.

    pyarrow's `get_file_info` returns `NotFound` not only for a missing path, but for every error.
    If it returns `NotFound`, the path is therefore listed. A listing raises `FileNotFoundError` for
    a missing path, and other errors for other problems.

    Raises:
        StorageError: the name node doesn't answer.
    """
    with storage_errors(f"{root}/{key}", "read"):
        info = files.get_file_info(f"/{key}")
        if info.type != pafs.FileType.NotFound:
            return info
        failure: OSError | None = None
        try:
            files.get_file_info(pafs.FileSelector(f"/{key}"))
        except FileNotFoundError:
            return info
        except OSError as error:
            failure = error
        info = files.get_file_info(f"/{key}")  # another process may have created it concurrently
        if failure is not None and info.type == pafs.FileType.NotFound:
            raise failure
        return info


def _move_into_folder(files: pafs.FileSystem, root: str, temporary: str, key: str) -> bool:
    """Move a file from a temporary folder to the path `key`; return False if `key` exists.

    The function moves the file to the folder of `key`, and HDFS keeps the file's name. HDFS refuses
    the move if the folder already has a file with this name. An existing file is never replaced.

    Raises:
        StorageError: the result of the move is unknown.
    """
    folder, _, name = key.rpartition("/")
    try:
        files.move(f"/{temporary}/{name}", f"/{folder}")
    except OSError as error:
        # HDFS reports a failed rename without a reason. The name node doesn't retry renames.
        with storage_errors(f"{root}/{key}", "write"):
            left = files.get_file_info(pafs.FileSelector(f"/{temporary}"))
        if not left:
            return True
        if _info(files, root, key).type != pafs.FileType.NotFound:
            return False
        raise StorageError(f"{root}/{key}: can't write: {error}", path=f"{root}/{key}") from None
    return True


def _replace(files: pafs.FileSystem, root: str, temporary: str, key: str) -> None:
    """Rename a temporary file to `key`; pyarrow first deletes an existing file at `key`."""
    failure: OSError | None = None
    for _ in range(_TRIES):
        try:
            files.move(f"/{temporary}", f"/{key}")
        except OSError as error:  # the connection was lost, or another writer created the file
            failure = error
            if _info(files, root, temporary).is_file:
                continue
        return
    raise StorageError(f"{root}/{key}: can't write: {failure}", path=f"{root}/{key}")


def _temporary_name(key: str) -> str:
    """Return the key of a temporary file in the same folder, with a name that VACUUM recognizes."""
    folder, _, name = key.rpartition("/")
    temporary = f".{name[:40]}.{uuid.uuid4().hex}.tmp"
    return f"{folder}/{temporary}" if folder else temporary


def _delete_quietly(files: pafs.FileSystem, key: str) -> None:
    with suppress(OSError):
        if files.get_file_info(f"/{key}").is_file:
            files.delete_file(f"/{key}")


def _status(root: str, info: pafs.FileInfo) -> FileStatus:
    return FileStatus(
        path=f"{root}{info.path}",
        size=info.size or 0,
        modification_time=(info.mtime_ns or 0) // 1_000_000,
    )
