"""What the operating system says, as errors that say what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from bayou.errors import FileMissingError, StorageError

__all__ = ["storage_errors"]

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def storage_errors(path: str, doing: str) -> Iterator[None]:
    """Turn an `OSError` about `path` into a `StorageError`; `doing` is a verb, such as `read`."""
    try:
        yield
    except NotADirectoryError as error:
        obstacle = _file_in_the_way(path)
        raise FileMissingError(
            f"can't {doing} {path}: {obstacle} is a file, where a folder is needed; use another "
            "path, or move the file away",
            path=path,
            obstacle=obstacle,
        ) from error
    except FileNotFoundError as error:
        missing = "there is no such file or folder"
        raise FileMissingError(f"can't {doing} {path}: {missing}", path=path) from error
    except PermissionError as error:
        raise StorageError(
            f"can't {doing} {path}: no permission; check the owner and mode of it and its folder",
            path=path,
        ) from error
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StorageError(
                f"can't {doing} {path}: the disk is full (or a quota is reached); free some space "
                "and try again, nothing was left behind",
                path=path,
            ) from error
        reason = error.strerror or str(error)
        raise StorageError(f"can't {doing} {path}: {reason}", path=path) from error
    except ValueError as error:  # a NUL or a lone surrogate in the name
        raise StorageError(f"can't {doing} {path!r}: {error}", path=path) from error


def _file_in_the_way(path: str) -> str:
    """The first part of a path that isn't a folder."""
    found = path
    while not os.path.lexists(found) and os.path.dirname(found) != found:
        found = os.path.dirname(found)
    return found
