"""Puts to an object store, with retries, and a check that the store supports conditional puts.

A commit is a put that the store must reject if the key exists (`If-None-Match: *` on S3). If a
store ignored this condition, concurrent writers would replace each other's commits and lose rows.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore

from bayou.engines.arrow.storage.store_errors import error_code, storage_errors
from bayou.errors import PrerequisiteError, StorageError

PART_BYTES = 8 << 20
"""Maximum number of bytes of a request. Larger reads and writes are split into several requests."""

_LOG_FOLDER = "_delta_log/"
_CHECK_NAME = ".bayou-conditional-put-check"
_CHECK_TRIES = 3
_ENDPOINT = re.compile(r"endpoint|google_base_url")

_CONFLICTS = frozenset({"ConditionalRequestConflict", "OperationAborted"})
"""S3's error codes for status 409: another request for the key is in progress. The put is then
retried."""

_NOT_IMPLEMENTED = "NotImplemented"
"""S3's error code for status 501: the store doesn't implement a header of the request."""

_CONFLICT_TRIES = 10
_FIRST_PAUSE_SECONDS = 0.05
_MAX_PAUSE_SECONDS = 2.0


def create_object(
    store: ObjectStore, path: str, key: str, data: bytes, secrets: Iterable[str] = ()
) -> bool:
    """Create an object; return False if it exists.

    The put is repeated if the store reports a conflict with a concurrent request for the same key.

    Args:
        secrets: values that no message may contain; see `secret_values`.

    Raises:
        PrerequisiteError: the store doesn't implement conditional puts.
    """
    for attempt in range(_CONFLICT_TRIES):
        with storage_errors(path, "write", secrets):
            try:
                obstore.put(store, key, data, mode="create", use_multipart=False)
            except (AlreadyExistsError, FileExistsError, PreconditionError) as error:
                if error_code(error) not in _CONFLICTS:
                    return False
            except BaseError as error:
                if error_code(error) == _NOT_IMPLEMENTED:
                    raise _unsupported(path, "rejects `If-None-Match: *` in puts") from None
                raise
            else:
                return True
        _pause(attempt)
    raise StorageError(
        f"{path}: can't write: the store still reports a conflicting request after "
        f"{_CONFLICT_TRIES} attempts. Repeat the operation.",
        path=path,
    )


def put_object(
    store: ObjectStore, key: str, data: bytes, errors: Callable[[], AbstractContextManager[None]]
) -> None:
    """Create or replace an object; more than `PART_BYTES` are uploaded in parts.

    The put is repeated if the store reports a conflict with a concurrent request for the same key.

    Args:
        errors: function that returns a context manager that translates errors of the store.
    """
    for attempt in range(_CONFLICT_TRIES):
        with errors():
            try:
                obstore.put(store, key, data, chunk_size=PART_BYTES)
            except (AlreadyExistsError, FileExistsError, PreconditionError) as error:
                if error_code(error) not in _CONFLICTS or attempt == _CONFLICT_TRIES - 1:
                    raise
            else:
                return
        _pause(attempt)


class ConditionalPuts:
    """Checks, once for each bucket, that the bucket supports conditional puts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[tuple[str, ...], bool] = {}

    def check(
        self,
        identity: tuple[str, ...],
        store: ObjectStore,
        root: str,
        key: str,
        secrets: Iterable[str] = (),
    ) -> None:
        """Check that a bucket supports conditional puts.

        The check runs once for each `identity`, before the first write of a log file. It puts the
        same hidden key in the log folder a few times. The store must reject one of these puts,
        because the key exists after the first one. The check deletes the key if it created the key.

        Args:
            identity: identity of the bucket; see `store_identity`.
            root: URI of the bucket, for the error.
            key: key of the file to write. If it isn't in a log folder, nothing is checked.
            secrets: values that no message may contain; see `secret_values`.

        Raises:
            PrerequisiteError: the store doesn't support conditional puts.
        """
        parent, folder, _ = key.partition(_LOG_FOLDER)
        if not folder or (parent and not parent.endswith("/")):
            return
        with self._lock:
            if identity not in self._results:
                name = f"{parent}{folder}{_CHECK_NAME}"
                self._results[identity] = _rejects(store, root, name, secrets)
            result = self._results[identity]
        if not result:
            raise _unsupported(
                root,
                "ignores `If-None-Match: *` in puts, so concurrent commits would replace each "
                "other",
            )


def store_identity(root: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the identity of a bucket for `ConditionalPuts.check`: its URI and the endpoints."""
    known = {**os.environ, **options}
    return (root, *sorted(f"{k}={v}" for k, v in known.items() if _ENDPOINT.search(k.lower())))


def _unsupported(path: str, problem: str) -> PrerequisiteError:
    root = "/".join(path.split("/")[:3])
    return PrerequisiteError(
        f"{root}: the store {problem}. Use another store, or a newer version of this store, with "
        "conditional puts. Then restart this process.",
        what="conditional puts",
    )


def _rejects(store: ObjectStore, root: str, key: str, secrets: Iterable[str]) -> bool:
    """Whether the store rejects a put of an existing key.

    Several puts are tried, because another process may delete the key between two puts.
    """
    path = f"{root}/{key}"
    created = False
    for _ in range(_CHECK_TRIES):
        if not create_object(store, path, key, b"", secrets):
            break
        created = True
    else:
        _delete(store, path, key)
        return False
    if created:
        _delete(store, path, key)
    return True


def _delete(store: ObjectStore, path: str, key: str) -> None:
    try:
        with storage_errors(path, "delete"):
            obstore.delete(store, [key])
    except StorageError:
        pass  # no permission to delete: the next check uses the key again


def _pause(attempt: int) -> None:
    max_pause = min(_MAX_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**attempt)
    time.sleep(random.uniform(max_pause / 2, max_pause))  # noqa: S311 - jitter isn't a secret
