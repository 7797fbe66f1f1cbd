"""The plan through a store that refuses, is slow, and loses answers."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from servers.faulty_proxy import NO_FAULT, Fault, FaultyProxy
from support.keyed_records import KeyedRecords

_BATCHES_OF_100 = ("--set", "connector.topics.user-events.processing.batch-size=100")
_REFUSED = (Fault(refuse=503), Fault(refuse=500), Fault(deny=True))
_SLOW = Fault(delay=0.05)
_LOST = Fault(lose_answer=True)


@pytest.fixture
def through(plan):
    """Runs the plan through a proxy with faults; the tables are read past it."""

    def run(fault, *arguments, config="append.yaml"):
        with FaultyProxy(plan.s3.endpoint, fault) as proxy:
            plan.environment["AWS_ENDPOINT_URL"] = proxy.endpoint
            return plan.run(*(arguments or _BATCHES_OF_100), config=config), proxy.requests

    return run


@pytest.mark.slow
def test_a_slow_store_that_refuses_a_fifth_of_all_requests_or_denies_what_it_did(plan, through):
    ledger = plan.produce_user_events(300)
    rng = random.Random(5)
    run, requests = through(lambda *_: rng.choice(_REFUSED) if rng.random() < 0.2 else _SLOW)
    assert run.code == 0, run.out
    assert set(requests) == {*_REFUSED, _SLOW}
    plan.check_user_events(ledger)


@pytest.mark.slow
@pytest.mark.parametrize("driver_bytes", ["0", str(64 << 20)])
def test_upserts_to_a_store_that_is_slow_refuses_and_loses_answers(plan, through, driver_bytes):
    plan.environment["BAYOU_ROWOPERATIONS_SOURCEBYTES"] = driver_bytes
    keyed = KeyedRecords(
        plan.kafka.bootstrap_servers, "user.events.v1", users=50, partitions=4, late=50
    )
    keyed.send(400)
    rng = random.Random(5)
    faults = (*_REFUSED, _SLOW, _LOST)
    run, requests = through(
        lambda *_: rng.choice(faults) if rng.random() < 0.2 else NO_FAULT,
        *("--set", "connector.topics.user-events.processing.batch-size=200"),
        config="upsert.yaml",
    )
    assert run.code == 0, run.out
    assert set(requests) == {*faults, NO_FAULT}
    columns = ["user_id", "session_id", "event_type", "duration_ms"]
    keyed.check(plan.table("user_events").to_pyarrow_table(columns=columns).to_pylist())
    letters = plan.table("user_events_dead_letters").to_pyarrow_table(columns=["offset"])
    assert letters.num_rows == keyed.bad


@pytest.mark.slow
def test_answers_to_commits_that_are_lost(plan, through):
    ledger = plan.produce_user_events(300)
    run, requests = through(_AnswersToCommits(lost=1))
    assert run.code == 0, run.out
    assert requests[_LOST] >= 6  # three of rows, three of dead letters; the rest is maintenance
    done = Counter(commit["operation"] for commit in plan.table("user_events").history())
    assert done.pop("OPTIMIZE") > 0
    assert [*done.values()] == [3]
    plan.check_user_events(ledger)


@pytest.mark.slow
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
