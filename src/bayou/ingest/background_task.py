"""Background threads whose exceptions are re-raised by `finish()`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

__all__ = ["BackgroundTask", "run_parallel"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class BackgroundTask:
    """A task that runs in a daemon thread, started on construction.

    Args:
        work: the function to run.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the task is still running."""
        return self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Wait at most this long; return whether the task has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def finish(self) -> None:
        """Wait until the task ends, and raise its exception."""
        self._thread.join()
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as fault:  # noqa: BLE001  # `finish` raises it; also a panic in Rust
            self._fault = fault


def run_parallel(function: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Call a function for every item in parallel threads, so that timeouts don't add up."""
    answers: dict[int, Answer] = {}

    def store(number: int) -> None:
        answers[number] = function(items[number])

    tasks = [BackgroundTask(partial(store, number)) for number in range(len(items))]
    for task in tasks:
        task.finish()
    return [answers[number] for number in range(len(items))]
