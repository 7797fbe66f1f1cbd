"""The files of `examples/plan` do what they say, exactly once."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter

import pytest

from bayou.ingest.batch.startup_session import MAX_RECORDS
from support.delta_spark_reader import PEERS, rows_by_delta_spark

_PARTITIONS = 4
_KILLS = int(os.environ.get("BAYOU_TEST_KILLS", "3"))


def test_the_file_runs_unchanged_and_nothing_is_lost_or_doubled(plan):
    ledger = plan.produce_user_events(3_000)
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


@pytest.mark.slow
def test_a_second_run_has_nothing_to_do(plan):
    ledger = plan.produce_user_events(300)
    assert plan.run().code == 0
    again = plan.run()
    assert again.code == 0, again.complaints
    assert again.of("batch_committed") == []
    plan.check_user_events(ledger)


@pytest.mark.slow
def test_large_batches_by_one_setting(plan):
    ledger = plan.produce_user_events(200_000, bad_every=997)
    run = plan.run("--set", "connector.topics.user-events.processing.batch-size=50000")
    assert run.code == 0, run.complaints
    first, *batches = (b["rows"] + b["dead_letters"] for b in run.of("batch_committed"))
    assert first == MAX_RECORDS  # without Spark, which is starting
    assert batches == [50_000] * 3 + [30_000]
    plan.check_user_events(ledger)


@pytest.mark.slow
@pytest.mark.timeout(900 + 120 * _KILLS)
@pytest.mark.parametrize("limit", ["batch-size=200", "max-batch-bytes=40kb"])
def test_killed_at_random_points_nothing_is_lost_or_doubled(plan, limit, tmp_path):
    size = ("--set", f"connector.topics.user-events.processing.{limit}")
    rng = random.Random()
    for number in range(_KILLS):
        ledger = plan.produce_user_events(1_000)  # more batches than are waited for
        running = plan.start("--once", *size)
        end = (running.kill_somewhere, running.lose_jvm, running.lose_worker)[number % 3]
        end(rng, rng.randrange(4))
        if number == _KILLS // 2:
            shutil.rmtree(plan.state)
    run = plan.run(*size)
    assert run.code == 0, run.complaints
    plan.check_user_events(ledger)
    proof = plan.verify("user-events")
    assert proof.code == 0, proof.out
    if PEERS:
        columns = ["_kafka_partition", "_kafka_offset", "user_id"]
        rows = rows_by_delta_spark(plan.disk("user_events"), tmp_path, columns)
        found = [tuple(row.values()) for row in rows]
        assert Counter(found) == Counter((p, o, user) for (p, o), user in ledger.rows.items())


@pytest.mark.slow
def test_json_of_before_is_migrated_and_kafka_goes_on_behind_it(plan):
    """From the folder that is the default; killed while it is migrated."""
    click = {"event_type": "click", "timestamp": "2024-01-05T10:00:00Z"}
    events = [{"user_id": f"u-{n}", **click} for n in range(600)]
    plan.send("user.events.v1", [json.dumps(event).encode() for event in events])
    old = [
        {**event, "_kafka_partition": n % _PARTITIONS, "_kafka_offset": n // _PARTITIONS}
        for n, event in enumerate(events[:400])
    ]
    folder = plan.s3.objects / "test-data-lake/json/user-events"
    for day, part in (("05", old[:300]), ("06", old[300:])):
        (folder / f"year=2024/month=01/day={day}").mkdir(parents=True)
        (folder / f"year=2024/month=01/day={day}/batch_1.json").write_text(json.dumps(part))
    migrates = ("--set", "connector.migration.enabled=true")
    for _ in range(2):
        running = plan.start("--once", *migrates)
        time.sleep(random.uniform(1, 4))  # deliberate: a kill at any moment
        running.kill()
    run = plan.run(*migrates)
    assert run.code == 0, run.complaints
    migrated = {m["topic"]: m["files"] + m["known"] for m in run.of("migrated")}
    assert migrated == {"user-events": 2, "order-events": 0, "custom-topic": 0}
    table = plan.table("user_events").to_pyarrow_table(columns=["user_id", "_kafka_partition"])
    assert sorted(table["user_id"].to_pylist()) == sorted(e["user_id"] for e in events)
    assert Counter(table["_kafka_partition"].to_pylist()) == {-1: 400, 0: 50, 1: 50, 2: 50, 3: 50}
    proof = plan.verify("user-events")
    assert proof.code == 0, proof.out


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
