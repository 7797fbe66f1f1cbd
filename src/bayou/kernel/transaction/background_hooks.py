"""A background thread for slow post-commit hooks, so that commits don't wait for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Self

from bayou.kernel.elapsed_time import ElapsedTime

_END_SECONDS = 30.0


class BackgroundHooks:
    """Runs post-commit hooks in a background thread until its `with` block ends.

    All commits of the process submit their slow hooks to the newest instance (see `run_hooks`). A
    newer hook replaces a pending hook with the same key.

    At its end, the `with` block waits at most 30 seconds for pending hooks. Hooks that are still
    pending after 30 seconds don't run. The next commit of the table runs hooks that do their work.
    """

    _open: list[BackgroundHooks] = []  # noqa: RUF012 - the open instances of the process
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._pending: dict[Hashable, Callable[[], None]] = {}
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="bayou-hooks", daemon=True)

    @classmethod
    def current(cls) -> BackgroundHooks | None:
        """Return the newest instance; None if no `with` block is active."""
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
                self._pending.clear()

    def submit(self, key: Hashable, run: Callable[[], None]) -> None:
        """Submit a hook. It replaces a pending hook with the same key.

        Args:
            key: identifies the maintenance, such as the name of the hook and the table.
            run: function that runs the hook and logs its errors.
        """
        with self._changed:
            self._pending[key] = run
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._pending:
                    if self._is_closing:
                        return
                    self._changed.wait()
                key = next(iter(self._pending))
                run = self._pending.pop(key)
            run()
