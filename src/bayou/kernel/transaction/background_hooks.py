"""Post-commit hooks that run in a background thread, so that commits don't wait for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Self

from bayou.kernel.elapsed_time import ElapsedTime

_END_SECONDS = 30.0


class BackgroundHooks:
    """Runs hooks in one background thread, while it is open as a context manager.

    Hooks of all commits of the process are passed to the instance that was opened last. A hook that
    waits is replaced by a newer hook with the same key. At the end, hooks that wait are run for at
    most 30 seconds; the next commit does the work of the others.
    """

    _open: list[BackgroundHooks] = []  # noqa: RUF012 - the open instances of the process
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Callable[[], None]] = {}
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="bayou-hooks", daemon=True)

    @classmethod
    def current(cls) -> BackgroundHooks | None:
        """Return the instance that was opened last; None if none is open."""
        with cls._lock:
            return cls._open[-1] if cls._open else None

    def __enter__(self) -> Self:
        with self._lock:
            self._open.append(self)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._open.remove(self)
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        elapsed = ElapsedTime()
        self._thread.join(_END_SECONDS)
        if elapsed.seconds >= _END_SECONDS:
            with self._changed:
                self._waiting.clear()

    def submit(self, key: Hashable, run: Callable[[], None]) -> None:
        """Run a hook soon. It replaces a hook with the same key that waits.

        Args:
            run: function that runs the hook and logs its errors.
        """
        with self._changed:
            self._waiting[key] = run
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._is_closing:
                        return
                    self._changed.wait()
                key = next(iter(self._waiting))
                run = self._waiting.pop(key)
            run()
