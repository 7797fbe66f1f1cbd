"""What runs the conformance sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import conformance
import pytest


@pytest.fixture(scope="session")
def run_set(conformance_totals: dict[str, str]) -> Callable[[str], conformance.Outcome]:
    """Runs a set once a session."""

    @cache
    def run(name: str) -> conformance.Outcome:
        sets = conformance.folder()
        assert sets is not None
        outcome = conformance.run(sets, name)
        conformance_totals[name] = outcome.total
        return outcome

    return run
