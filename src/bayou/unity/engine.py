"""An engine that accesses files with temporary credentials, which Unity Catalog vends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, TypeAlias

from bayou.engines.arrow import ArrowEngine
from bayou.engines.arrow.files import ArrowFiles
from bayou.engines.arrow.storage.object_uris import is_hdfs, is_local_path
from bayou.kernel.arrow.closeable import CloseableIterator
from bayou.kernel.engine import ByteRange, FileStatus
from bayou.kernel.engine.engine import EngineFactory
from bayou.unity.client import Access, UnityClient
from bayou.unity.credentials import VendedCredentials
from bayou.unity.names import TableName
from bayou.unity.settings import unity_settings, without_settings
from bayou.unity.wire import StorageCredential

_TABLE = "UC_TABLE"
_LOCATION = "UC_LOCATION"

Vend: TypeAlias = Callable[[Access], Sequence[StorageCredential]]
"""Function that requests credentials from the catalog. `Access` is `READ` or `READ_WRITE`."""


class VendedFiles:
    """A `FileSystemClient` that reads with READ credentials and writes with READ_WRITE credentials.

    READ_WRITE credentials are only requested when a file is written or deleted.
    """

    def __init__(self, reads: ArrowFiles, writes: ArrowFiles) -> None:
        self._reads = reads
        self._writes = writes

    def resolve_path(self, path: str) -> str:
        return self._reads.resolve_path(path)

    def real_path(self, path: str) -> str:
        return self._reads.real_path(path)

    def list_from(self, path: str) -> CloseableIterator[FileStatus]:
        return self._reads.list_from(path)

    def list_tree(
        self,
        path: str,
        skips: Callable[[str], bool],
        *,
        after: str | None = None,
        until: str | None = None,
    ) -> CloseableIterator[FileStatus]:
        return self._reads.list_tree(path, skips, after=after, until=until)

    def status(self, path: str) -> FileStatus:
        return self._reads.status(path)

    def read_files(self, ranges: Iterable[ByteRange]) -> CloseableIterator[bytes]:
        return self._reads.read_files(ranges)

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        return self._reads.open_input(path, size)

    def open_output(self, path: str) -> IO[bytes]:
        return self._writes.open_output(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._writes.put_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        self._writes.put(path, data)

    def mkdirs(self, path: str) -> None:
        self._writes.mkdirs(path)

    def delete_files(self, paths: Iterable[str]) -> None:
        self._writes.delete_files(paths)

    def delete_empty_folders(self, paths: Iterable[str]) -> None:
        self._writes.delete_empty_folders(paths)


def unity_engine(options: Mapping[str, str]) -> ArrowEngine:
    """Create the engine of an existing table.

    Worker processes call this function to create the same engine as in the driver.

    Args:
        options: the result of `engine_options`: storage options, the catalog's URL and token, and
            the table's name and location.
    """
    settings = unity_settings(options)
    name, location = TableName.parse(options[_TABLE]), options[_LOCATION]
    client = UnityClient(settings)
    return vended_engine(
        name,
        location,
        lambda access: client.table_credentials(name, access),
        {**options, **settings.options()},
        factory=unity_engine,
    )


def engine_options(
    client: UnityClient, name: TableName, location: str, options: Mapping[str, str]
) -> dict[str, str]:
    """Return the options that `unity_engine` needs to create the engine of a table."""
    settings = client.settings.options()
    return {**options, **settings, _TABLE: str(name), _LOCATION: location}


def vended_engine(
    name: TableName,
    location: str,
    vend: Vend,
    options: Mapping[str, str],
    *,
    factory: EngineFactory | None = None,
) -> ArrowEngine:
    """Create an engine for a location.

    The engine uses the credentials of `vend` if the location is in an object store. For local paths
    and HDFS, it uses no credentials of the catalog.

    Args:
        name: name of the table, for error messages.
        vend: function that requests credentials from the catalog.
        options: storage options, and the other options of `engine_options`.
        factory: function with which worker processes create the engine from `options`; None if no
            worker process needs the engine.
    """
    own = without_settings(options)
    storage = {key: value for key, value in own.items() if key not in (_TABLE, _LOCATION)}
    if is_local_path(location) or is_hdfs(location):
        return ArrowEngine(options, files=ArrowFiles(storage), factory=factory)

    def files(access: Access) -> ArrowFiles:
        provider = VendedCredentials(str(name), location, lambda: vend(access))
        return ArrowFiles(storage, provider)

    return ArrowEngine(
        options, files=VendedFiles(files("READ"), files("READ_WRITE")), factory=factory
    )
