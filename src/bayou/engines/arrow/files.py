"""The file system client of `ArrowEngine`: local files, HDFS, or obstore for other schemes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import groupby
from typing import IO, TYPE_CHECKING

from bayou.engines.arrow.storage.local_files import LocalFiles
from bayou.engines.arrow.storage.object_uris import is_hdfs, is_local_path
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.engine import ByteRange, FileStatus, FileSystemClient

if TYPE_CHECKING:
    from bayou.engines.arrow.storage.hdfs_files import HdfsFiles
    from bayou.engines.arrow.storage.object_store_files import CredentialProvider, ObjectStoreFiles


class ArrowFiles:
    """A `FileSystemClient` for local files, object stores and HDFS.

    Args:
        credentials: credential provider for the object stores; see `ObjectStoreFiles`.
    """

    def __init__(
        self,
        storage_options: Mapping[str, str] | None = None,
        credentials: CredentialProvider | None = None,
    ) -> None:
        self._local = LocalFiles()
        self._options = storage_options or {}
        self._credentials = credentials
        self._lock = threading.RLock()

    def resolve_path(self, path: str) -> str:
        return self._client(path).resolve_path(path)

    def real_path(self, path: str) -> str:
        return self._client(path).real_path(path)

    def list_from(self, path: str) -> CloseableIterator[FileStatus]:
        return self._client(path).list_from(path)

    def list_tree(
        self,
        path: str,
        skips: Callable[[str], bool],
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> CloseableIterator[FileStatus]:
        return self._client(path).list_tree(path, skips, after=after, until=until)

    def status(self, path: str) -> FileStatus:
        return self._client(path).status(path)

    @closeable
    def read_files(self, ranges: Iterable[ByteRange]) -> Iterator[bytes]:
        for files, group in groupby(ranges, key=lambda requested: self._client(requested.path)):
            with files.read_files(group) as contents:
                yield from contents

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        return self._client(path).open_input(path, size)

    def open_output(self, path: str) -> IO[bytes]:
        return self._client(path).open_output(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._client(path).put_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        self._client(path).put(path, data)

    def mkdirs(self, path: str) -> None:
        self._client(path).mkdirs(path)

    def delete_files(self, paths: Iterable[str]) -> None:
        for files, group in groupby(paths, key=self._client):
            files.delete_files(group)

    def delete_empty_folders(self, paths: Iterable[str]) -> None:
        for files, group in groupby(paths, key=self._client):
            files.delete_empty_folders(group)

    def _client(self, path: str) -> FileSystemClient:
        if is_local_path(path):
            return self._local
        with self._lock:  # both clients are created when they are first needed
            return self._hdfs if is_hdfs(path) else self._object_stores

    @cached_property
    def _object_stores(self) -> ObjectStoreFiles:
        from bayou.engines.arrow.storage.object_store_files import ObjectStoreFiles

        return ObjectStoreFiles(self._options, credentials=self._credentials)

    @cached_property
    def _hdfs(self) -> HdfsFiles:
        from bayou.engines.arrow.storage.hdfs_files import HdfsFiles

        return HdfsFiles()
