"""The conformance sets are not part of the repository: without them there is nothing to collect."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import conformance
import pytest

_totals: dict[str, str] = {}

if conformance.folder() is None:
    collect_ignore_glob = ["test_*.py"]


@cache
def _run(name: str) -> conformance.Outcome:
    sets = conformance.folder()
    assert sets is not None
    outcome = conformance.run(sets, name)
    _totals[name] = outcome.total
    return outcome


@pytest.fixture(scope="session")
def run_set() -> Callable[[str], conformance.Outcome]:
    """Runs a set once a session."""
    return _run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if conformance.folder() is None:
        terminalreporter.write_line(
            "conformance sets: not beside the repository, their tests were not collected"
        )
    for name, total in _totals.items():
        terminalreporter.write_line(f"conformance set {name}: {total}")
