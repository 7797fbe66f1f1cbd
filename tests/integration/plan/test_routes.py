"""One topic in several tables, on a real broker, a real S3 server and Spark, killed in between."""

from __future__ import annotations

import json
import os
import random
from collections import Counter

import pytest

_KILLS = int(os.environ.get("BAYOU_TEST_KILLS", "2"))
_DESTINATION = "connector.topics.user-events.destination"
_ROUTES = f"{_DESTINATION}.route-by"
_SETTINGS = {
    f"{_ROUTES}.expression": "event_type",
    f"{_ROUTES}.table-path": "s3a://test-data-lake/tables/events_{value}",
    f"{_ROUTES}.tables": '{purchase: "s3a://test-data-lake/tables/purchases"}',
    f"{_ROUTES}.max-tables": "3",
    "connector.topics.user-events.processing.batch-size": "150",
}
_ARGUMENTS = [part for item in _SETTINGS.items() for part in ("--set", "=".join(item))]
_TYPES = ("click", "view", "purchase", "login")
_TABLES = {kind: f"events_{kind}" for kind in _TYPES} | {"purchase": "purchases"}


def events(first, count):
    """Valid events of four types; each 50th has no valid duration."""
    for number in range(first, first + count):
        yield {
            "user_id": f"u{number}",
            "event_type": _TYPES[number % 4],
            "timestamp": f"2026-01-05T{number % 4:02}:30:00Z",
            "page": str(number),
            "duration_ms": "long" if number % 50 == 7 else number,
        }


def send(plan, sent):
    plan.send("user.events.v1", [json.dumps(event).encode() for event in sent])


def check(plan, sent):
    """Each event is in the table of its type once, or is a dead letter; the proof holds."""
    good = [event for event in sent if event["duration_ms"] != "long"]
    for kind, name in _TABLES.items():
        rows = plan.table(name).to_pyarrow_table(columns=["user_id", "event_type"]).to_pylist()
        expected = Counter(e["user_id"] for e in good if e["event_type"] == kind)
        assert Counter(row["user_id"] for row in rows) == expected
        assert {row["event_type"] for row in rows} == {kind}
    assert plan.table("user_events").to_pyarrow_table().num_rows == 0
    letters = plan.table("user_events_dead_letters").to_pyarrow_table(columns=["offset"])
    assert letters.num_rows == len(sent) - len(good)
    proof = plan.verify("user-events", settings=_ARGUMENTS)
    assert proof.code == 0, proof.out
    assert sum(e["rows"] for e in proof.of("proof")) == len(good)


def test_each_event_is_in_the_table_of_its_type(plan):
    sent = list(events(0, 400))
    send(plan, sent)
    run = plan.run(*_ARGUMENTS)
    assert run.code == 0, run.complaints
    check(plan, sent)
    batches = run.of("batch_committed")
    created = [table["table"] for batch in batches for table in batch["tables"] if table["created"]]
    assert sorted(created) == ["events_click", "events_login", "events_view", "purchases"]


@pytest.mark.slow
@pytest.mark.timeout(900 + 120 * _KILLS)
def test_killed_at_random_points_each_event_is_in_its_table_once(plan):
    rng = random.Random()
    sent = []
    for number in range(_KILLS + 1):
        new = list(events(600 * number, 600))
        sent += new
        send(plan, new)
        if number < _KILLS:
            plan.start("--once", *_ARGUMENTS).kill_somewhere(rng, rng.randrange(4))
    run = plan.run(*_ARGUMENTS)
    assert run.code == 0, run.complaints
    check(plan, sent)
