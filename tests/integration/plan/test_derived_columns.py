"""Derived columns and a filter on a real broker, a real S3 server and Spark, killed in between."""

from __future__ import annotations

import json
import os
import random
from collections import Counter

import pytest

from support.keyed_records import KeyedRecords

_KILLS = int(os.environ.get("BAYOU_TEST_KILLS", "2"))
_PROCESSING = "connector.topics.user-events.processing"
_SETTINGS = {
    f"{_PROCESSING}.columns": (
        '{hour: "date_trunc(\'HOUR\', timestamp)", seconds: "CAST(page AS INT) / 1000"}'
    ),
    f"{_PROCESSING}.where": "duration_ms % 3 <> 0",
    f"{_PROCESSING}.drop": "[device, page]",
    f"{_PROCESSING}.batch-size": "150",
    "connector.topics.user-events.destination.partition-columns": "[hour]",
}
_ARGUMENTS = [part for item in _SETTINGS.items() for part in ("--set", "=".join(item))]


def values(first, count):
    """Events of four hours; each third one is filtered out, each 50th has no valid page."""
    for number in range(first, first + count):
        yield {
            "user_id": f"u{number}",
            "event_type": "click",
            "timestamp": f"2026-01-05T{number % 4:02}:30:00Z",
            "page": "none" if number % 50 == 7 else str(number),
            "duration_ms": number,
            "device": {"os": "linux", "never": number} if number % 3 == 0 else {"os": "linux"},
        }


@pytest.mark.slow
@pytest.mark.timeout(900 + 120 * _KILLS)
def test_killed_at_random_points_the_table_has_the_derived_rows_once(plan):
    rng = random.Random()
    sent = []
    for number in range(_KILLS + 1):
        events = list(values(600 * number, 600))
        sent += events
        plan.send("user.events.v1", [json.dumps(event).encode() for event in events])
        if number < _KILLS:
            plan.start("--once", *_ARGUMENTS).kill_somewhere(rng, rng.randrange(4))
    run = plan.run(*_ARGUMENTS)
    assert run.code == 0, run.complaints
    expected = [event for event in sent if event["duration_ms"] % 3]
    good = [event for event in expected if event["page"] != "none"]
    table = plan.table("user_events")
    rows = table.to_pyarrow_table().to_pylist()
    assert Counter(row["user_id"] for row in rows) == Counter(e["user_id"] for e in good)
    assert all(row["hour"].hour == row["duration_ms"] % 4 for row in rows)
    assert all(row["seconds"] == row["duration_ms"] / 1000 for row in rows)
    assert not {"device", "page"} & rows[0].keys()
    assert table.metadata().partition_columns == ["hour"]
    letters = plan.table("user_events_dead_letters").to_pyarrow_table()
    assert letters.num_rows == len(expected) - len(good)
    assert {r.split(":")[0] for r in letters["reason"].to_pylist()} == {
        "processing.columns.seconds"
    }
    proof = plan.verify("user-events", settings=_ARGUMENTS)
    assert proof.code == 0, proof.out
    assert sum(e["filtered"] for e in proof.of("proof")) == len(sent) - len(expected)


@pytest.mark.slow
def test_upserts_on_the_executors_have_the_derived_columns(plan):
    plan.environment["BAYOU_ROWOPERATIONS_SOURCEBYTES"] = "0"
    servers = plan.kafka.bootstrap_servers
    keyed = KeyedRecords(servers, "user.events.v1", users=200, partitions=4)
    settings = {
        f"{_PROCESSING}.columns": '{kind: "upper(event_type)"}',
        f"{_PROCESSING}.where": "duration_ms >= 0",
        f"{_PROCESSING}.batch-size": "2000",
    }
    arguments = [part for item in settings.items() for part in ("--set", "=".join(item))]
    for _ in range(2):
        keyed.send(800)
        run = plan.run(*arguments, config="upsert.yaml")
        assert run.code == 0, run.complaints
    rows = plan.table("user_events").to_pyarrow_table().to_pylist()
    keyed.check(rows)
    assert all(row["kind"] == row["event_type"].upper() for row in rows)
    assert plan.verify("user-events", config="upsert.yaml", settings=arguments).code == 0
