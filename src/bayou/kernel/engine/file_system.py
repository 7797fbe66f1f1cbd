"""Files of a store, as an engine gives them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Protocol

from bayou.kernel.arrow.closeable import CloseableIterator

__all__ = ["UNFINISHED", "ByteRange", "FileStatus", "FileSystemClient"]


UNFINISHED = re.compile(r"\..{1,40}\.[0-9a-f]{32}\.tmp", re.DOTALL)
"""Names of files that aren't complete, where a store shows such: a dot, the beginning of the name
they are to have, 32 random digits. VACUUM deletes them once a writer can't be at them any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """A file of the store: decoded path, size in bytes, modification time in ms since the epoch."""

    path: str
    size: int
    modification_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """Bytes of a file: `length` bytes from `offset`, to the end of the file where it is None."""

    path: str
    offset: int = 0
    length: int | None = None


class FileSystemClient(Protocol):
    """Files of one store. Safe to be used from several threads."""

    def resolve_path(self, path: str) -> str:
        """Fully qualified form of a path, without a trailing slash; the file needn't exist."""
        ...

    def real_path(self, path: str) -> str:
        """`resolve_path`, with all links of a disk resolved: one name for each file."""
        ...

    def list_from(self, path: str) -> CloseableIterator[FileStatus]:
        """Files in the folder of `path` whose name is >= the name of `path`.

        Lexical order of names (by UTF-8 bytes), lazily, not recursive, folders left out.

        Raises:
            FileMissingError: the folder doesn't exist (object stores: it has no object).
        """
        ...

    def list_tree(
        self,
        path: str,
        skips: Callable[[str], bool],
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> CloseableIterator[FileStatus]:
        """Everything below a folder, at any depth, lazily; the files of a folder follow each other.

        Files in no order to rely on. Folders too, where the store has any: their paths end with a
        slash, their size is 0. A folder that doesn't exist is empty. Links to folders are
        neither listed nor followed; `skips` is asked about them as about folders. Links to nothing
        are listed as files that were modified just now, since nobody can say how old they are.

        Args:
            skips: asked once for each folder, and on stores without folders for each prefix that
                stands for one, by its path without a slash, before what is in it; where it says
                True neither the folder nor anything in it is listed.
            after, until: only what lies behind the one path and up to the other, in the order of
                their UTF-8 bytes, a folder by its path with a slash. Object stores begin there and
                end there; others look at everything all the same.
        """
        ...

    def status(self, path: str) -> FileStatus:
        """Status of one file.

        Raises:
            FileMissingError: no such file.
        """
        ...

    def read_files(self, ranges: Iterable[ByteRange]) -> CloseableIterator[bytes]:
        """Bytes of each range, in the order given; reads ahead, a bounded number in flight.

        Raises:
            FileMissingError: no such file.
        """
        ...

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        """Random access to a file (`read`, `seek`, `tell`, `close`). `size` saves a request.

        Raises:
            FileMissingError: no such file.
        """
        ...

    def open_output(self, path: str) -> IO[bytes]:
        """A new file, written front to back; parent folders are made. It is complete on `close`.

        It isn't seen before. A `with` block over it that ends by an exception leaves what was at
        the path, if anything, as it was.
        """
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the file with all of `data`, atomically, unless there is one.

        Parent folders must exist. Readers see all of it or nothing; of several concurrent callers
        one wins.

        Returns:
            True: this call made it. False: there is a file, it is untouched.

        Raises:
            StorageError: outcome unknown; the file may be there or may come to be.
        """
        ...

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the file atomically."""
        ...

    def mkdirs(self, path: str) -> None:
        """Make the folder and its parents; no error where it exists (object stores: nothing)."""
        ...

    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete files; those that don't exist, and links to folders or nothing, stay."""
        ...

    def delete_empty_folders(self, paths: Iterable[str]) -> None:
        """Delete folders with nothing in them, in the order given; others are passed over.

        Object stores have none: nothing happens.
        """
        ...
