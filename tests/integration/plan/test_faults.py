"""The plan when servers fail, topics change underneath and somebody starts it twice."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter

import pytest

_SMALL = ("--set", "connector.topics.user-events.processing.batch-size=50")
_QUICK = ("--set", "connector.topics.user-events.processing.flush-interval=1")


@pytest.mark.slow
def test_servers_that_go_away_for_a_while_are_waited_for(plan):
    ledger = plan.produce_user_events(600)
    running = plan.start("--once", *_SMALL)
    for number in range(1, 13):
        running.next("batch_committed")
        # The sleeps are the outages: a client that retries reports nothing to wait for.
        if number == 2:
            plan.s3.kill()
            time.sleep(3)  # deliberate: an outage
            plan.s3.start()
        if number == 4:
            plan.s3.pause()
            time.sleep(3)  # deliberate: an outage
            plan.s3.resume()
        if number == 6:
            plan.kafka.kill()
            time.sleep(2)  # deliberate: an outage
            plan.kafka.start()
    assert running.end() == 0
    plan.check_user_events(ledger)


@pytest.mark.slow
def test_brokers_that_are_away_for_long_end_no_topic(plan):
    running = plan.start(*_QUICK)
    running.all_started()
    plan.produce_user_events(40)
    running.next("batch_committed")
    plan.kafka.kill()
    assert running.next("attempt_failed")["what"] == "topic"  # the client gives up after 30 s
    plan.kafka.start()
    ledger = plan.produce_user_events(40)
    running.next("batch_committed")
    running.terminate()
    assert running.end() == 0
    assert running.told("error") is None
    assert plan.run().code == 0
    plan.check_user_events(ledger)


@pytest.mark.slow
def test_told_to_end_while_the_brokers_are_away_it_ends_well(plan):
    running = plan.start(*_QUICK)
    running.all_started()
    plan.kafka.kill()
    running.next("attempt_failed")
    running.terminate()
    code = running.end()
    plan.kafka.start()
    assert (code, running.told("error")) == (0, None)


@pytest.mark.slow
def test_a_store_that_stays_away_is_one_error_and_the_rest_comes_later(plan):
    ledger = plan.produce_user_events(200)
    running = plan.start(
        *("--once", *_SMALL, "--set", "connector.topics.user-events.processing.max-retries=0")
    )
    running.next("batch_committed")
    plan.s3.kill()
    error = running.next("error")
    assert running.end() == 1
    assert "user-events" in error["message"]
    assert len(error["message"].splitlines()) == 1
    assert plan.s3.secret_key not in error["message"]
    plan.s3.start()
    assert plan.run().code == 0
    plan.check_user_events(ledger)


@pytest.mark.slow
def test_a_running_plan_commits_what_comes_and_ends_well_when_told(plan):
    running = plan.start(*_QUICK)
    running.all_started()
    for _ in range(3):
        ledger = plan.produce_user_events(60)
        running.next("batch_committed")
    second = plan.run()
    assert second.code == 1
    assert "another process runs it" in second.of("error")[0]["message"]
    running.terminate()
    assert running.end() == 0
    assert plan.run().code == 0
    plan.check_user_events(ledger)


@pytest.mark.slow
def test_partitions_that_are_added_while_it_runs_are_read_from_their_start(plan):
    running = plan.start(*_QUICK)
    running.all_started()
    plan.produce_user_events(40)
    running.next("batch_committed")
    plan.kafka.add_partitions("user.events.v1", 6)
    ledger = plan.produce_user_events(120, partitions=6)
    taken = 0
    while taken < 120:
        batch = running.next("batch_committed")
        taken += batch["rows"] + batch["dead_letters"]
    running.terminate()
    assert running.end() == 0
    assert set(ledger.ends) == set(range(6))
    plan.check_user_events(ledger)


@pytest.mark.slow
def test_of_two_copies_with_states_of_their_own_one_gives_way(plan):
    ledger = plan.produce_user_events(200)
    first = plan.start(*_QUICK)
    first.next("batch_committed")
    plan.environment["BAYOU_STATE_PATH"] += "-2"
    second = plan.start(*_QUICK)
    second.all_started()
    # Both take records until they meet.
    ended = plan.produce_until_one_ends(lambda: plan.produce_user_events(40), first, second)
    assert "Run only one pipeline" in ended["error"]["message"]
    for running in (first, second):
        running.terminate()
    assert sorted((first.end(), second.end())) == [0, 1]
    assert plan.run().code == 0
    plan.check_user_events(ledger)


@pytest.mark.slow
def test_a_record_of_ten_megabytes_stops_nothing(plan):
    long = json.dumps({"id": 1, "name": "x" * (10 << 20)}).encode()
    poison = b"y" * (10 << 20)
    plan.send("custom.topic.v1", [long, poison, b'{"id": 2}', b'{"id": 3, "unknown": 1}'])
    assert plan.run().code == 0
    rows = plan.table("custom_topic").to_pyarrow_table().to_pylist()
    assert sorted((row["id"], len(row["name"] or "")) for row in rows) == [(1, 10 << 20), (2, 0)]
    letters = plan.table("custom_topic_dead_letters").to_pyarrow_table().to_pylist()
    assert {len(letter["value"]) for letter in letters} == {10 << 20, 23}
    assert all(len(letter["reason"]) < 500 for letter in letters)


@pytest.mark.slow
class TestATopicThatChanged:
    """It stops, with what to decide; the others go on."""

    @pytest.fixture
    def taken(self, plan):
        """Three records of each partition are in the table."""
        plan.send("custom.topic.v1", [b'{"id": 1}'] * 12)
        assert plan.run().code == 0
        return plan

    def test_deleted_and_recreated(self, taken):
        taken.kafka.delete_topic("custom.topic.v1")
        taken.kafka.create_topic("custom.topic.v1", 4)
        taken.send("custom.topic.v1", [b'{"id": 2}'] * 40)
        self._check(taken, "deleted and recreated", "Set another table-path")

    @pytest.mark.slow
    def test_deleted_and_recreated_while_it_runs(self, taken):
        running = taken.start(
            *_QUICK, "--set", "connector.topics.custom-topic.processing.flush-interval=1"
        )
        running.all_started()
        taken.send("custom.topic.v1", [b'{"id": 1}'] * 12)
        assert running.next("batch_committed")["topic"] == "custom-topic"
        running.pause()
        taken.kafka.delete_topic("custom.topic.v1")
        taken.kafka.create_topic("custom.topic.v1", 4)
        taken.send("custom.topic.v1", [b'{"id": 2}'] * 80)
        running.resume()
        message = running.next("error")["message"]
        assert "deleted and recreated since" in message
        assert "Set another table-path" in message
        ledger = taken.produce_user_events(50)
        running.next("batch_committed")
        running.terminate()
        assert running.end() == 1
        assert taken.table("custom_topic").to_pyarrow_table().column("id").to_pylist() == [1] * 24
        taken.check_user_events(ledger)

    def test_records_gone_by_retention(self, taken):
        taken.send("custom.topic.v1", [b'{"id": 2}'] * 12)
        taken.kafka.delete_records("custom.topic.v1", {1: 5})
        self._check(taken, "offsets 3 to 4 were removed by retention", "table-path")

    @pytest.mark.slow
    def test_records_gone_by_retention_while_it_runs_are_passed_over_where_told(self, taken):
        topic = "connector.topics.custom-topic"
        running = taken.start(
            *("--set", f"{topic}.processing.flush-interval=1"),
            *("--set", f"{topic}.on-data-loss=continue"),
        )
        running.all_started()
        taken.send("custom.topic.v1", [b'{"id": 1}'] * 12)
        running.next("batch_committed")
        running.pause()
        taken.send("custom.topic.v1", [b'{"id": 2}'] * 40)
        taken.kafka.delete_records("custom.topic.v1", dict.fromkeys(range(4), 10))
        running.resume()
        spans = running.next("records_lost")["spans"]
        assert {(span["start"], span["end"]) for span in spans.values()} == {(6, 10)}
        running.next("batch_committed")
        running.terminate()
        assert running.end() == 0
        found = Counter(taken.table("custom_topic").to_pyarrow_table().column("id").to_pylist())
        assert found == {1: 24, 2: 24}

    def _check(self, plan, *texts):
        ledger = plan.produce_user_events(50)
        run = plan.run()
        assert run.code == 1
        [error] = run.of("error")
        assert "custom-topic" in error["message"]
        for text in texts:
            assert text in error["message"]
        plan.check_user_events(ledger)
        assert plan.table("custom_topic").to_pyarrow_table().num_rows == 12


@pytest.mark.slow
def test_the_state_is_of_no_consequence(plan):
    ledger = plan.produce_user_events(100)
    assert plan.run().code == 0
    shutil.rmtree(plan.state)
    ledger = plan.produce_user_events(100)
    assert plan.run().code == 0
    plan.check_user_events(ledger)
