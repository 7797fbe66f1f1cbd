"""Work in a thread of its own whose fault isn't lost."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Errand"]


class Errand:
    """Work that has been begun in a thread that no exit waits for.

    Args:
        work: what to do.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._fault: Exception | None = None
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
        except Exception as fault:  # noqa: BLE001  # `finish` raises it
            self._fault = fault
