"""Conditional puts of an object store: one request, its conflicts, and a check that they work.

A commit is a put that the store must refuse if the key exists (`If-None-Match: *` on S3). A store
that ignores the condition replaces commits of others, so that rows are lost without an error.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Mapping

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import ObjectStore

from bayou.engines.arrow.store_errors import error_code, storage_errors
from bayou.errors import PrerequisiteError, StorageError

__all__ = ["ConditionalPuts", "create_object", "store_identity"]

_LOG_FOLDER = "_delta_log/"
_CHECK_NAME = ".bayou-conditional-put-check"
_CHECK_TRIES = 3

_CONFLICTS = frozenset({"ConditionalRequestConflict", "OperationAborted"})
"""S3 answers 409 with these if another request for the key is under way: nothing was decided."""

_CONFLICT_TRIES = 10
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0


def create_object(store: ObjectStore, path: str, key: str, data: bytes) -> bool:
    """Put an object unless there is one; a conflict with another request is tried again.

    Args:
        store: the bucket.
        path: the object's path, for errors.
        key: its key.
        data: all of its bytes.

    Returns:
        False if there is an object already.

    Raises:
        StorageError: the store failed, or the conflicts don't end.
    """
    for attempt in range(_CONFLICT_TRIES):
        with storage_errors(path, "write"):
            try:
                obstore.put(store, key, data, mode="create", use_multipart=False)
            except (AlreadyExistsError, FileExistsError, PreconditionError) as error:
                if error_code(error) not in _CONFLICTS:
                    return False
            else:
                return True
        _pause(attempt)
    raise StorageError(
        f"can't write {path}: the store still reports a conflicting request for it after "
        f"{_CONFLICT_TRIES} attempts; repeat the operation",
        path=path,
    )


class ConditionalPuts:
    """Which buckets refuse to replace an object; each is checked once. Safe in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[tuple[str, ...], bool] = {}

    def check(self, identity: tuple[str, ...], store: ObjectStore, root: str, key: str) -> None:
        """Check the bucket before the first file of a log is put there.

        One hidden key beside the log's files is created twice, and deleted. If it can't be deleted
        it stays, and the next process creates it only once: the refusal is the proof.

        Args:
            identity: of the bucket; see `store_identity`.
            store: the bucket.
            root: its URI.
            key: of the file that is to be put; keys outside of a log aren't checked.

        Raises:
            PrerequisiteError: the store accepts a put that it must refuse.
            StorageError: the store failed.
        """
        above, folder, _ = key.partition(_LOG_FOLDER)
        if not folder or (above and not above.endswith("/")):
            return
        with self._lock:
            if identity not in self._results:
                self._results[identity] = _refuses(store, root, f"{above}{folder}{_CHECK_NAME}")
            result = self._results[identity]
        if not result:
            raise PrerequisiteError(
                f"{root}: the store accepts two puts of one key with `If-None-Match: *`, so that "
                "concurrent commits would replace each other. Use a store that supports "
                "conditional puts, or a newer version of it, and start this process again.",
                what="conditional puts",
            )


def store_identity(root: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """What tells a bucket from others of the same name: its URI and the endpoints that are set."""
    known = {**os.environ, **options}
    return (root, *sorted(f"{k}={v}" for k, v in known.items() if "endpoint" in k.lower()))


def _refuses(store: ObjectStore, root: str, key: str) -> bool:
    """Whether one of a few puts of a key is refused: another process may delete it in between."""
    path = f"{root}/{key}"
    created = False
    for _ in range(_CHECK_TRIES):
        if not create_object(store, path, key, b""):
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
        pass  # deleting isn't allowed here; the key is used again


def _pause(attempt: int) -> None:
    longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**attempt)
    time.sleep(random.uniform(longest / 2, longest))  # noqa: S311 - jitter isn't a secret
