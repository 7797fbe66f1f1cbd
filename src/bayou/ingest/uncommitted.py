"""Files that were written for a commit that isn't made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from bayou.errors import BayouError, CommitFailedError, StorageError

__all__ = ["unless_committed"]


@contextlib.contextmanager
def unless_committed(discard: Callable[[], None]) -> Iterator[None]:
    """Around a commit: where it is refused, `discard` deletes what was written for it.

    Where the store failed it isn't called: the commit may be there, and nobody could say. VACUUM
    takes what no commit names.
    """
    try:
        yield
    except (CommitFailedError, StorageError):
        raise
    except BayouError:
        with contextlib.suppress(StorageError):  # why it was refused is the error
            discard()
        raise
