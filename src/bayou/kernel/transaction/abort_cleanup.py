"""Files that were written for a commit, and whether they may be deleted.

A file may be deleted only if its commit certainly did not happen. `commit_with_retries` reports
each commit here before it is sent to the store, and withdraws the report when another commit is
known to hold the version. Every block of `discard_unless_committed` that is open in the thread sees
the reports, however deep in the calls the commit is made. An interrupt, an error of the store or an
error after the commit therefore never deletes a file that the log may name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from bayou.errors import BayouError

__all__ = ["discard_unless_committed", "report_possible_commit", "report_refused_commit"]

_LOG = logging.getLogger(__name__)

_OPEN_BLOCKS: ContextVar[tuple[set[str], ...]] = ContextVar("open_blocks", default=())
"""The `txnId`s of commits that may have happened, for each open block."""


@contextmanager
def discard_unless_committed(discard: Callable[[], None]) -> Iterator[None]:
    """A block that commits files; if it fails before any commit can have happened, delete them.

    The block must run in the thread that commits. A failure to delete is logged, because the error
    of the block matters more; VACUUM deletes what stays.

    Args:
        discard: deletes the files.
    """
    possible: set[str] = set()
    token = _OPEN_BLOCKS.set((*_OPEN_BLOCKS.get(), possible))
    try:
        yield
    except BaseException:
        if not possible:
            try:
                discard()
            except BayouError as error:
                _LOG.warning("Files of a commit that failed stay until VACUUM: %s", error)
        raise
    finally:
        _OPEN_BLOCKS.reset(token)


def report_possible_commit(txn_id: str) -> None:
    """Report that a commit is about to be sent: from now on it may have happened."""
    for possible in _OPEN_BLOCKS.get():
        possible.add(txn_id)


def report_refused_commit(txn_id: str) -> None:
    """Report that a commit did not happen, because another one holds its version."""
    for possible in _OPEN_BLOCKS.get():
        possible.discard(txn_id)
