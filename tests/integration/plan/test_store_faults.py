"""The plan through a store that refuses, is slow, and loses answers."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from servers.faulty_proxy import NO_FAULT, Fault, FaultyProxy

_BATCHES_OF_100 = ("--set", "connector.topics.user-events.processing.batch-size=100")
_REFUSED = Fault(refuse=True)
_SLOW = Fault(delay=0.3)
_LOST = Fault(lose_answer=True)


@pytest.fixture
def through(plan):
    """Runs the plan through a proxy with faults; the tables are read past it."""

    def run(fault):
        with FaultyProxy(plan.s3.endpoint, fault) as proxy:
            plan.environment["AWS_ENDPOINT_URL"] = proxy.endpoint
            return plan.run(*_BATCHES_OF_100), proxy.requests

    return run


def test_a_store_that_refuses_a_fifth_of_all_requests(plan, through):
    ledger = plan.produce_user_events(300)
    rng = random.Random(5)
    run, requests = through(lambda *_: _REFUSED if rng.random() < 0.2 else NO_FAULT)
    assert run.code == 0, run.out
    assert requests[_REFUSED] > 10
    plan.check_user_events(ledger)


def test_a_store_that_is_slow(plan, through):
    ledger = plan.produce_user_events(200)
    run, requests = through(lambda *_: _SLOW)
    assert run.code == 0, run.out
    assert set(requests) == {_SLOW}
    plan.check_user_events(ledger)


def test_answers_to_commits_that_are_lost(plan, through):
    ledger = plan.produce_user_events(300)
    run, requests = through(_AnswersToCommits(lost=1))
    assert run.code == 0, run.out
    assert requests[_LOST] >= 6  # three of rows, three of dead letters; the rest is maintenance
    done = Counter(commit["operation"] for commit in plan.table("user_events").history())
    assert done.pop("OPTIMIZE") > 0
    assert [*done.values()] == [3]
    plan.check_user_events(ledger)


def test_answers_to_commits_and_to_every_retry_of_theirs_that_are_lost(plan, through):
    ledger = plan.produce_user_events(200)
    run, requests = through(_AnswersToCommits("/user_events/_delta_log/00000000000000000001", 100))
    assert run.code == 0, run.out
    assert requests[_LOST] > 1
    plan.check_user_events(ledger)


class _AnswersToCommits:
    """A number of answers to each commit are lost; the commits are made."""

    def __init__(self, of: str = "/_delta_log/", lost: int = 1) -> None:
        self._of = of
        self._lost = lost
        self._seen: Counter[str] = Counter()

    def __call__(self, method, path):
        if method != "PUT" or self._of not in path or not path.endswith(".json"):
            return NO_FAULT
        self._seen[path] += 1
        return _LOST if self._seen[path] <= self._lost else NO_FAULT
