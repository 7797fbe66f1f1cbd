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
    """A test without a marker that permits it starts a process."""


class _Guard:
    """The test that runs now, and the processes that it started without permission."""

    def __init__(self) -> None:
        self.active = False
        self.started: list[str] = []

    def check(self, command: str) -> None:
        """Refuse a process that the current test may not start."""
        if self.active:
            self.started.append(command)
            raise UnmarkedProcessError(_explain(command))

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Python's audit hook: sees what `subprocess` and `os` start."""
        if self.active and event in _EVENTS:
            self.check(_command(event, arguments))


_guard = _Guard()


def pytest_configure() -> None:
    """Install the hooks. Audit hooks can't be removed; this one costs a set lookup an event."""
    sys.addaudithook(_guard.audit)
    start = multiprocessing.process.BaseProcess.start

    def checked_start(process: multiprocessing.process.BaseProcess) -> None:
        _guard.check(f"multiprocessing: {process.name}")  # `spawn` has no audit event
        start(process)

    multiprocessing.process.BaseProcess.start = checked_start  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Guard the test and its fixtures."""
    _guard.started.clear()
    _guard.active = not any(map(item.get_closest_marker, MARKERS))
    try:
        return (yield)
    finally:
        _guard.active = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that went on after its process was refused."""
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
