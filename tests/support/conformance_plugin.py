"""Pytest plugin that collects conformance tests if the sets exist, and prints their totals."""

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
    """Create the empty totals of the sets."""
    config.stash[_TOTALS] = {}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore conformance tests if the sets don't exist; None for other files."""
    if conformance_sets.folder() is not None or collection_path.suffix != ".py":
        return None
    return True if _needs_sets(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect conformance tests that the command line names, if the sets don't exist."""
    if conformance_sets.folder() is None:
        unavailable = [item for item in items if _needs_sets(item.path)]
        config.hook.pytest_deselected(items=unavailable)
        items[:] = [item for item in items if item not in unavailable]


def _needs_sets(path: Path) -> bool:
    in_folder = path.parent.name == "conformance" and path.name.startswith("test_")
    return in_folder or path.name == "test_conformance.py"


@pytest.fixture(scope="session")
def run_set(pytestconfig: pytest.Config) -> Callable[[str], conformance_sets.Outcome]:
    """Return a function that runs a set by name, at most once per session."""

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
    """Collect the totals that an xdist worker sent."""
    node.config.stash[_TOTALS].update(getattr(node, "workeroutput", {}).get(_SENT, {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In an xdist worker, send the totals to the controller process."""
    sent: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if sent is not None:
        sent[_SENT] = session.config.stash[_TOTALS]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the total of each set, or that the sets don't exist."""
    if conformance_sets.folder() is None:
        terminalreporter.write_line(
            "conformance sets: not beside the repository, their tests were not collected"
        )
    for name, total in terminalreporter.config.stash[_TOTALS].items():
        terminalreporter.write_line(f"conformance set {name}: {total}")
