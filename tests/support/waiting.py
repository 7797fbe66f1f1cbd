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
    """Call a function until its result is true, and return the result.

    Args:
        condition: called every 10 ms; an exception that it raises ends the wait.
        timeout: seconds; much longer than the wait takes without an error.
        what: the awaited condition, for the error message; only converted to a string on a timeout.

    Raises:
        AssertionError: the condition wasn't true before the timeout.
    """
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"Waited {timeout:g} s in vain: {what}.")
        time.sleep(_POLL)
    return value
