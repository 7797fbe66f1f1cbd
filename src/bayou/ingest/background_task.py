"""Background threads whose exceptions are re-raised by `finish()`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class BackgroundTask:
    """A task that runs in a daemon thread, started on construction."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds`; return whether the task has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def finish(self) -> None:
        """Wait until the task ends; re-raise its exception."""
        self._thread.join()
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as fault:  # noqa: BLE001  # re-raised by `finish`
            self._fault = fault


def run_parallel(function: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Call a function for each item, each in its own thread; return the results in item order.

    All calls have ended before `run_parallel` returns or raises. If several calls fail, the
    exception for the first failed item is raised.
    """
    answers: dict[int, Answer] = {}

    def store(number: int) -> None:
        answers[number] = function(items[number])

    tasks = [BackgroundTask(partial(store, number)) for number in range(len(items))]
    faults: list[Exception] = []
    for task in tasks:
        try:
            task.finish()
        except Exception as fault:  # noqa: BLE001  # raised when all calls have ended
            faults.append(fault)
    if faults:
        raise faults[0]
    return [answers[number] for number in range(len(items))]
