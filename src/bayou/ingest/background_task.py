"""Work in a thread of its own whose fault isn't lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

__all__ = ["Errand", "all_at_once"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Errand:
    """Work that has been begun in a thread that no exit waits for.

    Args:
        work: what to do.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def under_way(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; whether it has come to its end."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def finish(self) -> None:
        """Wait for its end; what the work raised is raised here."""
        self._thread.join()
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as fault:  # noqa: BLE001  # `finish` raises it, a panic of Rust too
            self._fault = fault


def all_at_once(ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
    """Ask about each in a thread of its own, so that what doesn't answer is waited for once."""
    answers: dict[int, Answer] = {}

    def keep(number: int) -> None:
        answers[number] = ask(items[number])

    errands = [Errand(partial(keep, number)) for number in range(len(items))]
    for errand in errands:
        errand.finish()
    return [answers[number] for number in range(len(items))]
