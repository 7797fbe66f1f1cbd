"""A guard against unit tests that start a process: a JVM, a server, another Python.

A test that starts one is marked `spark`, `server` or `process`. In any other test the start raises
`UnmarkedProcessError`, and the test fails even where the code under test swallows the error.
"""

from __future__ import annotations

import multiprocessing.process
import sys
from collections.abc import Iterator
from typing import Any

import pytest

MARKERS = ("spark", "server", "process")
"""Markers of tests that may start processes."""

_EVENTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})


class UnmarkedProcessError(RuntimeError):
    """A test started a process, but has no marker that permits it."""


class _Guard:
    """Refuses processes if `active`, and records the processes that were refused."""

    def __init__(self) -> None:
        self.active = False
        self.started: list[str] = []

    def check(self, command: str) -> None:
        """Record a process and raise `UnmarkedProcessError`, if the guard is active."""
        if self.active:
            self.started.append(command)
            raise UnmarkedProcessError(_explain(command))

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Audit hook of Python: check processes that `subprocess` and `os` start."""
        if self.active and event in _EVENTS:
            self.check(_command(event, arguments))


_guard = _Guard()


def pytest_configure() -> None:
    """Install the hooks. Audit hooks can't be removed; this hook costs a set lookup per event."""
    sys.addaudithook(_guard.audit)
    start = multiprocessing.process.BaseProcess.start

    def checked_start(process: multiprocessing.process.BaseProcess) -> None:
        _guard.check(f"multiprocessing: {process.name}")  # `spawn` has no audit event
        start(process)

    multiprocessing.process.BaseProcess.start = checked_start  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Refuse processes while a test without a marker and its fixtures run."""
    _guard.started.clear()
    _guard.active = not any(map(item.get_closest_marker, MARKERS))
    try:
        return (yield)
    finally:
        _guard.active = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that tried to start a process, even if it caught the error."""
    result = yield
    if _guard.started:
        pytest.fail(f"{item.nodeid}: {_explain(_guard.started[0])}", pytrace=False)
    return result


def _explain(command: str) -> str:
    return (
        f"this test starts a process: {command}. Mark it `spark` (a JVM), `server` or `process`, "
        "or test the same in this process."
    )


def _command(event: str, arguments: tuple[Any, ...]) -> str:
    if event == "subprocess.Popen":
        program, command = arguments[0], arguments[1]
        words = command if isinstance(command, list | tuple) else [command]
        return " ".join(str(word) for word in (words or [program]))[:200]
    return f"{event} {' '.join(map(str, arguments[:1]))}".strip()[:200]
