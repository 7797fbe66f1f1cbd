"""The files of `examples/plan` do what they say, exactly once."""

from __future__ import annotations

import json
import os
import random
import shutil
import time

import pytest

_PARTITIONS = 4
_KILLS = int(os.environ.get("BAYOU_TEST_KILLS", "3"))


def test_the_file_runs_unchanged_and_nothing_is_lost_or_doubled(plan):
    ledger = plan.produce_user_events(10_000)
    plan.send("order.events.v1", [_order(n) for n in range(20)])
    plan.send("custom.topic.v1", [json.dumps({"id": n}).encode() for n in range(20)] + [None, b"x"])
    run = plan.run()
    assert run.code == 0, run.complaints
    batches = [e for e in run.of("batch_committed") if e["topic"] == "user-events"]
    assert sum(b["rows"] for b in batches) == len(ledger.rows)
    assert sum(b["dead_letters"] for b in batches) == len(ledger.bad)
    assert max(b["rows"] + b["dead_letters"] for b in batches) <= 100
    plan.check_user_events(ledger)
    assert plan.table("user_events").metadata().partition_columns == [
        *("year", "month", "day", "event_type")
    ]
    assert plan.table("order_events").to_pyarrow_table().num_rows == 20
    assert plan.table("custom_topic").to_pyarrow_table().num_rows == 20
    assert plan.table("custom_topic_dead_letters").to_pyarrow_table().num_rows == 2
    again = plan.run()
    assert again.code == 0, again.complaints
    assert again.of("batch_committed") == []
    plan.check_user_events(ledger)


def test_large_batches_by_one_setting(plan):
    ledger = plan.produce_user_events(200_000, bad_every=997)
    run = plan.run("--set", "connector.topics.user-events.processing.batch-size=50000")
    assert run.code == 0, run.complaints
    batches = run.of("batch_committed")
    assert [b["rows"] + b["dead_letters"] for b in batches] == [50_000] * 4
    plan.check_user_events(ledger)


@pytest.mark.timeout(300 + 60 * _KILLS)
def test_killed_at_random_points_nothing_is_lost_or_doubled(plan):
    size = ("--set", "connector.topics.user-events.processing.batch-size=200")
    ledger = plan.produce_user_events(1_000 * _PARTITIONS)
    rng = random.Random()
    for number in range(_KILLS):
        _kill_somewhere(plan.start("--once", *size), rng)
        if number == _KILLS // 2:
            shutil.rmtree(plan.state)
        ledger = plan.produce_user_events(50 * _PARTITIONS)
    run = plan.run(*size)
    assert run.code == 0, run.complaints
    plan.check_user_events(ledger)


def _kill_somewhere(running, rng):
    """Let it commit a few times, or not once, and end it in the midst of what follows."""
    commits = rng.randrange(4)
    if commits == 0:
        running.next("topic_started")
        time.sleep(rng.uniform(0, 9))
    for _ in range(commits):
        running.next("batch_committed")
    time.sleep(rng.uniform(0, 0.8))
    running.kill()


def _order(number: int) -> bytes:
    order = {
        "order_id": f"o-{number}",
        "customer_id": "c",
        "status": "paid",
        "total": 1.5,
        "ordered_at": "2024-01-05T10:00:00Z",
        "delivery_day": "2024-01-07",
        "items": [{"sku": "a", "quantity": 1, "price": 1.5}],
    }
    return json.dumps(order).encode()
