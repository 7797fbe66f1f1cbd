"""The file system client of an engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Protocol

from bayou.errors import StorageError
from bayou.kernel.arrow.closeable import CloseableIterator

TEMPORARY_FILE_PATTERN = re.compile(r"\..{1,40}\.[0-9a-f]{32}\.tmp", re.DOTALL)
"""Regular expression that matches the name of a temporary file.

Temporary files are used on stores where an incomplete file is visible. A name consists of a dot,
the start of the final name, 32 random hexadecimal digits, and `.tmp`. VACUUM deletes temporary
files that killed writers have left.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """A file: path (not URL-encoded), size in bytes, modification time in ms since the epoch.

    Examples:
        >>> status = engine.files.status(file.status.path)
        >>> print(status.size, status.modification_time)
    """

    path: str
    size: int
    modification_time: int

    @property
    def latest_modification_time(self) -> int:
        """Latest time at which the file can have been modified.

        S3 and some file systems truncate modification times to seconds.
        """
        truncated = self.modification_time % 1000 == 0
        return self.modification_time + (999 if truncated else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """A range of bytes in a file. If `length` is None, the range extends to the end of the file.

    Examples:
        >>> footer = ByteRange(path=file.status.path, offset=file.size - 8)
        >>> with engine.files.read_files([footer]) as contents:
        ...     print(bytes(next(contents))[-4:])
    """

    path: str
    offset: int = 0
    length: int | None = None


def check_length(file: FileStatus, length: int) -> None:
    """Check that the store returned all bytes of a file: at least the file's listed size.

    A proxy may truncate a response after a complete line. Without this check, the result would look
    like a complete file with fewer lines.

    Args:
        file: the listed file; a size of 0 means that the size is unknown.
        length: number of bytes that the store returned.

    Raises:
        StorageError: bytes are missing.
    """
    if length < file.size:
        raise incomplete_read(file.path, length, file.size)


def incomplete_read(path: str, length: int, expected: int) -> StorageError:
    """Return the error for a response with fewer bytes than expected."""
    return StorageError(
        f"{path}: can't read: the store returned {length} of {expected} bytes. Try again; if the "
        "error persists, check the connection to the store, for example a proxy.",
        path=path,
    )


class FileSystemClient(Protocol):
    """Access to the files of one store. Thread-safe.

    Examples:
        >>> with engine.files.list_from(f"{path}/_delta_log/") as files:
        ...     print([status.path for status in files])
    """

    def resolve_path(self, path: str) -> str:
        """Return the fully qualified path without a trailing slash. The file needn't exist."""
        ...

    def real_path(self, path: str) -> str:
        """Return the result of `resolve_path`, with all symbolic links resolved."""
        ...

    def list_from(self, path: str) -> CloseableIterator[FileStatus]:
        """List the files of a folder, beginning with the first file whose path is >= `path`.

        The folder is the part of `path` before its last slash. If `path` ends with a slash, all
        files of the folder are listed. No file needs to exist at `path`.

        The listing is lazy, sorted by the UTF-8 bytes of names, and not recursive. It contains no
        folders.

        Raises:
            FileMissingError: the folder doesn't exist (on object stores: has no objects).
        """
        ...

    def list_tree(
        self,
        path: str,
        should_skip: Callable[[str], bool],
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> CloseableIterator[FileStatus]:
        """List all files below a folder, lazily and recursively.

        The order is undefined, but the files of a folder are adjacent. On stores that have folders,
        the folders are listed too: their paths end with a slash, and their size is 0. If the folder
        `path` is missing, the listing is empty. Symbolic links to folders are passed to
        `should_skip`, but are neither listed nor followed. Broken links are listed as files with
        the current time as modification time, because their age is unknown.

        Args:
            should_skip: function that returns whether to skip a folder (on object stores: a prefix)
                and its contents. The function gets the path without a trailing slash. The function
                is called once for each folder, before the contents are listed.
            after: list only paths that sort after this path. Paths are compared by their UTF-8
                bytes, and the path of a folder ends with a slash.
            until: list only this path and paths that sort before it. Object stores list only the
                range between `after` and `until`; other stores list everything and filter.
        """
        ...

    def status(self, path: str) -> FileStatus:
        """Return the status of a file.

        Raises:
            FileMissingError: the file doesn't exist.
        """
        ...

    def read_files(self, ranges: Iterable[ByteRange]) -> CloseableIterator[bytes]:
        """Return the bytes of each range, in order. A bounded number of ranges is read ahead.

        Raises:
            FileMissingError: a file doesn't exist.
        """
        ...

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        """Open a file for random access (`read`, `seek`, `tell`, `close`).

        Passing the `size` in bytes saves a request.

        Raises:
            FileMissingError: the file doesn't exist.
        """
        ...

    def open_output(self, path: str) -> IO[bytes]:
        """Create a file and its parent folders; return an object for sequential writes.

        The file becomes visible on `close`. If a `with` block of the returned object ends with an
        exception, no file is created, and an existing file at the path stays unchanged.
        """
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file with its contents atomically, if no file exists at the path.

        Parent folders must exist. Readers never see a partial file. Exactly one of several
        concurrent calls succeeds.

        Returns:
            True if this call created the file. False if a file exists at the path; that file stays
            unchanged.

        Raises:
            StorageError: it is unknown whether the file was created: it may exist now or appear
                later.
        """
        ...

    def put(self, path: str, data: bytes) -> None:
        """Create or replace a file atomically."""
        ...

    def mkdirs(self, path: str) -> None:
        """Create a folder and its parents if they don't exist; no effect on object stores."""
        ...

    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete files. Missing files, links to folders and broken links are skipped."""
        ...

    def delete_empty_folders(self, paths: Iterable[str]) -> None:
        """Delete each folder in the list `paths`, in order, but skip folders that aren't empty.

        No effect on object stores and HDFS.
        """
        ...
