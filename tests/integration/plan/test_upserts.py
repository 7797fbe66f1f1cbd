"""The second file of `examples/plan` on a real broker and a real S3 server, beside a dictionary."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from support.delta_spark_reader import PEERS, rows_by_delta_spark
from support.keyed_records import KeyedRecords

_RECORDS = int(os.environ.get("BAYOU_TEST_UPSERT_RECORDS", "4500"))
_KILLS = int(os.environ.get("BAYOU_TEST_KILLS", "3"))
_TOPIC = "user.events.v1"
_USER_EVENTS = "connector.topics.user-events"
_PARTITIONS = 8


@pytest.fixture
def keyed(plan):
    """Records of an eight-partition topic, and what its table must have."""
    plan.kafka.add_partitions(_TOPIC, _PARTITIONS)
    return KeyedRecords(
        plan.kafka.bootstrap_servers, _TOPIC, users=max(300, _RECORDS // 20), partitions=_PARTITIONS
    )


def upserted(plan, *arguments, timeout=800):
    run = plan.run(*arguments, config="upsert.yaml", timeout=timeout)
    assert run.code == 0, run.complaints
    return run


def rows(plan):
    columns = ["user_id", "session_id", "event_type", "duration_ms"]
    return plan.table("user_events").to_pyarrow_table(columns=columns).to_pylist()


def of_batches(size):
    return ("--set", f"{_USER_EVENTS}.processing.batch-size={size}")


@pytest.mark.slow
@pytest.mark.timeout(1700 + _RECORDS // 50)
def test_the_table_of_upserts_equals_a_dictionary(plan, keyed, tmp_path):
    size = of_batches(max(1000, _RECORDS // 10))
    keyed.send(2 * _RECORDS // 3)
    upserted(plan, *size, timeout=800 + _RECORDS // 100)
    keyed.send(_RECORDS - 2 * _RECORDS // 3)
    second = upserted(plan, *size, timeout=800 + _RECORDS // 100)
    keyed.check(rows(plan))
    letters = plan.table("user_events_dead_letters").to_pyarrow_table(columns=["offset"])
    assert letters.num_rows == keyed.bad
    kept = [e for e in second.of("maintenance_finished") if e["topic"] == "user-events"]
    assert {e["task"] for e in kept} == {"optimize"}
    assert {e["result"] for e in kept} <= {"done", "nothing"}  # merges may have packed all there is
    if PEERS:
        keyed.check(rows_by_delta_spark(plan.disk("user_events"), tmp_path))


@pytest.mark.slow
def test_batches_that_stay_with_the_executors_come_to_the_same(plan, keyed):
    plan.environment["BAYOU_ROWOPERATIONS_SOURCEBYTES"] = "0"
    keyed.send(1500)
    upserted(plan, *of_batches(2000))
    keyed.send(1500, channel="web")
    upserted(plan, *of_batches(2000))
    keyed.check(rows(plan))
    done = [commit["operation"] for commit in plan.table("user_events").history()]
    assert done.count("MERGE") == 2


@pytest.mark.slow
@pytest.mark.timeout(900 + 120 * _KILLS)
def test_killed_at_random_points_the_table_equals_the_dictionary(plan, keyed, tmp_path):
    rng = random.Random()
    for number in range(_KILLS):
        keyed.send(1000)
        batches = 4  # at least, and more than are waited for
        if number % 2 == 1:
            batches = 2
            plan.environment["BAYOU_ROWOPERATIONS_SOURCEBYTES"] = "0"
        running = plan.start("--once", *of_batches(1000 // batches), config="upsert.yaml")
        end = (running.kill_somewhere, running.lose_jvm, running.lose_worker)[number % 3]
        end(rng, rng.randrange(batches))
        plan.environment.pop("BAYOU_ROWOPERATIONS_SOURCEBYTES", None)
        if number == _KILLS // 2:
            shutil.rmtree(plan.state)
    upserted(plan, *of_batches(1000))
    keyed.check(rows(plan))
    proof = plan.verify("user-events", config="upsert.yaml")
    assert proof.code == 0, proof.out
    if PEERS:
        keyed.check(rows_by_delta_spark(plan.disk("user_events"), tmp_path))


@pytest.mark.slow
def test_records_gone_by_retention_stop_the_topic_or_are_passed_over_as_told(plan, keyed):
    keyed.send(400)
    upserted(plan)
    before = rows(plan)
    keyed.send(400)
    plan.kafka.delete_records(_TOPIC, dict.fromkeys(range(_PARTITIONS), 60))
    run = plan.run(config="upsert.yaml")
    assert run.code == 1
    assert "were removed by retention" in run.of("error")[0]["message"]
    assert rows(plan) == before
    run = upserted(plan, "--set", f"{_USER_EVENTS}.on-data-loss=continue")
    [lost] = run.of("records_lost")
    assert {span["end"] for span in lost["spans"].values()} == {60}
    proof = plan.verify("user-events", config="upsert.yaml")
    assert proof.code == 0, proof.out
    plan.kafka.delete_topic(_TOPIC)
    plan.kafka.create_topic(_TOPIC, _PARTITIONS)
    run = plan.run(config="upsert.yaml")
    assert run.code == 1
    assert "deleted and recreated since" in run.of("error")[0]["message"]


@pytest.mark.slow
def test_a_table_that_is_restored_while_it_is_upserted_stops_the_topic(plan, keyed):
    keyed.send(400)
    upserted(plan, *of_batches(100))
    plan.table("user_events").restore(1)
    keyed.send(100)
    run = plan.run(config="upsert.yaml")
    assert run.code == 1
    message = run.of("error")[0]["message"]
    assert "is a RESTORE" in message
    assert "accept-restore" in message


@pytest.mark.slow
def test_a_field_that_comes_in_the_middle_is_a_column(plan, keyed):
    keyed.send(300)
    upserted(plan)
    keyed.send(300, plan_name="gold")
    upserted(plan, *of_batches(100))
    keyed.check(rows(plan))
    table = plan.table("user_events").to_pyarrow_table(columns=["plan_name", "duration_ms"])
    late = {n for n, name in zip(*reversed(table.to_pydict().values()), strict=True) if name}
    assert late == {n for _, n in keyed.rows.values() if n > 300}


@pytest.mark.slow
def test_of_two_copies_that_upsert_one_gives_way(plan, keyed):
    quick = ("--set", f"{_USER_EVENTS}.processing.flush-interval=1")
    keyed.send(200)
    first = plan.start(*quick, config="upsert.yaml")
    first.next("batch_committed")
    plan.environment["BAYOU_STATE_PATH"] += "-2"
    second = plan.start(*quick, config="upsert.yaml")
    second.all_started()
    # Both take records until they meet.
    ended = plan.produce_until_one_ends(lambda: keyed.send(40), first, second)
    assert "Run only one pipeline" in ended["error"]["message"]
    for running in (first, second):
        running.terminate()
    assert sorted((first.end(), second.end())) == [0, 1]
    upserted(plan)
    keyed.check(rows(plan))
