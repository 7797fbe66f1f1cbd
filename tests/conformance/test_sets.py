"""The tables of other writers, with the rows that other readers agree on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import bayou.errors
from support import conformance_sets

pytestmark = [
    pytest.mark.parametrize("name", conformance_sets.SETS),
    pytest.mark.conformance,
    pytest.mark.process,
    pytest.mark.timeout(600),
]

RunSet = Callable[[str], conformance_sets.Outcome]


def test_a_case_that_has_passed_still_passes(name: str, run_set: RunSet) -> None:
    known = set(conformance_sets.expected(name))
    broken = [str(failure) for failure in run_set(name).failures if failure.case in known]
    assert broken == []


def test_the_list_of_passing_cases_is_up_to_date(name: str, run_set: RunSet) -> None:
    new = set(run_set(name).passing) - set(conformance_sets.expected(name))
    assert new == set(), "run tests/support/conformance_sets.py --update"


def test_what_is_not_supported_is_refused_and_never_read_wrong(name: str, run_set: RunSet) -> None:
    refusals = set(bayou.errors.__all__)
    wrong = [
        str(failure)
        for failure in run_set(name).failures
        if failure.error not in refusals and not failure.reads_too_much()
    ]
    assert wrong == []
