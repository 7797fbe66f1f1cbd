"""Translates operating system errors into storage errors that say what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from bayou.errors import FileMissingError, StorageError

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def storage_errors(path: str, doing: str) -> Iterator[None]:
    """Context manager that translates an `OSError` to a `StorageError`.

    Args:
        doing: verb for the error message, such as `read`.
    """
    try:
        yield
    except NotADirectoryError as error:
        obstacle = _file_in_the_way(path)
        raise FileMissingError(
            f"{path}: can't {doing}: {obstacle} is a file, not a folder. Use another path, or "
            "move the file.",
            path=path,
            obstacle=obstacle,
        ) from error
    except FileNotFoundError as error:
        missing = "the file or folder doesn't exist"
        raise FileMissingError(f"{path}: can't {doing}: {missing}", path=path) from error
    except PermissionError as error:
        raise StorageError(
            f"{path}: can't {doing}: permission denied. Check the owner and mode of the file and "
            "its folder.",
            path=path,
        ) from error
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StorageError(
                f"{path}: can't {doing}: the disk is full or a quota is reached, and no partial "
                "file is left. Free some space and try again.",
                path=path,
            ) from error
        reason = error.strerror or str(error)
        raise StorageError(f"{path}: can't {doing}: {reason}", path=path) from error
    except ValueError as error:  # a NUL or a lone surrogate in the name
        raise StorageError(f"{path!r}: can't {doing}: {error}", path=path) from error


def _file_in_the_way(path: str) -> str:
    """Return the file in the place of a folder: the path or its innermost existing parent."""
    parent = path
    while not os.path.lexists(parent) and os.path.dirname(parent) != parent:
        parent = os.path.dirname(parent)
    return parent
