"""The second file of `examples/plan` on a real broker and a real S3 server, beside a dictionary."""

from __future__ import annotations

import json
import random
import time

from confluent_kafka import Producer

_PARTITIONS = 4


def test_the_table_of_upserts_equals_a_dictionary(plan):
    rng = random.Random(9)
    producer = Producer({"bootstrap.servers": plan.kafka.bootstrap_servers})
    state, orders = {}, {}
    sent = 0
    since = round(time.time() * 1000) - 6 * 3_600_000  # not so old that Kafka's retention takes it

    def send(count):
        nonlocal sent
        for _ in range(count):
            sent += 1
            user, session = f"u{rng.randrange(300)}", rng.choice(["s1", "s2", None])
            second = sent + rng.choice([0, 0, 0, -400])  # some come late
            key = {"user_id": user, "session_id": session}
            kind = rng.choice(["click", "view", "login"])
            value = {**key, "event_type": kind, "timestamp": "2024-01-05T10:00:00Z"}
            value["duration_ms"] = sent
            gone, bad = rng.random() < 0.1, rng.random() < 0.01
            body = b"{no" if bad else json.dumps(value).encode()
            moment = since + 1000 * second
            place = hash_of(user) % _PARTITIONS
            producer.produce(
                "user.events.v1",
                None if gone and not bad else body,
                key=json.dumps(key).encode(),
                partition=place,
                timestamp=moment,
            )
            if bad:
                continue
            # The later record of a key wins; those of one time by their offset, the order here.
            if moment >= orders.get((user, session), 0):
                orders[user, session] = moment
                state[user, session] = None if gone else (kind, sent)
        producer.flush()

    send(3000)
    first = plan.run(config="upsert.yaml")
    assert first.code == 0, first.err
    send(1500)
    second = plan.run(config="upsert.yaml")
    assert second.code == 0, second.err
    rows = plan.table("user_events").to_pyarrow_table().to_pylist()
    found = {(r["user_id"], r["session_id"]): (r["event_type"], r["duration_ms"]) for r in rows}
    assert len(found) == len(rows)
    assert found == {key: value for key, value in state.items() if value is not None}
    kept = [e for e in second.of("maintenance_finished") if e["topic"] == "user-events"]
    assert {e["task"] for e in kept} == {"optimize"}
    assert {e["result"] for e in kept} <= {"done", "nothing"}  # merges may have packed all there is


def hash_of(user):
    """The partition of a key, the same in every run."""
    return sum(user.encode())
