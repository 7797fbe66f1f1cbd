"""Wait for a condition instead of a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["wait_until"]

_T = TypeVar("_T")
_POLL = 0.01


def wait_until(
    condition: Callable[[], _T], *, timeout: float = 60.0, what: object = "the condition"
) -> _T:
    """Call a function until it returns something true, and return that.

    Args:
        condition: called every 10 ms; an exception that it raises ends the wait.
        timeout: seconds; far longer than the wait takes when nothing is wrong.
        what: what is awaited, for the error; converted to a string when the wait has failed.

    Raises:
        AssertionError: the condition was not true in time.
    """
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"Waited {timeout:g} s in vain: {what}.")
        time.sleep(_POLL)
    return value
