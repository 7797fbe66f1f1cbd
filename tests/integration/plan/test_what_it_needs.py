"""The plan without what it needs: a broker that answers, and room for its state."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "plan"
_BATCHES_OF_TEN = ("--set", "connector.topics.user-events.processing.batch-size=10")
_IN_SMALL_STATE = 'mkdir -p "$0" && mount -t tmpfs -o "$1" none "$0" && shift && exec "$@"'


@pytest.fixture
def one_topic(tmp_path):
    """The file with its first topic only."""
    whole = (_EXAMPLES / "append.yaml").read_text()
    config = tmp_path / "config" / "append.yaml"
    shutil.copytree(_EXAMPLES / "schemas", config.parent / "schemas")
    config.write_text(whole[: whole.index("    order-events:")])
    return str(config)


@pytest.mark.slow
def test_a_broker_that_is_down_is_one_error_for_all_topics(plan):
    plan.environment["KAFKA_BOOTSTRAP_SERVERS"] = "127.0.0.1:1"
    run = plan.run()
    assert run.code == 1
    assert [topic["error"]["type"] for topic in run.of("topic_finished")] == ["KafkaError"] * 3
    message = _only_error(run.events)
    assert "Kafka brokers 127.0.0.1:1: no answer within 1 s" in message
    assert "Check that the brokers run" in message


@pytest.mark.slow
def test_a_state_path_without_room_is_one_error_before_spark_starts(plan, one_topic):
    code, events = _run_with_small_state(plan, "nr_inodes=2", one_topic, timeout=120)
    assert code == 1
    message = _only_error(events)
    assert f"The state path {plan.state}" in message
    assert "No space left on device. Free disk space, or set connector.state-path" in message


@pytest.mark.slow
def test_a_state_path_that_fills_up_stops_nothing(plan, one_topic):
    ledger = plan.produce_user_events(100, bad_every=9)
    code, events = _run_with_small_state(plan, "size=32k", one_topic, *_BATCHES_OF_TEN)
    assert code == 0
    assert sum(event["event"] == "batch_committed" for event in events) >= 10
    plan.check_user_events(ledger)


def _only_error(events):
    [error] = [event for event in events if event["event"] == "error"]
    assert len(error["message"].splitlines()) == 1
    return error["message"]


def _run_with_small_state(plan, options, config, *arguments, timeout=300):
    """Run the command where the state path is a file system of its own, which only it sees."""
    command = [sys.executable, "-m", "bayou.cli", "run", config, "--once", "--json", *arguments]
    done = subprocess.run(
        [
            *("unshare", "--user", "--map-root-user", "--mount"),
            *("sh", "-c", _IN_SMALL_STATE, str(plan.state), options, *command),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env=plan.environment,
        timeout=timeout,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]
