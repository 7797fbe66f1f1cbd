"""What is collected where."""

from __future__ import annotations

import os
from typing import Any

import conformance
import pytest
from hypothesis import settings

# Its assertions are tests too. Said here, before any test imports it.
pytest.register_assert_rewrite("bayou.testing", "refusals")

pytest_plugins = ["small_pipelines"]

# No test asserts a time: neither does Hypothesis of an example.
settings.register_profile("bayou", deadline=None)
settings.load_profile("bayou")

# Spark's JVMs of tests live for seconds: the optimizing compiler and the parallel collector cost
# them more than they bring (a third of the time, on two cores).
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Their environment is made by `make test-peers`, which says so.
collect_ignore = [] if "BAYOU_PEERS" in os.environ else ["peers"]

# The conformance sets are not part of the repository.
if conformance.folder() is None:
    collect_ignore_glob = ["conformance/test_*.py", "*/test_conformance.py"]

_TOTALS = pytest.StashKey[dict[str, str]]()
_SENT = "conformance_totals"


@pytest.fixture(scope="session")
def conformance_totals(pytestconfig: pytest.Config) -> dict[str, str]:
    """Where the conformance sets put their totals: the summary of the run prints them."""
    return pytestconfig.stash[_TOTALS]


def pytest_configure(config: pytest.Config) -> None:
    """Nothing has run yet."""
    config.stash[_TOTALS] = {}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """With several processes the totals come from the one that ran the set."""
    node.config.stash[_TOTALS].update(getattr(node, "workeroutput", {}).get(_SENT, {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand this process's totals to the one that prints."""
    sent: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if sent is not None:
        sent[_SENT] = session.config.stash[_TOTALS]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The conformance sets are counted by case, or were not there."""
    if conformance.folder() is None:
        terminalreporter.write_line(
            "conformance sets: not beside the repository, their tests were not collected"
        )
    for name, total in terminalreporter.config.stash[_TOTALS].items():
        terminalreporter.write_line(f"conformance set {name}: {total}")
