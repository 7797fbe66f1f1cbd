"""Plugin: collect the conformance tests where the sets are, and print their totals at the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support import conformance_sets

_TOTALS = pytest.StashKey[dict[str, str]]()
_SENT = "conformance_totals"


def pytest_configure(config: pytest.Config) -> None:
    """No set has run yet."""
    config.stash[_TOTALS] = {}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out tests of the sets in a clone that has none; the summary says so."""
    if conformance_sets.folder() is not None or collection_path.suffix != ".py":
        return None
    is_test = collection_path.name.startswith("test_")
    in_folder = collection_path.parent.name == "conformance" and is_test
    return True if in_folder or collection_path.name == "test_conformance.py" else None


@pytest.fixture(scope="session")
def run_set(pytestconfig: pytest.Config) -> Callable[[str], conformance_sets.Outcome]:
    """Runs a set once a session."""

    @cache
    def run(name: str) -> conformance_sets.Outcome:
        sets = conformance_sets.folder()
        assert sets is not None
        outcome = conformance_sets.run(sets, name)
        pytestconfig.stash[_TOTALS][name] = outcome.total
        return outcome

    return run


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the totals of a worker process over."""
    node.config.stash[_TOTALS].update(getattr(node, "workeroutput", {}).get(_SENT, {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand this process's totals to the one that prints."""
    sent: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if sent is not None:
        sent[_SENT] = session.config.stash[_TOTALS]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count the sets by case, or say that they aren't there."""
    if conformance_sets.folder() is None:
        terminalreporter.write_line(
            "conformance sets: not beside the repository, their tests were not collected"
        )
    for name, total in terminalreporter.config.stash[_TOTALS].items():
        terminalreporter.write_line(f"conformance set {name}: {total}")
