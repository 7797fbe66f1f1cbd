"""The file system client of object stores (S3, GCS and Azure), through obstore."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby, islice
from typing import IO, Any, TypeAlias, cast

import obstore
from obstore.exceptions import (
    BaseError,
    NotFoundError,
    UnknownConfigurationKeyError,
)
from obstore.store import ObjectStore, from_url

from bayou.engines.arrow.storage.assumed_role import take_role
from bayou.engines.arrow.storage.conditional_put import (
    ConditionalPuts,
    create_object,
    put_object,
    store_identity,
)
from bayou.engines.arrow.storage.object_io import ObjectInput, ObjectOutput
from bayou.engines.arrow.storage.object_uris import (
    check_bucket_options,
    is_hdfs,
    is_local_path,
    split_object_uri,
)
from bayou.engines.arrow.storage.option_credentials import option_credentials
from bayou.engines.arrow.storage.range_reads import read_ranges
from bayou.engines.arrow.storage.secret_values import StoreSecrets, endpoint_hosts
from bayou.engines.arrow.storage.storage_options import (
    store_settings,
    store_variables,
    unknown_option,
)
from bayou.engines.arrow.storage.store_errors import opening_errors, storage_errors
from bayou.engines.listing_folders import SkippedPrefixes
from bayou.errors import ArgumentError, FileMissingError, StorageError
from bayou.kernel.arrow.closeable import CloseableIterator, closeable
from bayou.kernel.engine import ByteRange, FileStatus
from bayou.kernel.engine.file_system import incomplete_read

_CHECKS = ConditionalPuts()
"""The checks whether buckets support conditional puts. All engines of the process share them."""

CredentialProvider: TypeAlias = Callable[[], Mapping[str, Any]]
"""Function that returns credentials as a mapping with obstore's names. The key `expires_at` is the
time at which they expire, or None."""

_IN_FLIGHT = 16
_PAGE = 1000


def opening_problem(path: str, options: Mapping[str, str]) -> str | None:
    """Return the error message if storage options are invalid for a path; None if they are valid.

    The function reads local files that the options refer to. It doesn't connect to the store.
    """
    try:
        if not is_local_path(path) and not is_hdfs(path):
            _open_store(split_object_uri(path)[0], options, None, StoreSecrets())
    except ArgumentError as error:
        return error.message
    return None


class ObjectStoreFiles:
    """A `FileSystemClient` for URIs of object stores, with one obstore store for each bucket.

    Args:
        stores: opened obstore stores by root, such as `s3://bucket`.
        credentials: function that returns credentials; called again before they expire. The
            returned credentials replace those in the storage options and in the environment.
    """

    def __init__(
        self,
        storage_options: Mapping[str, str] | None = None,
        *,
        stores: Mapping[str, ObjectStore] | None = None,
        credentials: CredentialProvider | None = None,
    ) -> None:
        self._options = dict(storage_options or {})
        self._credentials = credentials
        self._stores = dict(stores or {})
        self._own_stores = frozenset(self._stores)
        self._own_checks = ConditionalPuts()
        self._secrets = StoreSecrets()  # values that messages must not contain
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
        base = f"{folder}/" if folder else ""
        seen = False
        previous = ""
        # Stores list only keys after `offset`. To list `key` too, the offset is `key` without its
        # last character.
        for meta in self._list(root, folder, key[:-1] if first else None):
            seen = True
            name = meta["path"][len(base) :]
            if "/" in name:
                continue
            if meta["size"]:  # marker objects of folders are listed without the slash
                if name < previous:
                    raise _unsorted_listing(f"{root}/{folder}", previous, name)
                previous = name
            if name >= first:
                yield _status(root, meta)
        if not seen and next(iter(self._list(root, folder, None)), None) is None:
            raise FileMissingError(
                f"{root}/{folder}: can't list: no object has this prefix",
                path=f"{root}/{folder}",
            )

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
        base = key.rstrip("/")
        skipped = SkippedPrefixes(f"{root}/{base}".rstrip("/"), skips)
        start = None if after is None else after.removeprefix(f"{root}/")
        empty: FileStatus | None = None
        for meta in self._list(root, base, start):
            file = _status(root, meta)
            if empty is not None and not file.path.startswith(f"{empty.path}/"):
                yield empty
            empty = None
            if until is not None and file.path > until:  # stores list in this order
                return
            if skipped.contains(file.path):
                continue
            if file.size:
                yield file
            else:  # a file or the marker object of a folder, which is listed without the slash
                empty = file
        if empty is not None:
            yield empty

    def status(self, path: str) -> FileStatus:
        root, key = split_object_uri(path)
        with storage_errors(path, "read", self._secrets):
            return _status(root, cast("dict[str, Any]", obstore.head(self._store(root), key)))

    def read_files(self, ranges: Iterable[ByteRange]) -> CloseableIterator[bytes]:
        return read_ranges(self._read, ranges, _IN_FLIGHT)

    def open_input(self, path: str, size: int | None = None) -> IO[bytes]:
        root, key = split_object_uri(path)
        store = self._store(root)
        if size is None:
            size = self.status(path).size
        errors = partial(storage_errors, path, "read", self._secrets)
        return cast("IO[bytes]", ObjectInput(store, key, size, errors))

    def open_output(self, path: str) -> IO[bytes]:
        root, key = split_object_uri(path)
        store = self._store(root)
        errors = partial(storage_errors, path, "write", self._secrets)
        return cast("IO[bytes]", ObjectOutput(store, key, errors))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        root, key = split_object_uri(path)
        store = self._store(root)
        if root in self._own_stores:
            self._own_checks.check((root,), store, root, key, self._secrets)
        else:
            identity = store_identity(root, self._options)
            _CHECKS.check(identity, store, root, key, self._secrets)
        return create_object(store, path, key, data, self._secrets)

    def put(self, path: str, data: bytes) -> None:
        root, key = split_object_uri(path)
        errors = partial(storage_errors, path, "write", self._secrets)
        put_object(self._store(root), key, data, errors)

    def mkdirs(self, path: str) -> None:
        # Object stores have no folders, but an invalid path is still an error.
        split_object_uri(path)

    def delete_files(self, paths: Iterable[str]) -> None:
        for root, group in groupby(map(split_object_uri, paths), key=lambda pair: pair[0]):
            keys = (key for _, key in group)
            while page := list(islice(keys, _PAGE)):
                self._delete(root, page)

    def delete_empty_folders(self, paths: Iterable[str]) -> None:
        for path in paths:
            # Object stores have no folders, but an invalid path is still an error.
            split_object_uri(path)

    def _delete(self, root: str, keys: list[str]) -> None:
        with storage_errors(f"{root}/{keys[0]}", "delete", self._secrets):
            try:
                obstore.delete(self._store(root), keys)
                return
            except (NotFoundError, FileNotFoundError):
                if len(keys) == 1:
                    return
        for key in keys:  # the store stops at the first missing key, so the rest isn't deleted
            self._delete(root, [key])

    def _read(self, requested: ByteRange) -> bytes:
        root, key = split_object_uri(requested.path)
        with storage_errors(requested.path, "read", self._secrets):
            store = self._store(root)
            try:
                data = _bytes_of(store, key, requested)
            except (BaseError, ValueError):
                # Stores reject a range that begins at or after the end.
                if requested.offset and self.status(requested.path).size <= requested.offset:
                    return b""
                raise
        if requested.length is not None and len(data) < requested.length:
            length = min(requested.length, self.status(requested.path).size - requested.offset)
            if len(data) < length:
                raise incomplete_read(requested.path, len(data), length)
        return data

    def _list(self, root: str, folder: str, offset: str | None) -> Iterator[dict[str, Any]]:
        path = f"{root}/{folder}"
        with storage_errors(path, "list", self._secrets):
            pages = obstore.list(self._store(root), folder or None, offset=offset, chunk_size=_PAGE)
        pages = iter(pages)
        prefix = f"{folder}/" if folder else ""
        count, seen = 0, None
        while True:
            with storage_errors(path, "list", self._secrets):
                page = next(pages, None)
            if page is None:
                return
            for meta in cast("list[dict[str, Any]]", page):
                key = meta["path"]
                if key == seen:
                    raise _wrong_listing(path, f"{key} twice")
                count += 1
                if count & (count - 1) == 0:  # at powers of two: an endless listing repeats a key
                    seen = key
                if key.startswith(prefix):
                    yield meta
                elif key != folder:  # the folder's marker object, which some tools create
                    raise _wrong_listing(path, f"{key}, which isn't in the folder")

    def _store(self, root: str) -> ObjectStore:
        with self._lock:
            store = self._stores.get(root)
            if store is None:
                store = self._stores[root] = _open_store(
                    root, self._options, self._credentials, self._secrets
                )
            return store


def _bytes_of(store: ObjectStore, key: str, requested: ByteRange) -> bytes:
    if requested.length == 0:
        return b""
    if requested.length is not None:
        data = obstore.get_range(store, key, start=requested.offset, length=requested.length)
        return data.to_bytes()
    options: Any = {"range": {"offset": requested.offset}} if requested.offset else None
    return obstore.get(store, key, options=options).bytes().to_bytes()


def _open_store(
    root: str,
    options: Mapping[str, str],
    credentials: CredentialProvider | None,
    secrets: StoreSecrets,
) -> ObjectStore:
    """Open a store, and add to `secrets` the secret values that the store's requests contain."""
    scheme = root.partition("://")[0]
    settings = store_settings(scheme, options)
    check_bucket_options(root, settings.config)
    variables = store_variables(scheme)
    hosts = endpoint_hosts({**variables, **options})
    secrets.add_options({**variables, **options}, hosts)
    if credentials is None and scheme == "s3":
        verify = settings.client_options.get("allow_invalid_certificates") != "true"
        credentials = take_role(settings.config, variables, verify=verify)
    if credentials is None:
        credentials = option_credentials(scheme, settings.config, variables)
    with opening_errors(root, {**variables, **options}):
        try:
            return from_url(
                root,
                config=cast("Any", settings.config),
                client_options=cast("Any", settings.client_options),
                retry_config=cast("Any", settings.retry_config or None),
                credential_provider=cast("Any", secrets.record(credentials, hosts)),
            )
        except UnknownConfigurationKeyError as error:
            raise unknown_option(scheme, str(error)) from None


def _wrong_listing(path: str, listed: str) -> StorageError:
    return StorageError(
        f"{path}: can't list: the store returned an invalid listing: it has {listed}. Check the "
        "connection to the store, for example a proxy.",
        path=path,
    )


def _unsorted_listing(path: str, name: str, next_name: str) -> StorageError:
    return StorageError(
        f"{path}: can't list: the store's listing isn't sorted: it has {next_name} after {name}. "
        "Use a bucket whose listings are sorted by key, and not a directory bucket of S3.",
        path=path,
    )


def _status(root: str, meta: Mapping[str, Any]) -> FileStatus:
    return FileStatus(
        path=f"{root}/{meta['path']}",
        size=meta["size"],
        modification_time=int(meta["last_modified"].timestamp() * 1000),
    )
